"""Views of a run, read from its folder and nothing else."""
