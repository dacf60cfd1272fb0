"""Tasks of the user's own, as rows of a file or of a function."""

from practicum.environments.tasks.environment import TasksEnvironment, TasksOptions

__all__ = ["TasksEnvironment", "TasksOptions"]
