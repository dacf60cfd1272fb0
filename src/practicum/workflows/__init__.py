"""Whole pieces of work: a study, an export, a served site, the loop that learns from it."""
