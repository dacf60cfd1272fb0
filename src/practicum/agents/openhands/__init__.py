"""The agent of the OpenHands SDK, in its own process and Python environment."""
