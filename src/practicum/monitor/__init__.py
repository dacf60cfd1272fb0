"""Views of a run folder; reads it and nothing else."""
