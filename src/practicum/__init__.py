"""Practicum trains the model that does the work, by doing the work."""

__version__ = "0.1.0"

__all__ = ["__version__"]
