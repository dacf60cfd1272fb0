"""pass@k: the chance that at least one of k attempts solves a task."""

from collections.abc import Sequence
from math import comb

from practicum.core.errors import UserError
from practicum.core.report import Interval
from practicum.evaluation.intervals import share_interval

__all__ = ["pass_at_k", "pass_at_k_interval"]


def pass_at_k(attempts: int, solved: int, k: int) -> float:
    """Unbiased estimate for one task (Chen et al. 2021): 1 - C(n - c, k) / C(n, k).

    It is the share of the k-subsets of the attempts that hold a success.

    >>> pass_at_k(attempts=4, solved=1, k=2)
    0.5
    """
    if not 0 <= solved <= attempts:
        raise ValueError(f"{solved} of {attempts} attempts cannot be solved")
    if not 1 <= k <= attempts:
        raise UserError(
            f"pass@{k} cannot be estimated from {attempts} attempts a task; "
            f"k may be 1 to {attempts}, or ask for more attempts with --k {k}"
        )
    return 1 - comb(attempts - solved, k) / comb(attempts, k)


def pass_at_k_interval(successes: Sequence[Sequence[bool | None]], k: int) -> Interval:
    """Mean pass@k over tasks, clustered by task.

    None marks a masked attempt, which is left out; so is a task with fewer than k attempts left,
    and `n` counts the tasks that remain.
    """
    kept = [[s for s in task if s is not None] for task in successes]
    counted = [task for task in kept if len(task) >= k]
    if not counted:
        most = max((len(task) for task in kept), default=0)
        raise UserError(
            f"pass@{k} needs a task with {k} scored attempts, and the most is {most}; "
            f"ask for more attempts with --k {k}"
        )
    values = [pass_at_k(len(task), sum(task), k) for task in counted]
    # With k attempts of k the value is a plain yes or no, which is one trial a task.
    spare = max(len(task) for task in counted) - k
    return share_interval(values, attempts=1 if spare == 0 else spare + k)
