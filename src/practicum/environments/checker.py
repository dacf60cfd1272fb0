"""Checks that an environment is fit to train on: its tasks can be solved, and not by accident.

On each task the reference must earn full marks, doing nothing must earn nothing, and no near-miss
may succeed; where actions are listed, the success rate of a random policy is reported. The contract
of `Environment` and of its sessions is tested too, on the first tasks (see `contract`).

Rewards that lead a policy astray are found as well. A policy that cannot solve a task yet learns
what pays best meanwhile. Where ending the episode at once costs less than trying, it learns to give
up; where one action pays again and again, or two in turn, it learns to repeat them. Each action,
and each pair of actions in turn, is played by itself and compared with the reference and with
random tries. What is found is a warning: a task may be sound and hard to learn.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import combinations, islice
from statistics import fmean, median
from typing import Protocol

from practicum.core.capabilities import (
    HasFullMarks,
    HasNearMisses,
    HasTaskList,
    HasTasksToCheck,
    OutOfProcess,
    actions_of,
    every_task,
)
from practicum.core.config.config_sections import RolloutConfig
from practicum.core.errors import EnvironmentFailure, RolloutFailure, UserError, boundary
from practicum.core.interfaces import Environment
from practicum.core.task import Task
from practicum.environments.checklist import Finding, Part
from practicum.environments.contract import (
    CONTRACT_TASKS,
    content_of,
    opening_warnings,
    session_problems,
    task_problems,
)
from practicum.environments.reference_policies import (
    EpisodeResult,
    RandomActor,
    ReferenceActor,
    RepeatingActor,
    ScriptActor,
    play_episode,
)

COSTLY_CONTRACT_TASKS = 3
"""Tasks whose sessions are tested, where sessions run in other processes and so cost more."""
TRAP_TASKS = 10
"""Tasks on which simple policies are tried."""
FEW = 10
"""Tasks below which a share says little."""
LUCK = "success is too easy to be a measure; ask for more turns, or let a wrong one fail"
SLOW_EPISODE_S = 1.0
SLOW = "the others of a step wait meanwhile; let `act` await what takes long, or do less"
SHOWN_PROBLEMS = 10
"""Problems listed for a level; the counts cover all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCheck:
    """The result for one level."""

    level: int
    n: int
    """Tasks checked."""
    asked: int
    """Tasks asked for; more than `n` where the level has no more."""
    with_reference: int
    """Tasks with a reference solution; of a user's own tasks, some may have none."""
    reference_solved: int
    """Tasks the reference solved for full marks."""
    do_nothing_paid: int
    """Tasks where doing nothing succeeded or earned something; must be 0."""
    unknown: int = 0
    """Tasks whose outcome nobody can tell: they have no answer, and a reward of their own."""
    near_misses: int = 0
    """Plausible wrong solutions tried."""
    near_miss_solved: int | None = None
    """Tasks that one of them solved; must be 0. None where none is known."""
    random_solved: int | None
    """Tasks solved at random; None where no actions are listed."""
    played_twice: int = 0
    """Tasks whose reference was played twice, to compare the results."""
    tried_simply: int = 0
    """Tasks on which giving up and repeating were tried."""
    episode_s: float | None = None
    """How long an episode of the reference took, in the middle; None where none was played."""
    findings: tuple[Finding, ...] = ()
    """The first things found wrong, and what may lead a policy astray."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, one sentence each."""
        return tuple(one.sentence for one in self.findings if not one.is_warning)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may lead a policy astray. The level may be trained on."""
        return tuple(one.sentence for one in self.findings if one.is_warning)

    @property
    def is_sound(self) -> bool:
        """Whether the level may be trained on."""
        return (
            not self.problems
            and self.n > 0
            and self.with_reference == self.reference_solved
            and self.do_nothing_paid == 0
            and not self.near_miss_solved
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentCheck:
    """The results of all levels."""

    env: str
    seed: int
    levels: tuple[LevelCheck, ...]
    tokenizer: str = ""
    """The model whose tokenizer has tried the names of the actions; empty where none was tried."""

    @property
    def is_sound(self) -> bool:
        """Whether every level may be trained on."""
        return bool(self.levels) and all(level.is_sound for level in self.levels)

    def as_json(self) -> dict[str, object]:
        """The report as JSON values."""
        levels = [
            {
                **asdict(level),
                "problems": level.problems,
                "warnings": level.warnings,
                "is_sound": level.is_sound,
            }
            for level in self.levels
        ]
        return {"env": self.env, "seed": self.seed, "is_sound": self.is_sound, "levels": levels}


class CheckWatcher(Protocol):
    """Callbacks for the progress of a check."""

    def begin(self, tasks: int) -> None:
        """The check starts; so many tasks in all."""
        ...

    def task_done(self) -> None:
        """One more task is checked."""
        ...

    def level_done(self, level: LevelCheck) -> None:
        """A level is complete."""
        ...


async def check_levels(
    first: Environment,
    build: Callable[[int], Environment],
    levels: Sequence[int],
    n: int | None,
    seed: int,
    watch: CheckWatcher,
) -> EnvironmentCheck:
    """Check tasks of several levels.

    Args:
        first: The environment with its own options.
        build: Gives the same environment with the tasks of one level.
        levels: The levels to check.
        n: Tasks of each level, or of all levels together where sessions run in other processes and
            so cost more; None checks all there are.
        seed: Decides which tasks they are.
        watch: Told of the progress.
    """
    counts = _counts(first, levels, n, build, seed)
    watch.begin(sum(counts))
    checks: list[LevelCheck] = []
    for one, count in zip(levels, counts, strict=True):
        if count:
            found = await check_environment(
                build,
                levels=(one,),
                n=None if n is None and isinstance(first, HasTasksToCheck) else count,
                seed=seed,
                report=watch.level_done,
                on_task=watch.task_done,
            )
            checks += found.levels
    return EnvironmentCheck(env=first.name, seed=seed, levels=tuple(checks))


def _counts(
    environment: Environment,
    levels: Sequence[int],
    n: int | None,
    build: Callable[[int], Environment],
    seed: int,
) -> list[int]:
    """How many tasks to check at each level."""
    if n is not None:
        return shares(n, levels) if isinstance(environment, OutOfProcess) else [n] * len(levels)
    if isinstance(environment, HasTasksToCheck):
        built = [build(one) for one in levels]
        return [len(e.tasks_to_check()) for e in built if isinstance(e, HasTasksToCheck)]
    if isinstance(environment, HasTaskList):
        every = environment.every_task()
        if every is None:
            raise UserError(
                f"there is no end to the tasks of {environment.name!r}; check a number of them, "
                "such as --check 300"
            )
        return [len(every)]
    return [sum(1 for _ in build(one).tasks("heldout", seed)) for one in levels]


async def check_environment(
    build: Callable[[int], Environment],
    *,
    levels: Sequence[int],
    n: int | None,
    seed: int = 0,
    report: Callable[[LevelCheck], None] = lambda _: None,
    on_task: Callable[[], None] = lambda: None,
) -> EnvironmentCheck:
    """Check an environment level by level.

    Args:
        build: Gives the environment with only the tasks of one level.
        levels: The levels to check.
        n: Tasks of each level: the first of a finite environment, held-out ones otherwise; None
            checks all there are.
        seed: Which tasks, and the random policy's draws.
        report: Told of each level as soon as it is done.
        on_task: Told after each task.
    """
    checks = []
    name = ""
    for level in levels:
        environment = build(level)
        name = environment.name
        checks.append(await _LevelChecker(environment, level, seed, on_task).check(n))
        report(checks[-1])
    return EnvironmentCheck(env=name, seed=seed, levels=tuple(checks))


def shares(n: int, levels: Sequence[int]) -> list[int]:
    """`n` tasks divided among the levels, as evenly as possible.

    >>> shares(10, [1, 2, 3, 4])
    [3, 3, 2, 2]
    """
    each, rest = divmod(n, len(levels))
    return [each + (at < rest) for at in range(len(levels))]


@dataclass(slots=True, kw_only=True)
class _Findings:
    """What was found about one task."""

    has_reference: bool = True
    reference_solved: bool = False
    reference_turns: int = 0
    do_nothing_paid: bool = False
    is_unknown: bool = False
    near_misses: int = 0
    near_miss_solved: bool = False
    lists_actions: bool = False
    random_solved: bool = False
    played_twice: bool = False
    episode_s: float | None = None
    problems: list[Finding] = field(default_factory=list)

    def add(self, part: Part, sentence: str) -> None:
        """Something is wrong."""
        self.problems.append(Finding(part=part, sentence=sentence))

    @property
    def is_fit(self) -> bool:
        """Whether simple policies can be tried on the task."""
        return self.lists_actions and self.reference_solved and not self.problems

    @contextmanager
    def collecting_failures(self, where: str, part: Part = "session") -> Iterator[None]:
        """Turn an exception of the environment in the block into one of the problems."""
        try:
            with boundary(EnvironmentFailure, where):
                yield
        except RolloutFailure as failure:
            said = str(failure)
            sentence = said if said.startswith(where) else f"{where}: {said}"
            if sentence not in [one.sentence for one in self.problems]:
                self.add(part, sentence)


class _LevelChecker:
    """Checks one level; several tasks at once where sessions run in other processes."""

    def __init__(
        self, environment: Environment, level: int, seed: int, on_task: Callable[[], None]
    ) -> None:
        self._environment = environment
        self._level = level
        self._seed = seed
        self._on_task = on_task
        self._random_actor = RandomActor(seed)
        self._is_out_of_process = isinstance(environment, OutOfProcess)
        self._is_finite = every_task(environment) is not None
        at_once = environment.sessions_at_once if isinstance(environment, OutOfProcess) else 1
        self._slots = asyncio.Semaphore(at_once)

    async def check(self, n: int | None) -> LevelCheck:
        """Check up to `n` tasks, and count."""
        of_all = _Findings()
        tasks: list[Task] = []
        try:
            with of_all.collecting_failures("its tasks", "tasks"):
                tasks.extend(_tasks_to_check(self._environment, n, self._seed))
                of_all.problems.extend(task_problems(self._environment, self._level, self._seed))
        except UserError as error:  # its options leave none
            of_all.add("tasks", str(error))
        if not tasks:
            of_all.add("tasks", "there are no tasks to check")
        tested = COSTLY_CONTRACT_TASKS if self._is_out_of_process else CONTRACT_TASKS
        found = await asyncio.gather(
            *(self._check_task(task, at < tested) for at, task in enumerate(tasks))
        )
        findings = [problem for one in (of_all, *found) for problem in one.problems]
        fit = [task for task, one in zip(tasks, found, strict=True) if one.is_fit]
        findings = [*findings[:SHOWN_PROBLEMS], *await self._warnings(fit, found)]
        with_misses = [one for one in found if one.near_misses]
        with_actions = [one for one in found if one.lists_actions]
        return LevelCheck(
            level=self._level,
            n=len(tasks),
            asked=len(tasks) if n is None else n,
            with_reference=sum(one.has_reference for one in found),
            reference_solved=sum(one.reference_solved for one in found),
            do_nothing_paid=sum(one.do_nothing_paid for one in found),
            unknown=sum(one.is_unknown for one in found),
            near_misses=sum(one.near_misses for one in found),
            near_miss_solved=(
                sum(one.near_miss_solved for one in with_misses) if with_misses else None
            ),
            random_solved=(
                sum(one.random_solved for one in with_actions) if with_actions else None
            ),
            played_twice=sum(one.played_twice for one in found),
            tried_simply=0 if self._is_out_of_process else min(len(fit), TRAP_TASKS),
            episode_s=_median([one.episode_s for one in found if one.episode_s is not None]),
            findings=tuple(findings),
        )

    async def _warnings(self, fit: Sequence[Task], found: Sequence[_Findings]) -> list[Finding]:
        """What may lead a policy astray, or makes a run slow."""
        told: list[tuple[Part, str]] = [("rewards", one) for one in await self._traps(fit)]
        if too_long := RolloutConfig().too_long([one.reference_turns for one in found]):
            told.append(("reference", f"{too_long} when you train"))
        lucky = sum(one.random_solved for one in found)
        if len(found) >= FEW and lucky > len(found) / 2:
            told.append(("random actions", f"they solve {lucky} of {len(found)}: {LUCK}"))
        took = _median([one.episode_s for one in found if one.episode_s is not None])
        if took is not None and took > SLOW_EPISODE_S and not self._is_out_of_process:
            told.append(("speed", f"an episode takes {took:.1f} s before a model is asked: {SLOW}"))
        warnings = [Finding(part=part, sentence=one, is_warning=True) for part, one in told]
        if fit and not self._is_out_of_process:
            warnings += await opening_warnings(self._environment, self._seed)
        return warnings

    async def _traps(self, tasks: Sequence[Task]) -> list[str]:
        """What simple policies earn on the first sound tasks, where playing them costs little."""
        if self._is_out_of_process:
            return []
        some = tasks[:TRAP_TASKS]
        return find_traps([await measure_pay(self._environment, t, self._seed) for t in some])

    async def _check_task(self, task: Task, tests_contract: bool) -> _Findings:
        found = _Findings()
        before = content_of(task)
        async with self._slots:
            if tests_contract:
                with found.collecting_failures(f"task {task.id!r}"):
                    found.problems.extend(await session_problems(self._environment, task))
            with found.collecting_failures(f"task {task.id!r}"):
                await self._play_reference(task, found, again=self._repeats(tests_contract))
            with found.collecting_failures(f"task {task.id!r}"):
                await self._play_others(task, found)
        if content_of(task) != before:
            found.add(
                "tasks",
                f"task {task.id!r}: its sessions change its data, so it is another task the next "
                "time; let `open` copy what they change, as in copy.deepcopy(task.data)",
            )
        self._on_task()
        return found

    def _repeats(self, tests_contract: bool) -> bool:
        """Whether the reference runs twice, with equal results; a user's set-up may be random."""
        return not self._is_finite and (tests_contract or not self._is_out_of_process)

    async def _play_reference(self, task: Task, found: _Findings, *, again: bool) -> None:
        turns = list(self._environment.reference(task))
        found.has_reference = bool(turns)
        if not turns:
            missing = f"task {task.id!r}: there is no reference"
            if not self._is_finite:
                found.add("reference", missing)
            return
        actor = ReferenceActor(self._environment)
        begun = time.perf_counter()
        play = await play_episode(self._environment, task, actor, len(turns))
        found.episode_s = time.perf_counter() - begun
        part: Part = "reference"
        wrong = self._reference_problem(task, turns, play)
        if wrong is None and again:
            second = await play_episode(self._environment, task, actor, len(turns))
            found.played_twice = True
            if second != play:
                wrong = f"task {task.id!r}: the same actions gave another result the second time"
                part = "determinism"
        found.reference_solved, found.reference_turns = wrong is None, len(turns)
        if wrong is not None:
            found.add(part, wrong)

    def _reference_problem(
        self, task: Task, turns: Sequence[str], play: EpisodeResult
    ) -> str | None:
        """What is wrong with an episode of the reference, or None."""
        environment = self._environment
        if play.outcome.success is not True:
            return f"task {task.id!r}: the reference does not solve it{_why(play)}"
        if len(play.texts) < len(turns):
            return f"task {task.id!r}: the episode ends before the reference does"
        total = play.total_reward
        best = environment.full_marks(task) if isinstance(environment, HasFullMarks) else total
        if not math.isclose(total, best):
            return f"task {task.id!r}: the reference earns {total}, full marks are {best}"
        return None

    async def _play_others(self, task: Task, found: _Findings) -> None:
        """Run the do-nothing policy, the near-misses, and the random policy."""
        environment = self._environment
        async with environment.open(task) as session:
            found.lists_actions = bool(actions_of(session))
            idle = await session.outcome()
        found.is_unknown = idle.success is None and not found.has_reference
        paid = idle.success is not False and not found.is_unknown
        found.do_nothing_paid = paid or any(idle.turn_rewards)
        if found.do_nothing_paid:
            found.add("doing nothing", f"task {task.id!r}: doing nothing earns something")
        if isinstance(environment, HasNearMisses):
            for number, turns in enumerate(environment.near_misses(task), 1):
                found.near_misses += 1
                play = await play_episode(environment, task, ScriptActor(turns), len(turns))
                if play.outcome.success is not False:
                    found.near_miss_solved = True
                    found.add("near-misses", f"task {task.id!r}: near-miss {number} is accepted")
        if found.lists_actions:
            play = await play_episode(environment, task, self._random_actor)
            found.random_solved = play.outcome.success is True


