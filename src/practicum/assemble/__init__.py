"""Config to wired objects: the one place that knows every room, and the one driver of a run."""
