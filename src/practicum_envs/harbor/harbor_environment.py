"""The `harbor` environment: task folders of Harbor and Terminal-Bench, from a path."""

import base64
import gzip
import hashlib
import shlex
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from practicum.core.capabilities import BuildsSystems
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import Sandbox
from practicum.core.task import STAND_INS, Split, Task, TaskVerdict
from practicum.environments.selection import shuffled
from practicum_envs.harbor.harbor_session import HarborTextSession, HarborToolSession, TaskMachine
from practicum_envs.harbor.machine_building import packed, recipe_of
from practicum_envs.harbor.machine_plan import MachinePlan, NotHere, plan_machine
from practicum_envs.harbor.reward_file import Graded, NoReward, grade
from practicum_envs.harbor.task_folders import TaskFolder, read_task_folders
from practicum_envs.shell.machines import MachineEnvironment, MachineOptions
from practicum_envs.shell.protocol import bash_turn, example_messages, finish_turn
from practicum_envs.shell.shell_session import Limits

ENV = "harbor"
NEEDS_A_FILE = ("BASH_SOURCE", "$0", "/solution", "```")
"""In a solution that is more than its own text: it is unpacked and run where Harbor runs it."""


class HarborOptions(MachineOptions):
    """Options of the `harbor` environment."""

    path: str
    """A task folder, or a folder of them."""
    only: tuple[str, ...] = ()
    """Only these tasks, by name; all unless given."""
    heldout_share: float = Field(default=0.3, ge=0.0, le=1.0)
    """Share of the tasks that is kept for evaluation, chosen by their names."""
    marked: Literal["heldout", "as_others"] = "heldout"
    """Tasks whose files say that they are a benchmark and never to be trained on are held out; or
    they are treated as others."""
    rounds: int = Field(default=30, ge=1)
    """Turns of an episode."""
    command_timeout_s: float = Field(default=180.0, gt=0.0)
    """Seconds a command may take."""
    memory_mb: int = Field(default=2048, ge=32)
    """Most memory of a machine, its files included; a task that asks for less gets less."""
    disk_mb: int = Field(default=1024, ge=8)
    """Most files of a machine."""
    machines: int = Field(default=16, ge=1)
    """Machines that are open together."""

    all_levels: ClassVar[tuple[int, ...]] = (1,)


