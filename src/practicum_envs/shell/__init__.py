"""Tasks solved with shell commands in a sandbox, checked by the state of its files and accounts."""
