"""What an episode was worth, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Score"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Named components and their weights; the value is derived, so it cannot disagree with them.

    A component that could not be computed is None, and then the whole score is None: an unscored
    episode is never treated as worth 0.

    >>> Score(components={"solved": 1.0, "brevity": 0.5}, weights={"brevity": 0.2}).value
    1.1
    >>> Score(components={"solved": None}).value is None
    True
    """

    components: Mapping[str, float | None]
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight by component; 1 where none is given."""
    turn_values: tuple[float, ...] = ()
    """What each turn was worth, where the reward can say; they sum to a component."""
    reason: str = ""

    @classmethod
    def unscored(cls, reason: str) -> "Score":
        """A score that could not be had."""
        return cls(components={"unscored": None}, reason=reason)

    @property
    def value(self) -> float | None:
        """The weighted sum, or None when any component is missing."""
        total = 0.0
        for name, component in self.components.items():
            if component is None:
                return None
            total += self.weights.get(name, 1.0) * component
        return total
