"""What is here, and what fits."""
