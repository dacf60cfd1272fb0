"""Phases of rising difficulty: one is entered when the one before it is mastered."""

import random
from collections.abc import Mapping, Sequence

from practicum.core.config.curriculum_config import PhasesConfig
from practicum.core.errors import UserError
from practicum.core.task import JSON
from practicum.training.curricula.mastery import GroupResult, Mastery
from practicum.training.curricula.measured_tasks import mastery_from_json, mastery_to_json
from practicum.training.curricula.task_sources import level_bucket

PHASES = ("warm-up", "intermediate", "advanced", "expert")
"""Names of the phases; more than these are numbered."""


def spread_levels(levels: Sequence[int], most: int = len(PHASES)) -> tuple[tuple[int, ...], ...]:
    """The levels in order, spread evenly over phases; the last ones get what is left over.

    >>> spread_levels([1, 2, 3, 4, 5])
    ((1,), (2,), (3,), (4, 5))
    """
    count, ordered = min(most, len(levels)), sorted(levels)
    edges = [number * len(ordered) // count for number in range(count + 1)]
    return tuple(tuple(ordered[edges[n] : edges[n + 1]]) for n in range(count))


class PhasePicker:
    """A `BucketPicker` that draws from the current phase and, now and then, from those passed."""

    def __init__(self, config: PhasesConfig, phases: Sequence[Sequence[int]], seed: int) -> None:
        self._config = config
        self._phases = [[level_bucket(level) for level in phase] for phase in phases]
        self._seed = seed
        self._phase = 0
        self.mastery: dict[str, Mastery] = {}

    @property
    def phase(self) -> int:
        """The current phase, from 1."""
        return self._phase + 1

    def rank(self, buckets: Sequence[str], draw: int, last: Mapping[str, int]) -> list[str]:
        """Levels of the current phase in turn, or of earlier ones in turn; never of later ones."""
        now = self._phases[self._phase]
        passed = [bucket for phase in self._phases[: self._phase] for bucket in phase]
        now, passed = (sorted(part, key=lambda b: last.get(b, -1)) for part in (now, passed))
        is_replay = random.Random(f"phases {self._seed} {draw}").random() < self._config.replay
        return [*passed, *now] if is_replay else [*now, *passed]

    def observe(self, bucket: str, result: GroupResult) -> None:
        """Go on when every level of the phase is mastered, back when one passed is forgotten."""
        if not result.says_success:
            return
        if result.success is None:
            raise UserError(
                "curriculum: phases goes by success, and this environment does not say whether an "
                "episode succeeded; write curriculum: adaptive, which goes by scores alone"
            )
        config = self._config
        seen = self.mastery.setdefault(bucket, Mastery())
        seen.observe(result, config.memory)
        seen.judge(config.threshold, config.min_episodes)
        for number in range(self._phase):
            if not self._is_passed(number):
                self._phase = number
                return
        while self._phase + 1 < len(self._phases) and self._is_passed(self._phase):
            self._phase += 1

    def _is_passed(self, phase: int) -> bool:
        levels = self._phases[phase]
        return all(b in self.mastery and self.mastery[b].is_mastered for b in levels)

    def metrics(self) -> dict[str, JSON]:
        """The phase, as a number from 1 and by its name."""
        named = PHASES[self._phase] if self._phase < len(PHASES) else f"phase {self.phase}"
        return {"phase": self.phase, "phase_name": named}

    def state(self) -> dict[str, JSON]:
        """The phase and the levels' sums."""
        return {"phase": self._phase, "mastery": mastery_to_json(self.mastery)}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """See `BucketPicker.restore`."""
        phase = state["phase"]
        assert isinstance(phase, int)
        self._phase, self.mastery = phase, mastery_from_json(state["mastery"])
