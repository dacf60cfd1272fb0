"""Experiments in made-up worlds whose laws are hidden: choose them, read them, conclude."""
