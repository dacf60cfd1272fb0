"""A trained model leaves: what is checked before it does, and what is written beside it."""
