"""The `office` environment: a company for each episode, with its services, people and files."""

import os
import random
import re
import socket
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.capabilities import ServesPorts
from practicum.core.errors import EnvironmentFailure, UserError, nearest
from practicum.core.interfaces import Sandbox
from practicum.core.task import Split, Task
from practicum_envs.office import office_client
from practicum_envs.office.companies import Companies
from practicum_envs.office.company_seed import CompanySeed
from practicum_envs.office.families.all_families import families
from practicum_envs.office.families.damage_probes import damage_probes, damaged
from practicum_envs.office.office_grading import OfficeGrader, Stage
from practicum_envs.office.office_plan import WORKSPACE, Family, OfficePlan
from practicum_envs.office.office_session import (
    HOSTS,
    Grader,
    OfficeTextSession,
    OfficeToolSession,
    example_messages,
)
from practicum_envs.office.office_tools import ToolSet
from practicum_envs.office.services.all_services import PORTS
from practicum_envs.shell.machines import MachineEnvironment, MachineOptions, Machines
from practicum_envs.shell.protocol import bash_turn, finish_turn
from practicum_envs.shell.shell_session import Limits

ENV = "office"
LEVELS = sorted({one.level for one in families().values()})
ID = re.compile(r"office-(train|heldout)-(.+)-s(-?\d+)-(\d+)")
CHECKED_TASKS = 20
"""Of each family, when all are checked."""
PROBES = 3
"""Kinds of damage that are tried on a task when it is checked."""
COMMAND = "/usr/local/bin/office"


class WorkOptions(MachineOptions):
    """Options of environments whose episodes are work in a company."""

    tools: tuple[ToolSet, ...] = ("bash",)
    """With `protocol: tools`, what may be called besides finish and answer: bash, edit (files of
    the machine), http, browse (pages as text), chat, or typed tools for all that is common in a
    service: rocketchat, gitlab, plane, owncloud."""
    colleague_endpoint: str = ""
    """Address of an OpenAI-compatible model that plays colleagues; scripted unless given."""
    colleague_model: str = ""
    """The name of that model."""
    colleague_key_env: str = "OPENAI_API_KEY"
    """The environment variable with its key, where it needs one."""

    @model_validator(mode="after")
    def _tools_can_be_called(self) -> "WorkOptions":
        if self.protocol != "tools" and self.tools != ("bash",):
            raise PydanticCustomError("tools", "tools are called with protocol: tools; add that")
        return self

    def open_companies(self) -> Companies:
        """Where companies come from, with whoever plays the colleagues."""
        key = os.environ.get(self.colleague_key_env, "")
        endpoint = {"url": self.colleague_endpoint, "model": self.colleague_model, "key": key}
        return Companies(endpoint if self.colleague_endpoint else None)


class OfficeOptions(WorkOptions):
    """Options of the `office` environment."""

    level: int | list[int] = 1
    """Difficulty, or several levels, evenly mixed: 1 is one service and one step."""
    heldout: Literal["kinds", "names"] = "kinds"
    """What held-out tasks have that no training task has: `kinds`, other families of tasks;
    `names`, the same families with other people, names and numbers."""
    families: tuple[str, ...] = ()
    """Only these families; all unless given."""
    domains: tuple[str, ...] = ()
    """Only tasks of these domains, such as admin or finance; all unless given."""
    services: tuple[str, ...] = ()
    """Only tasks that need no service but these; all unless given."""
    rounds: int = Field(default=12, ge=1)
    """Turns of an episode."""

    all_levels: ClassVar[Collection[int]] = LEVELS


