"""Who does the work: from a session's prompt to its end."""
