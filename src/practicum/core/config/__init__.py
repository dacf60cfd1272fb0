"""What a run is told, checked when it is read. Imports nothing heavy."""
