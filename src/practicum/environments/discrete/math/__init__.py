"""Algebra by named actions, in exact arithmetic.

Read in this order: `equation` (what is written), `steps` (what actions do to it), `solver` (the
cheapest way to finish), `rules` (what pays), `problems` (the supply), `environment`.
"""

from practicum.environments.discrete.math.environment import (
    MathEnvironment,
    MathOptions,
    MathSession,
)

__all__ = ["MathEnvironment", "MathOptions", "MathSession"]
