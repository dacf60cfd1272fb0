"""Sandboxes in containers, by the command line client of an engine."""
