"""Linear equations solved by named actions, in exact arithmetic.

Read in this order: `equation` (terms as written), `rules` (actions and rewards), `problems` (the
task generator), `math_environment`.
"""
