"""Credit and loss, one file per method, pure functions."""
