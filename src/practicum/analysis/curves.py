"""The curves of a run that are worth drawing: which numbers, and where their axes end."""

from dataclasses import dataclass

from practicum.analysis.run_view import RunView


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
