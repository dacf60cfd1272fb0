"""Continuous batching: requests to completions with their log-probabilities."""
