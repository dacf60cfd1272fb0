"""Nouns, contracts and config. No torch, no files, and no import of another room."""
