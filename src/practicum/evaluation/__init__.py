"""Held-out scores with intervals, and paired comparisons."""