class HarborEnvironment(MachineEnvironment):
    """Task folders, each in a machine made from its Dockerfile; implements `Environment`."""

    name: str = ENV
    Options: ClassVar[type[HarborOptions]] = HarborOptions
    all_levels: ClassVar[tuple[int, ...]] = (1,)
    sessions_at_once: ClassVar[int] = 2
    """Concurrent sessions while its tasks are checked."""

    def __init__(self, options: HarborOptions) -> None:
        super().__init__(options, ENV)
        self._options = options
        folders = read_task_folders(options.path)
        self._folders = {one.name: one for one in folders}
        for name in options.only:
            self._folder(name)
        self._plans: dict[str, MachinePlan | NotHere] = {}
        self._tasks = [
            self._task(one) for one in folders if not options.only or one.name in options.only
        ]

    def _folder(self, name: str) -> TaskFolder:
        if name not in self._folders:
            first = next(iter(self._folders))
            raise UserError(
                f"there is no task {name!r} in {self._options.path}; its first is {first!r}"
            )
        return self._folders[name]

    def _plan(self, name: str) -> MachinePlan | NotHere:
        if name not in self._plans:
            try:
                folder = self._folder(name)
                self._plans[name] = plan_machine(folder)
            except NotHere as why:
                self._plans[name] = why
        return self._plans[name]

    def _task(self, folder: TaskFolder) -> Task:
        plan = self._plan(folder.name)
        notes = [] if isinstance(plan, NotHere) else plan.notes
        return Task(
            id=folder.name,
            env=ENV,
            split=self._split(folder),
            instruction=folder.instruction,
            data={STAND_INS: [*notes]},
        )

    def _split(self, folder: TaskFolder) -> Split:
        """By a hash of the name, so that a task keeps its split when others are added."""
        if self._options.marked == "heldout" and folder.is_marked:
            return "heldout"
        drawn = int(hashlib.sha256(folder.name.encode()).hexdigest()[:13], 16) / 16**13
        return "heldout" if drawn < self._options.heldout_share else "train"

    def verdicts(self) -> Sequence[TaskVerdict]:
        """What is known of every task from its files."""
        return [self._verdict(task) for task in self._tasks]

    def _verdict(self, task: Task) -> TaskVerdict:
        plan = self._plan(task.id)
        if isinstance(plan, NotHere):
            return TaskVerdict(task=task, missing=(str(plan),))
        return TaskVerdict(task=task, notes=task.stand_ins)

    def every_task(self) -> Sequence[Task]:
        """The tasks that can run, in the order of their names."""
        return [one for one in self._tasks if isinstance(self._plan(one.id), MachinePlan)]

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """The tasks of a split that can run; training tasks repeat without end."""
        runs = self.every_task()
        if split == "train" and runs and all(one.split == "heldout" for one in runs):
            raise UserError(
                f"every task of {self._options.path} that runs here is held out, as a benchmark "
                "or by env.heldout_share; evaluate on them, or give tasks to train on"
            )
        return shuffled(runs, split, seed)

    def find(self, text: str) -> Task:
        """The task of this name, whether it can run or not."""
        self._folder(text)
        return next(one for one in self._tasks if one.id == text)

    def open(
        self, task: Task
    ) -> AbstractAsyncContextManager[HarborTextSession | HarborToolSession]:
        """Start one episode in a new machine."""
        return self._session(task)

    @asynccontextmanager
    async def _session(self, task: Task) -> AsyncIterator[HarborTextSession | HarborToolSession]:
        folder, plan = self._folder(task.id), self._plan(task.id)
        if isinstance(plan, NotHere):
            raise EnvironmentFailure(f"task {task.id} {plan}")
        options = self._options
        async with self._machine(folder, plan) as box:

            async def grader(has_acted: bool) -> Graded:
                return await self._graded(folder, plan, box, has_acted)

            kind = HarborToolSession if options.protocol == "tools" else HarborTextSession
            limits = Limits(
                rounds=options.rounds,
                command_timeout_s=options.command_timeout_s,
                output_chars=options.output_chars,
            )
            shown = example_messages(options.protocol) if options.example else ()
            session = kind(task, plan.workdir, box, limits, grader, shown)
            try:
                yield session
            finally:
                session.close()

    @asynccontextmanager
    async def _machine(
        self, folder: TaskFolder, plan: MachinePlan, *, beside_another: bool = False
    ) -> AsyncIterator[Sandbox]:
        """A machine of a task; what it is made of is made with the first one, and kept."""
        options = self._options
        asked = {name: folder.megabytes(name) for name in ("memory", "storage")}
        limits = {
            "memory_mb": min(asked["memory"] or options.memory_mb, options.memory_mb),
            "disk_mb": min(asked["storage"] or options.disk_mb, options.disk_mb),
        }
        system = await self._system(folder, plan)
        opening = self._machines.open(beside_another=beside_another, system=system, **limits)
        async with opening as box:
            yield TaskMachine(box, {**plan.variables, **_given(folder, "environment")})

    async def _system(self, folder: TaskFolder, plan: MachinePlan) -> str:
        """The system of a task's machines, made unless it is there."""
        with tempfile.TemporaryDirectory(prefix="practicum-wheels-") as wheels:
            Path(wheels).chmod(0o755)
            recipe = recipe_of(folder, plan, Path(wheels))
            sandboxes = self._machines.sandboxes()
            if not isinstance(sandboxes, BuildsSystems):
                raise UserError(
                    f"a {sandboxes.kind} sandbox makes no systems from Dockerfiles; write "
                    "env.sandbox=bubblewrap"
                )
            await sandboxes.build_system(recipe)
        return recipe.digest

    async def _graded(
        self, folder: TaskFolder, plan: MachinePlan, box: Sandbox, has_acted: bool
    ) -> Graded:
        """Tests that come to no reward here, and to one where nothing was done, were stopped."""
        variables = {**plan.variables, **_given(folder, "environment")}
        try:
            return await grade(box, folder, plan.workdir, variables)
        except NoReward as failure:
            if not has_acted:
                raise
            async with self._machine(folder, plan, beside_another=True) as fresh:
                try:
                    await grade(fresh, folder, plan.workdir, variables)
                except NoReward:
                    raise failure from None
            said = f"what was left stopped the tests: {failure}"
            return Graded(reward=0.0, rewards={"reward": 0.0}, exit_code=-1, log=said)

    def reference(self, task: Task) -> Sequence[str]:
        """The task's own solution, in a turn; empty where it has none."""
        folder, protocol = self._folder(task.id), self._options.protocol
        if not folder.solve_script.is_file():
            return ()
        return [bash_turn(_solution(folder), protocol), finish_turn(protocol)]


def _given(folder: TaskFolder, section: str) -> dict[str, str]:
    """The variables that task.toml sets."""
    return {name: str(value) for name, value in folder.section(section, "env").items()}


def _solution(folder: TaskFolder) -> str:
    """A script that does what Harbor's own run of the solution does."""
    text = folder.solve_script.read_text(encoding="utf-8", errors="replace")
    others = [one for one in folder.solve_script.parent.iterdir() if one != folder.solve_script]
    given = _given(folder, "solution")
    if not others and not given and not any(word in text for word in NEEDS_A_FILE):
        return text.removeprefix("#!/bin/bash").strip()
    archive = gzip.compress(packed(folder.solve_script.parent, "solution"), mtime=0)
    lines = base64.encodebytes(archive).decode()
    settings = "".join(f" {name}={shlex.quote(value)}" for name, value in given.items())
    return (
        f"base64 -d <<'END_OF_FILES' | tar -xz -C /\n{lines}END_OF_FILES\n"
        f"chmod +x /solution/solve.sh\nDEBIAN_FRONTEND=noninteractive{settings} /solution/solve.sh"
    )
