"""What a check of an environment found."""

from dataclasses import asdict, dataclass

__all__ = ["EnvironmentCheck", "LevelCheck"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCheck:
    """What was found at one level."""

    level: int
    n: int
    """Tasks played."""
    asked: int
    """Tasks asked for; more than `n` only when the level has no more."""
    with_reference: int
    """Tasks that bring a solution: all, except among tasks that users bring."""
    reference_solved: int
    """Tasks the reference solved for full marks."""
    do_nothing_paid: int
    """Tasks where doing nothing succeeded or earned something; must be 0."""
    near_misses: int = 0
    """Plausible wrong solutions played."""
    near_miss_solved: int | None = None
    """Tasks that one of them solved; must be 0. None where none is known."""
    random_solved: int | None
    """Tasks solved at random; None where no actions are listed."""
    problems: tuple[str, ...] = ()
    """The first things found wrong, one sentence each."""

    @property
    def is_sound(self) -> bool:
        """Whether the level may be trained on."""
        return (
            not self.problems
            and 0 < self.n == self.asked
            and self.with_reference == self.reference_solved
            and self.do_nothing_paid == 0
            and not self.near_miss_solved
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentCheck:
    """What was found at every level."""

    env: str
    seed: int
    levels: tuple[LevelCheck, ...]

    @property
    def is_sound(self) -> bool:
        """Whether every level may be trained on."""
        return bool(self.levels) and all(level.is_sound for level in self.levels)

    def as_json(self) -> dict[str, object]:
        """The report as JSON values."""
        levels = [{**asdict(level), "is_sound": level.is_sound} for level in self.levels]
        return {"env": self.env, "seed": self.seed, "is_sound": self.is_sound, "levels": levels}
