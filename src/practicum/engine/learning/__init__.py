"""Prefix-tree batches to an update of the adapter."""
