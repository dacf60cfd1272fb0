"""Statistics, each in one place: intervals, tests, and when two figures differ."""
