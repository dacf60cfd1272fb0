"""Linear equations solved by named actions, in exact arithmetic."""
