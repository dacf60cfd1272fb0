"""The curves of a run that are worth drawing: which numbers, and where their axes end."""

from collections.abc import Sequence
from dataclasses import dataclass

from practicum.analysis.run_view import RunView
from practicum.core.checkpoint import Interval
from practicum.stats.intervals import mean_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One recorded number over the steps."""

    field: str
    title: str
    low: float | None = None
    """Where the axis begins, if not at the lowest value."""
    high: float | None = None


CURVES = (
    Curve(field="reward", title="reward"),
    Curve(field="success", title="success", low=0.0, high=1.0),
    Curve(field="entropy", title="entropy", low=0.0),
    Curve(field="kl_to_base", title="KL to base"),
    Curve(field="logprob_gap", title="log-prob gap", low=0.0),
    Curve(field="grad_norm", title="gradient norm", low=0.0),
)


OFFLINE_CURVES = (
    Curve(field="loss", title="loss"),
    Curve(field="heldout_loss", title="held-out loss"),
    Curve(field="heldout_in_order", title="held-out accuracy", low=0.0, high=1.0),
    Curve(field="margin", title="margin"),
    Curve(field="pairs_in_order", title="accuracy", low=0.0, high=1.0),
    Curve(field="gain_desirable", title="gain of good ones"),
    Curve(field="gain_undesirable", title="gain of bad ones"),
    Curve(field="kl_to_base", title="KL to base"),
    Curve(field="grad_norm", title="gradient norm", low=0.0),
)
"""Of methods that learn from recorded examples; each is drawn where the method reports it."""


def curves_of(view: RunView) -> tuple[Curve, ...]:
    """What the newest step's method reports."""
    if view.last_step is None or not view.last_step.is_offline:
        return CURVES
    reported = {name for row in view.steps for name in row.values}
    return tuple(curve for curve in OFFLINE_CURVES if curve.field in reported)


WINDOWS = 20
"""Points of a line of means, at most: enough for its shape, each of enough steps to be calm."""
FEWEST_IN_WINDOW = 3


def window_means(points: Sequence[tuple[int, float]]) -> tuple[int, dict[int, Interval]]:
    """Means of neighbouring steps with 95 % intervals over them, by the last step of each window.

    Gives the steps of a window too. A rise within a window widens its interval; a few steps too
    many at the start are left out.

    >>> size, means = window_means([(1, 9.0), (2, 1.0), (3, 2.0), (4, 3.0)])
    >>> size, {step: found.value for step, found in means.items()}
    (3, {4: 2.0})
    """
    size = max(FEWEST_IN_WINDOW, -(-len(points) // WINDOWS))
    ends = range(len(points), size - 1, -size)
    windows = [points[end - size : end] for end in reversed(ends)]
    return size, {one[-1][0]: mean_interval([value for _, value in one]) for one in windows}
