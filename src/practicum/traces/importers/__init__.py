"""Traces that others recorded, read into episodes: a file in, episodes out, nothing else."""
