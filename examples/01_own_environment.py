"""A whole environment of your own: check it, then let the tiny model learn it in half a minute.

The task: seven lamps, some of them on; switch lamps until all are off, then say done.
"""

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import combinations
from tempfile import TemporaryDirectory
from typing import ClassVar

import practicum as pr

LAMPS = ("red", "green", "blue", "white", "amber", "pink", "violet")
ACTIONS = tuple(pr.ActionForm(name=name) for name in (*LAMPS, "done"))
STATES = [lit for n in range(1, 8) for lit in combinations(LAMPS, n)]


class LampSession:
    """One episode."""

    def __init__(self, lit: Sequence[str]) -> None:
        self._lit = set(lit)
        self._paid: list[float] = []
        self._solved = self._is_over = False

    def prompt(self) -> list[pr.Message]:
        """What the model is told first."""
        rules = "Switch lamps until all are off, then say done."
        return [pr.Message(role="system", content=rules), self._shown()]

    def actions(self) -> tuple[pr.ActionForm, ...]:
        """What it may do."""
        return ACTIONS

    async def act(self, text: str) -> pr.Observation:
        """Carry one action out: what the model sees next, and what the turn paid."""
        if self._is_over:
            raise RuntimeError("the episode is over")
        if text == "done":
            self._is_over = True
            self._solved = not self._lit
            self._paid.append(1.0 if self._solved else -1.0)
        else:
            self._paid.append(0.2 if text in self._lit else -0.2)
            self._lit ^= {text}
        return pr.Observation(
            message=self._shown(), reward=self._paid[-1], terminated=self._is_over
        )

    async def outcome(self) -> pr.Outcome:
        """The evidence that rewards read."""
        return pr.Outcome(success=self._solved, turn_rewards=tuple(self._paid))

    def _shown(self) -> pr.Message:
        return pr.Message(role="user", content=f"on: {' '.join(sorted(self._lit)) or 'none'}")


class LampEnvironment:
    """Tasks, sessions and the reference solution."""

    class Options(pr.ConfigModel):
        """This environment has no options."""

    name: str = "lamps"
    all_levels: ClassVar[tuple[int, ...]] = (1,)

    def __init__(self, options: Options) -> None:
        pass

    def tasks(self, split: pr.Split, seed: int) -> Iterator[pr.Task]:
        """Every fifth state is held out; training tasks come round again and again."""
        states = [s for n, s in enumerate(STATES) if (n % 5 == 0) == (split == "heldout")]
        while True:
            random.Random(seed).shuffle(states)
            for lit in states:
                yield pr.Task(
                    id="lamps-" + "-".join(lit),
                    env=self.name,
                    split=split,
                    instruction=f"switch off {', '.join(lit)}",
                    data={"lit": list(lit)},
                )
            if split == "heldout":
                return

    @asynccontextmanager
    async def open(self, task: pr.Task) -> AsyncIterator[LampSession]:
        """Start one episode."""
        yield LampSession(self.reference(task)[:-1])

    def reference(self, task: pr.Task) -> Sequence[str]:
        """A solution that earns full marks."""
        lit = task.data["lit"]
        assert isinstance(lit, list)
        return [*sorted(map(str, lit)), "done"]


IMITATE = {
    "steps": 60,
    "algorithm": {"name": "sft", "lr": 3e-3},
    "data": {"source": "reference", "n": 100},
}
PRACTISE = {"steps": 20, "algorithm": {"name": "grpo", "lr": 5e-4}}


def main() -> None:
    found = pr.check(LampEnvironment, n=7)
    print("sound" if found.is_sound else found.levels[0].problems)
    with TemporaryDirectory() as folder:
        run = pr.train(
            LampEnvironment,
            model="tiny",
            stages=[IMITATE, PRACTISE],
            rollouts={"tasks_per_step": 4},
            eval={"n": 25},
            runs_dir=folder,
        )
        print(pr.evaluate(run, n=25, against="base", quiet=True))


if __name__ == "__main__":
    main()
