"""Sandboxes without namespaces: a guardian process starts commands that confine themselves."""
