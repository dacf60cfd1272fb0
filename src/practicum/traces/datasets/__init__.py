"""Recorded episodes to training sets: what is kept, how it is weighed, where it is written."""
