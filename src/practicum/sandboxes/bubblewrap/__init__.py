"""Sandboxes by bubblewrap (`bwrap`): a launcher process, namespaces, a root file system."""
