"""Sandboxes without namespaces: each command confined by itself, under a guardian."""
