"""Sandboxes by bubblewrap: a launcher process, namespaces, a root file system."""
