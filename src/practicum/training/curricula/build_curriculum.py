"""The curriculum a config names, over what an environment has: levels, skills or repeated tasks."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from practicum.core.capabilities import every_task, parts_of
from practicum.core.config.curriculum_config import (
    AdaptiveConfig,
    AnyCurriculum,
    AutoCurriculumConfig,
    MeasuredConfig,
    NoCurriculumConfig,
    PhasesConfig,
)
from practicum.core.errors import ConfigError
from practicum.core.interfaces import Environment
from practicum.core.task import Task
from practicum.training.curricula.adaptive import AdaptivePicker
from practicum.training.curricula.measured_tasks import MeasuredTasks
from practicum.training.curricula.phases import PhasePicker, spread_levels
from practicum.training.curricula.task_kinds import TaskKinds
from practicum.training.curricula.task_sources import (
    LOOKAHEAD,
    LevelStreams,
    LookAhead,
    TaskCatalogue,
    TaskSource,
    level_bucket,
)
from practicum.training.curriculum import SharedCurriculum, TaskLedger

ABOUT = {
    "family": ("family",),
    "skill": ("domain", "skill", "skills"),
    "domain": ("domain",),
    "service": ("service", "services"),
}
"""Keys of a task's data that say what it is about, by what `curriculum.by` calls it."""
NOTHING = "no_skill"
"""The bucket of tasks that do not say."""
PEEKED = 64
"""Tasks that are looked at for families where no curriculum is named."""


def build_curriculum(
    config: AnyCurriculum,
    environment: Environment | None,
    seed: int,
    levels: Sequence[int] = (),
    of_level: Callable[[int], Environment] | None = None,
) -> SharedCurriculum:
    """The curriculum of a run.

    Args:
        config: Which one, and its options.
        environment: Where the tasks are from; None where a run only learns from traces.
        seed: Decides the order of tasks, and what chance does.
        levels: Those the run is about, where tasks of one level can be asked for.
        of_level: The environment with the tasks of one level.
    """
    if environment is None:
        return TaskLedger(lambda: iter(()))
    open_stream = partial(environment.tasks, "train", seed)
    if isinstance(config, AutoCurriculumConfig):
        config = _by_itself(open_stream)
    if isinstance(config, NoCurriculumConfig):
        return TaskLedger(open_stream)
    wanted = _wanted_levels(config, levels)
    by_level = isinstance(config, PhasesConfig) or config.by in ("auto", "level")
    if of_level is not None and by_level and len(wanted) > 1:
        # Opened now, so that a level that the environment does not have is said at once.
        opened = {level: partial(of_level(level).tasks, "train", seed) for level in wanted}
        return _over(config, LevelStreams(opened), wanted, seed)
    if isinstance(config, PhasesConfig):
        found = _levels_ahead(open_stream, wanted)
        _check_several(found, environment, config)
        return _over(config, LookAhead(open_stream, _level_of), found, seed)
    source, found = _adaptive_source(config, environment, open_stream)
    return _over(config, source, found, seed)


def _by_itself(open_stream: Callable[[], Iterator[Task]]) -> NoCurriculumConfig | AdaptiveConfig:
    """By family where the next tasks name several: one that never succeeds is not half of a run."""
    peeked = list(islice(open_stream(), PEEKED))
    families = {task.data.get("family") for task in peeked} - {None}
    are_of_one = len({task.env for task in peeked}) == 1
    is_by_family = are_of_one and len(families) > 1
    return AdaptiveConfig(by="family") if is_by_family else NoCurriculumConfig()


def _wanted_levels(config: MeasuredConfig, levels: Sequence[int]) -> Sequence[int]:
    if isinstance(config, PhasesConfig) and config.phases:
        return [level for phase in config.phases for level in phase]
    return config.levels or levels


def _over(
    config: MeasuredConfig, source: TaskSource, levels: Sequence[int], seed: int
) -> MeasuredTasks:
    if isinstance(config, PhasesConfig):
        phases = config.phases or spread_levels(levels)
        return MeasuredTasks(source, PhasePicker(config, phases, seed))
    assert isinstance(config, AdaptiveConfig)
    return MeasuredTasks(source, AdaptivePicker(config, seed, ordered=bool(levels)))


