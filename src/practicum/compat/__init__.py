"""Other systems' manners: ART's scripts, and whole pipelines in one call."""
