"""Agents that work on tasks, and rollouts: their scored episodes."""
