"""The families of office tasks."""
