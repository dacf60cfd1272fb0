"""The `tasks` environment: prompts from a user's file or function, usually for a user's own agent.

A session is one turn. Where a row has an `answer`, the turn must equal it; otherwise success is
unknown, and a reward function scores the turn.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from practicum.core.capabilities import BY_TESTS
from practicum.core.config.config_sections import ConfigModel
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError, UserError
from practicum.core.interfaces import Environment, Observation
from practicum.core.json_values import TOO_LONG, lines_within
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Outcome, Split, Task
from practicum.core.trace import LONE_SURROGATE, Message
from practicum.core.user_code import returned_rows
from practicum.environments.selection import shuffled

ROW = 'rows are objects with a prompt, such as {"id": "a1", "prompt": "2 + 2 = ?", "answer": "4"}'


def read_tasks(data: str, env: str, heldout_share: float) -> list[Task]:
    """Every task, in the order of the file; two with one id are an error."""
    tasks: dict[str, Task] = {}
    for number, row in enumerate(_rows(data), start=1):
        task = _task(row, f"{data}, row {number}", env, heldout_share)
        if task.id in tasks:
            raise UserError(f"{data} has two rows that are called {task.id!r}; rename one of them")
        tasks[task.id] = task
    if not tasks:
        raise UserError(f"there are no tasks in {data}; {ROW}")
    return list(tasks.values())


def _rows(data: str) -> Iterator[Any]:
    if ":" in data and not Path(data).exists():
        yield from returned_rows(data, "env.data")
        return
    path = Path(data).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"env.data: there is no file {data}; give a .jsonl file, or FILE.py:FUNCTION that "
            "returns the rows"
        )
    with path.open("rb") as file:
        for number, (line, _) in enumerate(lines_within(file), start=1):
            if line is None:
                raise UserError(f"{data}, line {number}: {TOO_LONG}; make it shorter")
            if not line.strip():
                continue
            try:
                yield json.loads(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise UserError(f"{data} cannot be read: {error}; give a .jsonl file") from None
            except (ValueError, RecursionError) as error:
                raise UserError(
                    f"{data}, line {number} is not valid JSON: {error}; write one object a line"
                ) from None


def _task(row: Any, where: str, env: str, heldout_share: float) -> Task:
    if not isinstance(row, Mapping) or not isinstance(row.get("prompt"), str):
        raise UserError(f"{where} has no prompt; {ROW}")
    try:
        data = json.loads(json.dumps(dict(row), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UserError(f"{where} cannot be kept as JSON: {error}; {ROW}") from None
    if found := LONE_SURROGATE.search(json.dumps(data, ensure_ascii=False)):
        raise UserError(
            f"{where} has {found.group()!r}, half of a surrogate pair, which is no text and no "
            "model can be given; write the whole character"
        )
    named = str(data.pop("id", "")) or _digest(json.dumps(data, sort_keys=True))[:12]
    prompt, level = data.pop("prompt"), data.pop("level", 1)
    if not isinstance(level, int) or isinstance(level, bool) or level < 1:
        raise UserError(f"{where} has level {level!r}; levels are whole numbers from 1")
    split = data.pop("split", None) or _split(named, heldout_share)
    if split not in ("train", "heldout"):
        raise UserError(f"{where} has split {split!r}; write train or heldout, or leave it out")
    return Task(id=named, env=env, split=split, level=level, instruction=prompt, data=data)


def _split(named: str, heldout_share: float) -> Split:
    """From a hash of the id, so that a task keeps its split when others are added."""
    return "heldout" if int(_digest(named)[:13], 16) / 16**13 < heldout_share else "train"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


ENV = "tasks"
ANSWER = "answer"
"""Key of a row for its correct answer."""
TESTS = "tests"
"""Key of a row for the tests of its code."""


class TasksOptions(ConfigModel):
    """Options of the `tasks` environment."""

    data: str
    """A .jsonl file of rows {id, prompt, ...}, or FILE.py:FUNCTION that returns such rows."""
    system: str = ""
    """System prompt."""
    heldout_share: float = Field(default=0.2, gt=0.0, lt=1.0)
    """Share of the tasks kept for evaluation, chosen by their ids; a row's own `split` wins."""


