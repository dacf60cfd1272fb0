"""Sources of tasks, and the places where they are done."""
