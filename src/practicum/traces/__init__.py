"""Others' work to training sets: imported, redacted, recorded, built."""
