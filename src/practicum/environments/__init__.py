"""Environments: tasks, sessions to solve them in, a checker of both, and a server for them."""
