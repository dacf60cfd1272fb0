"""Rewards by a language model that judges the episodes of a group."""
