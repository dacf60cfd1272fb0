"""Control groups: limits for a whole sandbox."""
