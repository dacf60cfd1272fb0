"""HTTP APIs that clients speak: one module per dialect, each made of pure functions."""
