"""What to change where groups teach nothing, by why their scores are equal."""

UNSOLVED = 0.02
"""Success up to which a policy solves nothing but by luck."""
SOLVED = 0.9
"""Success from which equal scores are what learning looks like at its end."""
SELDOM = 0.3
"""Success below which a group of equal scores is most likely one that failed."""
UNREADABLE = 0.5
"""Share of turns from which what the model writes is not yet in the form of the task."""


def flat_advice(success: float | None, unreadable: float | None) -> str:
    """What helps groups of equal scores, in a clause.

    Args:
        success: The share of recent episodes that succeeded; None where it is not known.
        unreadable: The share of recent turns in no known form, where it is known.

    >>> flat_advice(0.95, 0.0)
    'nearly every attempt succeeds; harder tasks teach more'
    """
    if unreadable is not None and unreadable >= UNREADABLE:
        return (
            f"{unreadable:.0%} of turns are in no known form, so the model cannot speak to the "
            "task yet; imitation first helps (warm_start=reference and more steps), or a model "
            "that can write, such as model=smollm2-135m"
        )
    if success is None:
        return "easier tasks, a larger rollouts.group_size or a higher rollouts.temperature helps"
    if success <= UNSOLVED:
        return (
            "no attempt succeeds, so there is nothing to compare; imitation for longer helps most "
            "(warm_start.until=0.9 and more steps), then easier tasks, such as env.level=1, or a "
            "larger model"
        )
    if success < SELDOM:
        return "few attempts succeed; easier tasks or longer imitation (warm_start.until=0.9) helps"
    if success >= SOLVED:
        return "nearly every attempt succeeds; harder tasks teach more"
    return (
        "a task is solved always or never; curriculum=adaptive or a larger rollouts.group_size "
        "finds those in between"
    )
