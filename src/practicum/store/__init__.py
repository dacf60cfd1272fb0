"""What survives a kill: config, facts, metrics, episodes, checkpoints."""
