"""The services of one company: HTTP handlers over its state, with the standard library alone."""
