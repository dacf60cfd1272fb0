"""The decoder of a language model, as sampling and learning use it."""