def _tasks_to_check(environment: Environment, n: int | None, seed: int) -> Iterator[Task]:
    if n is None and isinstance(environment, HasTasksToCheck):
        return iter(environment.tasks_to_check())
    every = every_task(environment)
    return islice(every if every is not None else environment.tasks("heldout", seed), n)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _why(play: EpisodeResult) -> str:
    """The first failed assertion in the outcome's evidence, in brackets; empty if there is none."""
    checks = play.outcome.evidence.get("checks")
    for one in checks if isinstance(checks, list) else []:
        if isinstance(one, dict) and one.get("ok") is False:
            return f" ({one.get('why')})"
    return ""


LARGE_SHARE = 0.3
"""Of the reference's reward: what repeating may earn before it is warned of."""
RANDOM_PLAYS = 4
MOST_ACTIONS = 16
"""Actions by name that are tried; pairs grow with their square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPay:
    """What simple policies earn on one task."""

    full: float
    """By the reference."""
    at_random: float
    """By random actions that do not give up, on average."""
    repeated: Mapping[str, float]
    """By taking one action, or two in turn, until the turns are over, without solving the task."""
    exits: Mapping[str, float]
    """By an action that ends the episode at once without solving it."""


async def measure_pay(environment: Environment, task: Task, seed: int) -> TaskPay:
    """Play the simple policies on a task whose actions are listed."""
    async with environment.open(task) as session:
        names = [f.name for f in actions_of(session) if f.argument is None][:MOST_ACTIONS]

    async def play(*turns: str) -> EpisodeResult:
        return await play_episode(environment, task, RepeatingActor(turns))

    played = {name: await play(name) for name in names}
    played |= {f"{a}, {b}": await play(a, b) for a, b in combinations(names, 2)}
    unsolved = {name: one for name, one in played.items() if one.outcome.success is not True}
    exits = {
        name: one.total_reward
        for name, one in unsolved.items()
        if one.terminated and len(one.texts) == 1
    }
    trying = RandomActor(seed, lambda form: form.argument is None and form.name not in exits)
    tries = [await play_episode(environment, task, trying) for _ in range(RANDOM_PLAYS)]
    solution = await play_episode(environment, task, ReferenceActor(environment), 1000)
    return TaskPay(
        full=solution.total_reward,
        at_random=fmean(one.total_reward for one in tries),
        repeated={name: one.total_reward for name, one in unsolved.items() if not one.terminated},
        exits=exits,
    )


def find_traps(pays: Sequence[TaskPay]) -> list[str]:
    """What is found over some tasks, one sentence each.

    >>> gives_up = TaskPay(full=8.5, at_random=-2.0, repeated={}, exits={"state_answer": -0.5})
    >>> find_traps([gives_up])[0][:60]
    "'state_answer' at once ends an episode with -0.50 on average"
    """
    if not pays or fmean(pay.full for pay in pays) <= 0.0:
        return []
    full, at_random = (fmean(getattr(pay, name) for pay in pays) for name in ("full", "at_random"))
    found = []
    for name, earned in _means([pay.exits for pay in pays]).items():
        if earned > at_random:
            found.append(
                f"{name!r} at once ends an episode with {earned:.2f} on average, and trying at "
                f"random earns {at_random:.2f}: a policy that cannot solve a task yet gains by "
                "giving up; let giving up cost more, or let it not end the episode"
            )
    repeated = _means([pay.repeated for pay in pays])
    best = max(repeated, key=lambda name: repeated[name], default="")
    if best and repeated[best] > LARGE_SHARE * full:
        found.append(
            f"taking {best!r} again and again earns {repeated[best]:.2f} of {full:.2f} on average "
            "and solves nothing; pay only for what brings the solution nearer"
        )
    return found


def _means(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each entry over the tables that have it, where at least half of them do."""
    names = {name for table in tables for name in table}
    values = {name: [table[name] for table in tables if name in table] for name in sorted(names)}
    return {name: fmean(found) for name, found in values.items() if 2 * len(found) >= len(tables)}
