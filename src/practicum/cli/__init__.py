"""What people see in a terminal: one file per verb."""
