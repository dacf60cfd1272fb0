"""Families of programming tasks, each a function that draws one task from a seed."""
