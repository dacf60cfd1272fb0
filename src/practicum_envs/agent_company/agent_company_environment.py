"""The `agent_company` environment: TheAgentCompany's tasks from a checkout, as a test set."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.capabilities import ServesPorts
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import Sandbox
from practicum.core.task import JSON, STAND_INS, Outcome, Split, Task, TaskVerdict
from practicum.core.user_code import call_in_thread
from practicum.environments.selection import shuffled
from practicum_envs.agent_company.benchmark_machine import initialise, python_version
from practicum_envs.agent_company.checkout import BenchmarkTask, Checkout
from practicum_envs.agent_company.grader_packages import (
    PLACE,
    installed_packages,
    packages_of,
)
from practicum_envs.agent_company.judge_relay import JudgeRelay
from practicum_envs.agent_company.official_grading import (
    Grade,
    GraderFailed,
    archive,
    grade,
)
from practicum_envs.agent_company.official_images import PlayedImage, open_image
from practicum_envs.agent_company.official_servers import OfficialServers
from practicum_envs.agent_company.reference_plans import PLANS
from practicum_envs.agent_company.stand_ins import BenchmarkCompany
from practicum_envs.agent_company.task_documents import documents_of
from practicum_envs.agent_company.verdicts import (
    WRONG_GRADERS,
    Offered,
    found_parts,
    missing_parts,
)
from practicum_envs.office.companies import OpenCompany
from practicum_envs.office.office_environment import (
    WorkOptions,
    office_session,
    open_office,
)
from practicum_envs.office.office_grading import hold_machine, require_company
from practicum_envs.office.office_session import OfficeTextSession, OfficeToolSession
from practicum_envs.shell.machines import MachineEnvironment
from practicum_envs.shell.protocol import bash_turn, finish_turn

ENV = "agent_company"
TOLD = "Complete the task in /instruction/task.md"
"""The first message of a trajectory: the task's text is not in it, or graders would find it."""


class AgentCompanyOptions(WorkOptions):
    """Options of the `agent_company` environment."""

    repo: str = ""
    """A checkout of TheAgentCompany."""
    only: tuple[str, ...] = ()
    """Only these tasks, by name; all that can run unless given."""
    documents: str = ""
    """A folder with the files of the benchmark's ownCloud, which its repository has not."""
    repositories: str = ""
    """A folder of git clones, each for the GitLab project of its name."""
    server_hostname: str = ""
    """Host of the benchmark's own servers, where you have them; an office unless given."""
    image: str = ""
    """With `server_hostname` and `sandbox: docker` or `podman`: the benchmark's own images as
    machines; `{task}` stands for the task's name."""
    judge_endpoint: str = ""
    """Address of an OpenAI-compatible model that judges where graders ask for one."""
    judge_model: str = ""
    """The name of that model."""
    judge_key_env: str = "OPENAI_API_KEY"
    """The environment variable with its key, where it needs one."""
    packages: str = ""
    """A folder with the graders' Python packages; installed once into a cache unless given."""
    results: str = ""
    """A folder for `eval_TASK.json` and `traj_TASK.json` of each episode, as the leaderboard
    takes them."""
    rounds: int = Field(default=100, ge=1)
    """Turns of an episode."""
    command_timeout_s: float = Field(default=120.0, gt=0.0)
    """Seconds a command may take."""
    memory_mb: int = Field(default=1024, ge=32)
    """Memory of each machine, its files included."""

    all_levels: ClassVar[tuple[int, ...]] = (1,)

    @model_validator(mode="after")
    def _names_the_judge(self) -> "AgentCompanyOptions":
        if self.judge_endpoint and not self.judge_model:
            raise PydanticCustomError("judge", "judge_endpoint needs judge_model, the model's name")
        if self.server_hostname and (self.documents or self.repositories):
            text = "servers have documents and projects of their own; leave out those of the office"
            raise PydanticCustomError("server_hostname", text)
        if self.image and not self.server_hostname:
            text = "images need the benchmark's own servers; add env.server_hostname=HOST"
            raise PydanticCustomError("image", text)
        if self.image and self.colleague_endpoint:
            text = "in images the model of judge_endpoint plays colleagues; leave colleague_* out"
            raise PydanticCustomError("image", text)
        return self