class TasksSession:
    """One prompt and one answer; implements `DiscreteSession`."""

    def __init__(self, task: Task, system: str) -> None:
        self._task = task
        self._system = system
        self._said: str | None = None

    def prompt(self) -> list[Message]:
        """The system prompt, if any, and the task's prompt."""
        rules = [Message(role="system", content=self._system)] if self._system else []
        return [*rules, Message(role="user", content=self._task.instruction)]

    def actions(self) -> tuple[ActionForm, ...]:
        """None: the answer is free text."""
        return ()

    async def act(self, text: str) -> Observation:
        """Take the answer, which ends the episode."""
        if self._said is not None:
            raise RuntimeError("the task has been answered; open a new session for another one")
        self._said = text
        return Observation(message=Message(role="user", content="Noted."), terminated=True)

    async def outcome(self) -> Outcome:
        """Whether the answer equals the row's; success is None where the row has no answer."""
        evidence: dict[str, JSON] = {ANSWER: self._said}
        known = self._task.data.get(ANSWER)
        if known is None:
            return Outcome(success=None, evidence=evidence)
        said = self._said.strip() if self._said is not None else None
        return Outcome(success=said == str(known).strip(), evidence=evidence)


class TasksEnvironment:
    """The user's tasks; implements `Environment`."""

    name: str = ENV
    Options: ClassVar[type[TasksOptions]] = TasksOptions
    all_levels: ClassVar[tuple[int, ...]] = (1,)
    shows_data: ClassVar[bool] = True
    """Agent programs may see the rows: they are the user's own."""

    def __init__(self, options: TasksOptions) -> None:
        self._options = options
        self._tasks = read_tasks(options.data, ENV, options.heldout_share)

    @property
    def default_reward(self) -> str:
        """`os`, 1 or 0 by the answer; where rows have tests and no answer, running the code."""
        has_answers = any(ANSWER in task.data for task in self._tasks)
        has_tests = any(TESTS in task.data for task in self._tasks)
        return BY_TESTS if has_tests and not has_answers else "os"

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Tasks of one split, shuffled by the seed; training tasks repeat without end."""
        return shuffled(self._tasks, split, seed)

    def every_task(self) -> Sequence[Task]:
        """All of them, in the order of the file."""
        return self._tasks

    def find(self, text: str) -> Task:
        """The task with this id."""
        for task in self._tasks:
            if task.id == text:
                return task
        raise UserError(
            f"there is no task {text!r} in {self._options.data}; its first is {self._tasks[0].id!r}"
        )

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[TasksSession]:
        """Start one episode."""
        yield TasksSession(task, self._options.system)

    def reference(self, task: Task) -> Sequence[str]:
        """The row's answer, where it has one."""
        known = task.data.get(ANSWER)
        return () if known is None else (str(known),)


def check_answers(config: RunConfig, environment: Environment) -> None:
    """Refuse to learn from rows that nobody can score: every episode would be worth the same.

    A program may say itself what its work is worth, and distillation needs no reward.
    """
    reward, agent = config.reward, config.agent
    needs_scores = any(
        not stage.algorithm.is_offline and stage.algorithm.name != "distill"
        for stage in config.all_stages
    )
    is_scored = bool(reward.components) or reward.name != "auto" or agent.name == "function"
    is_scored = is_scored or (agent.name == "command" and agent.score != "evidence")
    if not isinstance(environment, TasksEnvironment) or is_scored or not needs_scores:
        return
    rows = [task for task in environment.every_task() if task.split == "train"]
    if any(ANSWER in task.data for task in rows) or environment.default_reward == BY_TESTS:
        return
    raise UserError(
        f"the {len(rows)} training rows have no answer, and the run has no reward, so that every "
        "episode would be worth the same and nothing could be learned; type "
        "reward=FILE.py:FUNCTION, or give the rows an answer"
    )
