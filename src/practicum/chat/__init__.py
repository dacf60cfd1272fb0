"""Messages to tokens."""
