"""Several in one episode: a writer and a reviewer, and a manager who hands on a task.

    python examples/05_roles.py

Each role has a conversation of its own and is credited by its own rewards; all are one model. The
guide is docs/roles.md.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import practicum as pr

COLOURS = ("red", "green", "blue", "amber")
HELD_OUT = {("blue", 2), ("red", 3)}


class WriteAndReview:
    """The writer picks a colour; the reviewer accepts it or sends it back once."""

    def __init__(self, task: pr.Task) -> None:
        self._wanted, self._draft, self._drafts = task.data["colour"], "", 0
        self._is_review, self._is_over, self._paid = False, False, []

    def role(self) -> str:
        return "reviewer" if self._is_review else "writer"

    def prompt(self) -> list[pr.Message]:
        asked = f"write one of {', '.join(COLOURS)}"
        if self._is_review:
            asked = f"draft: {self._draft}; accept or reject"
        return [pr.Message(role="user", content=f"wanted: {self._wanted}; {asked}")]

    def actions(self) -> tuple[pr.ActionForm, ...]:
        names = ("accept", "reject") if self._is_review else COLOURS
        return tuple(pr.ActionForm(name=name) for name in names)

    async def act(self, text: str) -> pr.Observation:
        if self._is_over:
            raise RuntimeError("the episode is over")
        if not self._is_review:
            self._draft, self._drafts, self._is_review = text, self._drafts + 1, True
            self._paid.append(1.0 if text == self._wanted else 0.0)  # the writer's own
            said = pr.Message(role="user", content=f"draft: {text}")
            return pr.Observation(message=said, reward=self._paid[-1])
        is_right = (text == "accept") == (self._draft == self._wanted)
        self._paid.append(1.0 if is_right else -1.0)  # the reviewer's own
        self._is_review = False
        self._is_over = text == "accept" or self._drafts == 2
        said = pr.Message(role="user", content=f"{text}: {self._draft}")
        return pr.Observation(message=said, reward=self._paid[-1], terminated=self._is_over)

    async def outcome(self) -> pr.Outcome:
        done = self._draft == self._wanted and not self._is_review and self._drafts > 0
        return pr.Outcome(success=done, turn_rewards=tuple(self._paid))


class Manager(pr.NestedSession):
    """Reads a note and hands it on to one who solves equations, or gives up."""

    def __init__(self, task: pr.Task, mathematics: Any) -> None:
        super().__init__()
        self._equation, self._mathematics = str(task.data["equation"]), mathematics
        self._is_solved = False

    def own_prompt(self) -> list[pr.Message]:
        return [pr.Message(role="user", content=f"note: {self._equation}; hand on or give up")]

    def own_actions(self) -> tuple[pr.ActionForm, ...]:
        return (pr.ActionForm(name="hand on"), pr.ActionForm(name="give up"))

    async def own_act(self, text: str) -> "pr.Observation | pr.SubTask":
        if text == "hand on":
            task = self._mathematics.find(self._equation)
            return pr.SubTask(environment=self._mathematics, task=task, role="solver")
        said = pr.Message(role="user", content="given up")
        return pr.Observation(message=said, reward=0.0, terminated=True)

    async def came_of(self, subtask: "pr.SubTask", outcome: pr.Outcome) -> pr.Observation:
        self._is_solved = outcome.success is True
        said = pr.Message(role="user", content="solved" if self._is_solved else "not solved")
        return pr.Observation(message=said, reward=float(self._is_solved), terminated=True)

    async def outcome(self) -> pr.Outcome:
        return pr.Outcome(success=self._is_solved, turn_rewards=tuple(self.turn_rewards))


class ReviewEnvironment:
    """Briefs of one word."""

    class Options(pr.ConfigModel):
        pass

    name = "review"
    all_levels = (1,)

    def __init__(self, options: Any) -> None:
        del options

    def tasks(self, split: str, seed: int) -> Iterator[pr.Task]:
        for number in range(4):
            for colour in COLOURS:
                if ((colour, number) in HELD_OUT) == (split == "heldout"):
                    named = f"review-{colour}-{number}"
                    data = {"colour": colour, "number": number}
                    yield pr.Task(id=named, env=self.name, split=split, data=data)

    @asynccontextmanager
    async def open(self, task: pr.Task) -> AsyncIterator[WriteAndReview]:
        yield WriteAndReview(task)

    def reference(self, task: pr.Task) -> tuple[str, ...]:
        return (task.data["colour"], "accept")


class DelegateEnvironment:
    """Notes with an equation, which an episode of `math` solves."""

    class Options(pr.ConfigModel):
        pass

    name = "delegate"
    all_levels = (1,)

    def __init__(self, options: Any) -> None:
        del options
        self._mathematics = pr.build_environment("math")

    def tasks(self, split: str, seed: int) -> Iterator[pr.Task]:
        for inside in self._mathematics.tasks(split, seed):
            data = {"equation": inside.instruction}
            yield pr.Task(id=f"delegate-{inside.id}", env=self.name, split=split, data=data)

    @asynccontextmanager
    async def open(self, task: pr.Task) -> AsyncIterator[Manager]:
        session = Manager(task, self._mathematics)
        try:
            yield session
        finally:
            await session.close()

    def reference(self, task: pr.Task) -> tuple[str, ...]:
        inside = self._mathematics.find(str(task.data["equation"]))
        return ("hand on", *self._mathematics.reference(inside))


if __name__ == "__main__":
    for environment in (ReviewEnvironment, DelegateEnvironment):
        run = pr.train(
            environment,
            model="tiny",
            steps=3,
            rollouts={"tasks_per_step": 4, "group_size": 4},
            eval={"n": 2},
            warm_start="none",
        )
        print(run)
