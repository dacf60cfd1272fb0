"""A small environment that does what it is told, and counts what is open."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Outcome, Split, Task
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.environments.serving.env_server import EnvironmentServer
from practicum.environments.serving.served_episodes import ServerSettings

KEY = "a-key-for-tests-0123"
SETTINGS = ServerSettings(key=KEY, step_timeout_s=120.0)


@dataclass
class ToySession:
    """`right` and `wrong` end it, `more` goes on; other words make it fail in some way."""

    task: Task
    pays: float | None
    said: list[str] = field(default_factory=list)

    def prompt(self) -> list[Message]:
        return [
            Message(role="system", content="Say right."),
            Message(role="user", content=self.task.instruction),
        ]

    def actions(self) -> tuple[ActionForm, ...]:
        return tuple(ActionForm(name=name) for name in ("right", "wrong", "more"))

    async def act(self, text: str) -> Observation:
        self.said.append(text)
        if text == "boom":
            raise EnvironmentFailure("the toy broke")
        if text == "hang":
            await asyncio.sleep(3600)
        reward = float("nan") if text == "nan" else self.pays
        over = text in ("right", "wrong", "misread")
        answer = Message(role="user", content=f"you said {text}")
        return Observation(message=answer, reward=reward, terminated=over)

    async def outcome(self) -> Outcome:
        if "uncheckable" in self.said:
            raise EnvironmentFailure("the check broke")
        paid = () if self.pays is None else (self.pays,) * len(self.said)
        ending: dict[str, JSON] = {"said": list(self.said), "sum": 0.5}
        if "misread" in self.said:
            ending |= {"status": "agent_validation_failed", "reason": "no action"}
        success = None if "unclear" in self.said else self.said[-1:] == ["right"]
        return Outcome(success=success, turn_rewards=paid, evidence=ending)


class ToyToolSession:
    """The same by tool calls."""

    def __init__(self, task: Task) -> None:
        self._words = ToySession(task, None)

    def prompt(self) -> list[Message]:
        return self._words.prompt()

    def tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="say", description="Say it.", parameters={"type": "object"})]

    async def call(self, call: ToolCall) -> Observation:
        return await self._words.act(str(call.arguments["word"]))

    async def outcome(self) -> Outcome:
        return await self._words.outcome()


class ToyEnvironment:
    """Tasks 0 to 9 to train on, 10 to 14 held out."""

    name = "toy"

    def __init__(
        self, *, pays: float | None = None, fails_to_open: bool = False, tools: bool = False
    ) -> None:
        self.pays = pays
        self.session_kind = "tools" if tools else "discrete"
        self.fails_to_open = fails_to_open
        self.open_now = 0
        self.opened = 0
        self.is_closed = False

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        numbers = range(10) if split == "train" else range(10, 15)
        for number in numbers:
            yield replace(toy_task((number + seed) % len(numbers) + numbers[0]), split=split)

    def open(self, task: Task) -> Any:
        return self._session(task)

    @asynccontextmanager
    async def _session(self, task: Task) -> AsyncIterator[ToySession | ToyToolSession]:
        if self.fails_to_open:
            raise EnvironmentFailure("no machine to be had")
        self.open_now += 1
        self.opened += 1
        try:
            yield (
                ToyToolSession(task)
                if self.session_kind == "tools"
                else ToySession(task, self.pays)
            )
        finally:
            self.open_now -= 1

    def reference(self, task: Task) -> Sequence[str]:
        return ("more", "right")

    def find(self, text: str) -> Task:
        if not text.startswith("toy-"):
            raise UserError(f"there is no task {text!r}")
        return toy_task(int(text.removeprefix("toy-")))

    async def close(self) -> None:
        self.is_closed = True


def toy_task(number: int) -> Task:
    skills: list[JSON] = ["ls"] if number % 2 else ["ls", "cat"]
    data: dict[str, JSON] = {"number": number, "skills": skills}
    return Task(
        id=f"toy-{number}",
        env="toy",
        split="train",
        level=1 + number % 2,
        instruction=f"task {number}",
        data=data,
    )


def toy_server(environment: ToyEnvironment | None = None, **settings: Any) -> EnvironmentServer:
    return EnvironmentServer(environment or ToyEnvironment(), replace(SETTINGS, **settings))
