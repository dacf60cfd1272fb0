"""What this machine has, and whether a run fits it."""