def _level_of(task: Task) -> str:
    return level_bucket(task.level)


def _levels_ahead(
    open_stream: Callable[[], Iterator[Task]], wanted: Sequence[int]
) -> Sequence[int]:
    """The levels among the next tasks; those asked for, which must be there, where any are."""
    found = sorted({task.level for task in islice(open_stream(), LOOKAHEAD)})
    missing = [level for level in wanted if level not in found]
    if missing:
        raise ConfigError(
            f"curriculum: there is no task of level {missing[0]} among the first {LOOKAHEAD}; "
            f"levels there are {', '.join(map(str, found))}"
        )
    return wanted or found


def _check_several(levels: Sequence[int], environment: Environment, config: PhasesConfig) -> None:
    if len(levels) < 2 or len(config.phases) == 1:
        raise ConfigError(
            f"curriculum: phases needs at least two levels, and {environment.name!r} has one with "
            "these options; give several, such as env.level=[1, 2, 3], or write curriculum: none"
        )


def _adaptive_source(
    config: AdaptiveConfig, environment: Environment, open_stream: Callable[[], Iterator[Task]]
) -> tuple[TaskSource, Sequence[int]]:
    """What there is to choose between in the environment's own stream, and its levels if those."""
    if config.levels:
        raise ConfigError(
            f"curriculum.levels = {list(config.levels)} cannot be used: adaptive takes several, of "
            "an environment with the option level, and goes by level then; take it out"
        )
    ahead = list(islice(open_stream(), LOOKAHEAD))
    kinds: tuple[str, ...] = (config.by,)
    if config.by == "auto":
        kinds = ("env", "level", "family", "skill", "task")
    for kind in kinds:
        levels = sorted({task.level for task in ahead})
        if kind == "level" and len(levels) > 1:
            return LookAhead(open_stream, _level_of), levels
        named = _env_of if kind == "env" else partial(_named_in, ABOUT.get(kind, ()))
        if kind in ("env", *ABOUT) and len({named(task) for task in ahead}) > 1:
            return LookAhead(open_stream, named), ()
        if kind == "task" and _repeats(environment, ahead):
            return TaskCatalogue(open_stream), ()
    raise ConfigError(
        f"curriculum: adaptive finds nothing to choose between in {environment.name!r} with these "
        f"options, by {' or '.join(kinds)}; give several levels, such as env.level=[1, 2, 3], put "
        "a skill into the tasks' data, or write curriculum: none"
    )


def _env_of(task: Task) -> str:
    return f"env_{task.env}"


def _named_in(keys: Sequence[str], task: Task) -> str:
    """What a task is about; tasks that do not say are one bucket."""
    said = [(key, task.data[key]) for key in keys if task.data.get(key)]
    words = [
        f"{key}_{'+'.join(map(str, value)) if isinstance(value, list) else value}"
        for key, value in said
    ]
    return "_".join(words) or NOTHING


def by_kind(curriculum: SharedCurriculum, environment: Environment, max_turns: int) -> TaskKinds:
    """The curriculum by kind of task: by level, and by family or skill where tasks name one.

    Args:
        curriculum: Chooses the tasks.
        environment: Has their references.
        max_turns: Of episodes that may be given a jump start; 0 gives none.
    """

    def kind_of(task: Task) -> str:
        about = "family" if task.data.get("family") else "skill"
        named = _named_in(ABOUT[about], task)
        level = level_bucket(task.level)
        kind = level if named == NOTHING else f"{level}_{named}"
        return f"{task.env}_{kind}" if len(parts_of(environment)) > 1 else kind

    return TaskKinds(curriculum, environment, kind_of, max_turns)


def _repeats(environment: Environment, ahead: Sequence[Task]) -> bool:
    """Whether tasks come again: there are few, or the environment has a list of them."""
    few = len(ahead) < LOOKAHEAD or len({task.id for task in ahead}) < len(ahead)
    return len(ahead) > 1 and (few or every_task(environment) is not None)
