"""`episode_advantages`: what an episode's score says beside the others of its group."""

import numpy as np

STD_FLOOR = 1e-4
"""Added to standard deviations, so that nearly equal scores do not become huge advantages."""


def episode_advantages(values: tuple[float, ...], scale: str) -> list[float]:
    """Scores minus their group's mean, divided by the standard deviation with `scale` "std".

    >>> [round(a, 3) for a in episode_advantages((1.0, 0.0, 0.0, 1.0), "std")]
    [0.866, -0.866, -0.866, 0.866]
    """
    scores = np.asarray(values, np.float64)
    centred = scores - scores.mean()
    if scale == "std":
        centred = centred / (scores.std(ddof=1) + STD_FLOOR)
    return [float(a) for a in centred]
