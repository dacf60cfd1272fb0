"""Task to scored episode to group."""
