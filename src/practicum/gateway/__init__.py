"""The HTTP server through which agents use the model; every token sampled is recorded."""
