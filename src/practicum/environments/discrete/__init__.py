"""Environments whose turns are one named action each."""
