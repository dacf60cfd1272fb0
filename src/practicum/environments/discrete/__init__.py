"""Environments with a discrete action space: each turn is one named action."""
