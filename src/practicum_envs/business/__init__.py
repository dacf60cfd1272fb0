"""Business cases: look at what matters, weigh options and risks, decide, and write the plan."""