class AgentCompanyEnvironment(MachineEnvironment):
    """TheAgentCompany's tasks with their own graders; implements `Environment`."""

    name: str = ENV
    Options: ClassVar[type[AgentCompanyOptions]] = AgentCompanyOptions
    all_levels: ClassVar[tuple[int, ...]] = (1,)
    default_reward: ClassVar[str] = "agent_company"
    not_for_training: ClassVar[str] = (
        "TheAgentCompany is a test set and has no task to train on; train with env: office, and "
        "evaluate with env: agent_company"
    )
    sessions_at_once: ClassVar[int] = 2
    """Concurrent sessions while its tasks are checked."""

    def __init__(self, options: AgentCompanyOptions) -> None:
        super().__init__(options, ENV)
        self._options = options
        self._checkout = Checkout(options.repo)
        self._company = BenchmarkCompany(self._checkout, options.documents, options.repositories)
        self._companies = options.open_companies()
        host = options.server_hostname
        self._servers = OfficialServers(host) if host else None
        self._judge = (
            JudgeRelay(
                endpoint=options.judge_endpoint,
                model=options.judge_model,
                key=os.environ.get(options.judge_key_env, ""),
            )
            if options.judge_endpoint
            else None
        )
        self._installing = asyncio.Lock()
        self._verdicts = {one.task.id: one for one in self._judged_tasks()}
        for name in options.only:
            self._checkout.find(name)

    def _judged_tasks(self) -> Iterator[TaskVerdict]:
        offered = Offered(
            has_judge=self._judge is not None,
            documents=frozenset(self._company.files),
            has_servers=self._servers is not None,
            has_images=bool(self._options.image),
            projects=frozenset(self._company.clones),
            plane_ids=frozenset() if self._servers else self._company.ids.all(),
        )
        for one in self._checkout.tasks:
            task = Task(
                id=one.name,
                env=ENV,
                split="heldout",
                level=1,
                instruction=one.instruction,
                data={"services": list(one.services), STAND_INS: [*self._stand_ins(one)]},
            )
            deviates = [WRONG_GRADERS[one.name]] if one.name in WRONG_GRADERS else []
            yield TaskVerdict(
                task=task,
                missing=missing_parts(one, offered, self._company.named),
                notes=(*task.stand_ins, *deviates),
                found=() if self._servers else found_parts(one, offered, self._company.named),
            )

    def _stand_ins(self, task: BenchmarkTask) -> Iterator[str]:
        """What is not the benchmark's own: a score that rests on it is not comparable."""
        if self._servers is not None:
            return
        stand_ins = self._company.stand_ins(task)
        if stand_ins:
            yield f"stand-ins for {', '.join(stand_ins)}"
        if "owncloud" in task.services and self._company.files and not documents_of(task):
            yield "documents that the task does not name"
        if task.scenarios and not self._options.colleague_endpoint:
            yield "scripted colleagues"

    def verdicts(self) -> Sequence[TaskVerdict]:
        """What is known of every task of the checkout, or of those that `only` names."""
        only = self._options.only
        return [one for one in self._verdicts.values() if not only or one.task.id in only]

    def every_task(self) -> Sequence[Task]:
        """The tasks that can run, in the order of their names."""
        return [one.task for one in self.verdicts() if not one.missing]

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """The tasks that can run; none is for training."""
        if split == "train":
            raise UserError(self.not_for_training)
        return shuffled(self.every_task(), split, seed)

    def find(self, text: str) -> Task:
        """The task of this name, whether it can run or not."""
        return self._verdicts[self._checkout.find(text).name].task

    async def close(self) -> None:
        """Close every machine and company; a later session opens new ones."""
        await super().close()
        self._companies.close()

    def open(
        self, task: Task
    ) -> AbstractAsyncContextManager[OfficeTextSession | OfficeToolSession]:
        """Start one episode: a machine and a company, initialised as the benchmark does."""
        return self._session(task)

    @asynccontextmanager
    async def _session(self, task: Task) -> AsyncIterator[OfficeTextSession | OfficeToolSession]:
        one = self._checkout.find(task.id)
        async with self._prepared(one) as stage:
            grader = BenchmarkGrader(self, one, stage)
            session = office_session(task, stage.box, grader, self._options)
            try:
                yield session
            finally:
                session.close()

    @asynccontextmanager
    async def _prepared(
        self, task: BenchmarkTask, *, beside_another: bool = False
    ) -> AsyncIterator["Stage"]:
        if self._servers is not None and self._options.image:
            image = self._options.image.replace("{task}", task.name)
            async with (
                self._servers.held() as address,
                open_image(self._machines, task, image, address, self._judge) as (box, played),
            ):
                yield Stage(box=box, image=played)
            return
        await self._show_packages()
        if self._servers is not None:
            async with self._servers.open(self._machines) as box:
                await initialise(box, task, self._checkout)
                yield Stage(box=box)
            return
        seed = self._company.seed(task)
        opening = open_office(self._machines, self._companies, seed, beside_another=beside_another)
        async with opening as (box, company):
            await initialise(box, task, self._checkout)
            yield Stage(box=box, company=company)

    async def _show_packages(self) -> None:
        """Let machines see the graders' packages; they are installed with the first session."""
        async with self._installing:
            if self._machines.shown:
                return
            folder = Path(self._options.packages).resolve() if self._options.packages else None
            if folder is not None and not folder.is_dir():
                raise UserError(f"env.packages: {folder} is no folder")
            wanted = packages_of(self._checkout)
            if folder is None and wanted:
                async with self._machines.open() as box:
                    version = await python_version(box)
                folder = await installed_packages(
                    wanted, version, lambda line: print(line, file=sys.stderr)
                )
            if folder is not None:
                self._machines.shown = ((str(folder), PLACE),)

    def reference(self, task: Task) -> Sequence[str]:
        """The turns that solve it; empty where nobody has written them down."""
        protocol = self._options.protocol
        scripts = PLANS.get(task.id, ())
        turns = [bash_turn(script, protocol) for script in scripts]
        return [*turns, finish_turn(protocol)] if turns else []

    async def idle_grade(self, task: BenchmarkTask) -> Grade:
        """What the grader gives in a fresh company, while an episode of the task is open.

        `GraderFailed` where the company is that of the benchmark's servers: there is one.
        """
        if self._servers is not None:
            raise GraderFailed("there is no second company")
        async with self._prepared(task, beside_another=True) as stage:
            return await self.official_grade(task, stage, ())

    async def official_grade(
        self, task: BenchmarkTask, stage: "Stage", said: Sequence[str]
    ) -> Grade:
        """What the benchmark's grader gives for what was left; `said` are turns and outputs."""
        if self._servers is not None:
            await self._servers.require_answers()
        if stage.company is not None:
            require_company(stage.company)
            await hold_machine(stage.box)
            if not await call_in_thread(stage.company.cut_off):
                raise GraderFailed("a request to the company did not end")
        box, image, events = stage.box, stage.image, events_of(said)
        environment = {"DECRYPTION_KEY": self._checkout.decryption_key}
        faults: Sequence[str] = image.faults if image else ()
        with ExitStack() as stack:
            if image is None and self._judge is not None and isinstance(box, ServesPorts):
                [listener] = await box.listen([0])
                environment |= self._judge.environment(listener.getsockname()[1])
                faults = stack.enter_context(self._judge.serving(listener))
            try:
                if image is not None:
                    found = await image.grade(box, events, environment)
                else:
                    utils = archive(self._checkout.grading_files(task))
                    found = await grade(box, utils, events, environment)
            except GraderFailed:
                if not faults:
                    raise
        if faults:
            raise EnvironmentFailure(faults[0])
        return found

    def stand_ins_of(self, task: BenchmarkTask) -> tuple[str, ...]:
        """What the scores of a task rest on that is not the benchmark's own."""
        return self._verdicts[task.name].task.stand_ins

    def keep_result(self, task: BenchmarkTask, given: Grade, said: Sequence[str]) -> None:
        """Write an episode's result as the leaderboard takes it, where the options ask for it."""
        if not self._options.results:
            return
        folder = Path(self._options.results)
        folder.mkdir(parents=True, exist_ok=True)
        stand_ins: list[JSON] = [*self.stand_ins_of(task)]
        marked = {"not_comparable": stand_ins} if stand_ins else {}
        for kind, content in (("eval", given.as_json() | marked), ("traj", events_of(said))):
            text = json.dumps(content, indent=4, ensure_ascii=False)
            (folder / f"{kind}_{task.name}.json").write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where one episode plays."""

    box: Sandbox
    company: OpenCompany | None = None
    """None with the benchmark's own servers."""
    image: PlayedImage | None = None


