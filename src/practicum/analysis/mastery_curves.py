"""Mastery by level over time, where a run has a curriculum that measures it."""

from dataclasses import dataclass

from practicum.analysis.run_view import RunView, StepRow

MASTERY, DRAWS = "mastery_", "draws_"


@dataclass(frozen=True, slots=True, kw_only=True)
class MasteryCurve:
    """How well a level, a family or a phase's tasks go."""

    name: str
    """As people write it."""
    success: tuple[float | None, ...]
    """After each step of the run."""
    draws: float | None
    """Its share of the recent draws."""

    @property
    def newest(self) -> float | None:
        """Success after the last step."""
        return self.success[-1]


def mastery_curves(view: RunView) -> list[MasteryCurve]:
    """One for each bucket of the newest step; none without a curriculum that measures."""
    row = view.last_step
    if row is None:
        return []
    keys = [key for key in row.values if key.startswith(MASTERY)]
    return [
        MasteryCurve(
            name=bucket_name(key.removeprefix(MASTERY)),
            success=tuple(one.number(key) for one in view.steps),
            draws=row.number(DRAWS + key.removeprefix(MASTERY)),
        )
        for key in keys
    ]


def bucket_name(bucket: str) -> str:
    """A level as people write it; other names as they are.

    >>> bucket_name("level_2_family_sums"), bucket_name("fractions")
    ('level 2 sums', 'fractions')
    """
    if not bucket.startswith("level_"):
        return bucket
    level, _, about = bucket.removeprefix("level_").partition("_")
    return f"level {level} {about.removeprefix('family_')}".strip()


def phase_words(row: StepRow) -> list[str]:
    """The curriculum's phase at a step, where it has phases."""
    phase = row.number("phase")
    return [] if phase is None else [f"phase {phase:.0f} ({row.values.get('phase_name')})"]


def unsolved_kinds(view: RunView) -> tuple[list[str], int]:
    """The kinds of tasks that practice never solved, of how many; none where there is one kind."""
    row = view.last_step
    unsolved = row.values.get("unsolved_kinds") if row is not None else None
    if row is None or not isinstance(unsolved, list):
        return [], 0
    kinds = round(row.number("kinds") or 0.0)
    return ([bucket_name(str(kind)) for kind in unsolved] if kinds >= 2 else []), kinds
