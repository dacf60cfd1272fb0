"""Task folders in the form of Harbor and Terminal-Bench, played without containers."""
