"""Episodes to samples to one prefix tree."""
