"""Several machines: samplers and environments as actors of a Ray cluster."""