class OfficeEnvironment(MachineEnvironment):
    """Work in a company; implements `Environment`."""

    name: str = ENV
    Options: ClassVar[type[OfficeOptions]] = OfficeOptions
    all_levels: ClassVar[tuple[int, ...]] = tuple(LEVELS)
    default_reward: ClassVar[str] = "agent_company"
    """The points of the checkpoints, as TheAgentCompany scores them."""
    sessions_at_once: ClassVar[int] = 4
    """Concurrent sessions while its tasks are checked."""

    def __init__(self, options: OfficeOptions) -> None:
        super().__init__(options, ENV)
        self._options = options
        self._companies = options.open_companies()
        self._families = _chosen(options)

    async def close(self) -> None:
        """Close every machine and company; a later session opens new ones."""
        await super().close()
        self._companies.close()

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Tasks without end, family by family, level by level."""
        uses = "train" if split == "train" or self._options.heldout == "names" else "heldout"
        of_split = [one for one in self._families if one.split == uses]
        chosen = [one for one in of_split if one.level in self._options.levels]
        if not chosen:
            raise UserError(_nothing_chosen(self._options, split, of_split))
        order = random.Random(f"{split} {seed}")
        for number in count():
            for level in self._options.levels:
                inside = [one for one in chosen if one.level == level]
                order.shuffle(inside)
                yield from (task_of(one, split, seed, number) for one in inside)

    def tasks_to_check(self) -> Sequence[Task]:
        """Twenty tasks of each family, held-out or not, at the levels of the options."""
        inside = [one for one in self._families if one.level in self._options.levels]
        return [task_of(one, one.split, 0, n) for one in inside for n in range(CHECKED_TASKS)]

    def find(self, text: str) -> Task:
        """The task with this id."""
        found = ID.fullmatch(text)
        known = families()
        if found is None or found.group(2) not in known:
            raise UserError(f"there is no task {text!r}; list tasks for their ids")
        split: Split = "train" if found.group(1) == "train" else "heldout"
        return task_of(known[found.group(2)], split, int(found.group(3)), int(found.group(4)))

    def open(
        self, task: Task
    ) -> AbstractAsyncContextManager[OfficeTextSession | OfficeToolSession]:
        """Start one episode: a new machine beside a new company."""
        return self._session(task)

    @asynccontextmanager
    async def _session(self, task: Task) -> AsyncIterator[OfficeTextSession | OfficeToolSession]:
        plan = plan_of(task)
        options = self._options
        async with self._stage(plan) as stage:
            fresh = partial(self._stage, plan, beside_another=True)
            grader = OfficeGrader(plan, stage, options.command_timeout_s, fresh)
            session = office_session(task, stage[0], grader, options)
            try:
                yield session
            finally:
                session.close()

    @asynccontextmanager
    async def _stage(
        self, plan: OfficePlan, *, beside_another: bool = False
    ) -> AsyncIterator[Stage]:
        """A machine and a company in which nothing was done yet."""
        opening = open_office(
            self._machines, self._companies, plan.company, beside_another=beside_another
        )
        async with opening as stage:
            await furnish(stage[0], plan)
            yield stage

    def reference(self, task: Task) -> Sequence[str]:
        """The turns that solve it."""
        return self._turns(plan_of(task).reference)

    def near_misses(self, task: Task) -> Sequence[Sequence[str]]:
        """Plausible wrong solutions, each as the turns of an episode; some do damage besides."""
        plan, probes = plan_of(task), probes_of(task)
        spoilt = [damaged(plan.reference, one) for one in probes.values()]
        return [self._turns(scripts) for scripts in (*plan.near_misses, *spoilt)]

    def _turns(self, scripts: Sequence[str]) -> list[str]:
        protocol = self._options.protocol
        return [*(bash_turn(script, protocol) for script in scripts), finish_turn(protocol)]


def _chosen(options: OfficeOptions) -> list[Family]:
    """The families that the options ask for."""
    known = families()
    every = known.values()
    _all_known("family", options.families, known)
    _all_known("domain", options.domains, {one.domain for one in every})
    _all_known("service", options.services, {name for one in every for name in one.services})
    return [
        one
        for one in every
        if (not options.families or one.name in options.families)
        and (not options.domains or one.domain in options.domains)
        and (not options.services or set(one.services) <= set(options.services))
    ]


def _all_known(noun: str, asked: Collection[str], known: Collection[str]) -> None:
    for name in asked:
        if name not in known:
            raise UserError(
                f"there is no {noun} {name!r} of office tasks; {nearest(name, known)}there are "
                f"{', '.join(sorted(known))}"
            )


def _nothing_chosen(options: OfficeOptions, split: Split, others: Sequence[Family]) -> str:
    """Why the options leave no task of a split, and what to write instead."""
    asked = {"families": options.families, "domains": options.domains, "services": options.services}
    said = [f"env.{name}=[{','.join(words)}]" for name, words in asked.items() if words]
    fits = " ".join([*said, f"env.level={options.level}"])
    there = f"no {'training' if split == 'train' else 'held-out'} task of office fits {fits}"
    levels = sorted({one.level for one in others})
    if split == "train" and levels:
        some = ", ".join(map(str, levels))
        return f"{there}; there are some at level {some}: write env.level={levels[0]}"
    if split == "heldout" and options.heldout == "kinds":
        wider = f"env.level={sorted({*options.levels, levels[0]})}, or " if levels else ""
        return f"{there}; write {wider}env.heldout=names to hold out names instead of kinds"
    return f"{there}, nor at another level; leave {said[0].partition('=')[0]} out, or name others"


def task_of(family: Family, split: Split, seed: int, number: int) -> Task:
    """The task of a family, a seed and a number."""
    plan = family.plan(f"{seed} {number}", split)
    return Task(
        id=f"office-{split}-{family.name}-s{seed}-{number}",
        env=ENV,
        split=split,
        level=family.level,
        instruction=plan.instruction,
        data={
            "family": family.name,
            "seed": f"{seed} {number}",
            "domain": family.domain,
            "services": list(family.services),
        },
    )


def plan_of(task: Task) -> OfficePlan:
    """The plan of a task, made again from its family and seed."""
    family = families().get(str(task.data.get("family")))
    if family is None:
        raise EnvironmentFailure(f"there is no family {task.data.get('family')!r} of office tasks")
    return family.plan(str(task.data["seed"]), task.split)


def probes_of(task: Task) -> dict[str, str]:
    """The damage that is tried on a task: in turn, so that a few tasks of a family try it all."""
    every = list(damage_probes(plan_of(task).company).items())
    number = int(str(task.data["seed"]).split()[-1])
    turns = [(number * PROBES + n) % len(every) for n in range(PROBES)]
    return {every[at][0]: every[at][1] for at in turns}


@asynccontextmanager
async def open_office(
    machines: Machines, companies: Companies, seed: CompanySeed, *, beside_another: bool = False
) -> AsyncIterator[Stage]:
    """A new machine in which a new company's services are served; both are gone afterwards."""
    async with machines.open(beside_another=beside_another) as box:
        company = await companies.open(seed, await listeners_of(box))
        try:
            yield box, company
        finally:
            company.close()


