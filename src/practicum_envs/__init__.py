"""The work: environments, each a package like a user's own, found by entry point."""
