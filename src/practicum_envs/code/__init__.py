"""The `code` environment: programs written, tested and made faster, scored by running them."""