async def listeners_of(box: Sandbox) -> list[socket.socket]:
    """Sockets that listen at the ports of the services inside a machine."""
    if not isinstance(box, ServesPorts):
        raise UserError(
            f"a {box.kind} sandbox has no network of its own, which the office needs; "
            "write env.sandbox=bubblewrap"
        )
    try:
        return await box.listen(PORTS)
    except ValueError as error:
        raise EnvironmentFailure(f"the ports of the services: {error}") from error


def office_session(
    task: Task, box: Sandbox, grader: Grader, options: WorkOptions
) -> OfficeTextSession | OfficeToolSession:
    """A session in a machine, by text turns or tool calls as the options say."""
    limits = Limits(
        rounds=options.rounds,
        command_timeout_s=options.command_timeout_s,
        output_chars=options.output_chars,
    )
    shown = example_messages(options.protocol) if options.example else ()
    if options.protocol == "tools":
        return OfficeToolSession(task, box, limits, grader, shown, tools=options.tools)
    return OfficeTextSession(task, box, limits, grader, shown)


async def furnish(box: Sandbox, plan: OfficePlan) -> None:
    """Give a machine the names of the services, the command `office`, and the task's files."""
    await furnish_machine(box)
    for path, content in plan.files.items():
        whole = path if path.startswith("/") else f"{WORKSPACE}/{path}"
        await box.write(whole, content if isinstance(content, bytes) else content.encode())


async def furnish_machine(box: Sandbox, hosts: bytes = HOSTS) -> None:
    """Give a machine the names of the services, the command `office` and the workspace."""
    await box.write("/etc/hosts", hosts)
    client = Path(office_client.__file__).read_bytes()
    await box.write(COMMAND, b"#!/usr/bin/python3 -I\n" + client)
    done = await box.run(["sh", "-c", f"chmod 755 {COMMAND} && mkdir -p {WORKSPACE}"], timeout_s=20)
    if done.exit_code != 0:
        raise EnvironmentFailure(f"the machine could not be furnished: {done.stderr[:200]}")
