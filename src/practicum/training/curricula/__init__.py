"""Curricula that choose tasks by how earlier ones went: phases, and an adaptive sampler."""
