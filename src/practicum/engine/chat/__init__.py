"""Messages to tokens and back, by each model's chat template."""
