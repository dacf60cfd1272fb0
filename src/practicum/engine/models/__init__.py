"""From a model's name to weights in memory, and the adapter on them."""