class BenchmarkGrader:
    """Grades one episode by the benchmark's grader, once; implements `office_session.Grader`."""

    def __init__(
        self, environment: AgentCompanyEnvironment, task: BenchmarkTask, stage: Stage
    ) -> None:
        self._environment = environment
        self._task = task
        self._stage = stage
        self._grade: Grade | None = None
        self.said: list[str] = []
        """All that the agent wrote and saw, in turn."""

    async def grade(self, answer: str | None, facts: dict[str, JSON]) -> Outcome:
        """The outcome; a grader that fails by itself is a failure of the environment."""
        if self._grade is None:
            self._grade = await self._graded()
            self._environment.keep_result(self._task, self._grade, self.said)
        found = self._grade
        whole: JSON = {"says": "in all", "points": found.total, "result": found.result}
        evidence: dict[str, JSON] = {
            "checkpoints": [whole],
            "official": found.as_json(),
            "checks": [
                {"ok": result == total, "why": f"checkpoint {number}: {result} of {total} points"}
                for number, (total, result) in enumerate(found.checkpoints, 1)
            ],
            "s_score": found.score,
            STAND_INS: [*self._environment.stand_ins_of(self._task)],
        }
        return Outcome(success=found.is_full, evidence={**evidence, **facts})

    async def _graded(self) -> Grade:
        """A grader that fails here and not in a fresh company was stopped by what the agent did."""
        environment = self._environment
        try:
            return await environment.official_grade(self._task, self._stage, self.said)
        except GraderFailed as failure:
            if not self.said:
                raise
            try:
                idle = await environment.idle_grade(self._task)
            except GraderFailed:
                raise failure from None
            none = tuple((total, 0) for total, _ in idle.checkpoints)
            return Grade(checkpoints=none, total=idle.total, result=0, log=str(failure))


def events_of(said: Sequence[str]) -> list[Mapping[str, JSON]]:
    """Turns and outputs as the events of a trajectory, in the form of OpenHands."""
    events: list[Mapping[str, JSON]] = [
        {"id": 0, "source": "user", "action": "message", "args": {"content": TOLD}}
    ]
    for number, text in enumerate(said, 1):
        if number % 2:
            event: dict[str, JSON] = {"action": "run", "args": {"command": text}}
        else:
            event = {"observation": "run", "content": text, "cause": number - 1, "extras": {}}
        events.append({"id": number, "source": "agent", **event})
    return events
