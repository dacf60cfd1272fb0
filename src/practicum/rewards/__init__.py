"""Evidence to scores."""
