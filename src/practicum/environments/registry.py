"""Builds environments by name, and looks up their tasks. A class is imported only when used.

Each is found by an entry point, those of `practicum_envs` like one of your own package:

```toml
[project.entry-points."practicum.environments"]
chores = "my_package.chores:ChoresEnvironment"
```

Without a package, give the class itself as the name: `env: my_package.chores:ChoresEnvironment`.
"""

import importlib
import sys
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from itertools import chain, islice
from threading import Timer
from typing import Any, ClassVar, Protocol, TypeVar, cast

from pydantic import BaseModel, ValidationError, create_model

from practicum.core.capabilities import Closable, FindsTasks
from practicum.core.config.parse_config import explain
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import (
    ConfigError,
    PracticumError,
    UserError,
    as_failure,
    nearest,
    user_line,
)
from practicum.core.interfaces import Environment
from practicum.core.task import Split, Task
from practicum.core.trace import LONE_SURROGATE
from practicum.core.trusted_code import require_secrets
from practicum.core.user_code import load_callable, names_code, place_of, unnamed_code
from practicum.environments.gym_environment import is_gym_like, wrap

T = TypeVar("T")

MACHINERY = {
    "mixed": "practicum.environments.mixture:MixtureEnvironment",
    "remote": "practicum.environments.remote.remote_environment:RemoteEnvironment",
    "tasks": "practicum.environments.tasks_environment:TasksEnvironment",
}
"""What is no field of work: several in one run, another's behind a URL, a user's rows."""
ENTRY_POINTS = "practicum.environments"
OURS = ("practicum.", "practicum_envs.")
"""Where the modules of this distribution are."""
OTHER_NAMES = {
    "agent_company": ("tac", "theagentcompany", "agentcompany", "agentcompanybench"),
    "harbor": ("terminalbench", "terminalbench2", "tbench"),
    "math": ("algebra", "equations", "maths"),
    "office": ("company",),
    "shell": ("bash", "osinteraction", "os", "lifelong", "lifelongagentbench", "terminal"),
}
"""What others call them, in small letters alone."""


class EnvironmentClass(Protocol):
    """What a name stands for: a class whose instances are made from validated options."""

    Options: ClassVar[type[BaseModel]]
    """Model of the options; `practicum.ConfigModel` refuses unknown keys."""
    all_levels: ClassVar[tuple[int, ...]]
    """Levels its `level` option takes; `(1,)` for an environment without that option."""

    def __call__(self, options: Any) -> Environment:
        """The environment with these options."""
        ...


def environment_names() -> list[str]:
    """Every name that `build_environment` takes."""
    return sorted({*MACHINERY, *_plugins()})


def environment_class(name: str) -> EnvironmentClass:
    """The class of a name; `ConfigError` with the known names if there is none.

    A name may be written with hyphens for underscores, as in `agent-company`.
    """
    if name in MACHINERY:
        module, _, attribute = MACHINERY[name].partition(":")
        machinery: EnvironmentClass = getattr(importlib.import_module(module), attribute)
        return machinery
    if names_code(name):
        return _checked(load_callable(name, "env"), name)
    plugins = _plugins()
    plugin = plugins.get(name) or plugins.get(name.replace("-", "_"))
    if plugin is None:
        raise ConfigError(_unknown(name))
    return _load(plugin)


def is_own(name: str) -> bool:
    """Whether the class of a name is somebody's own, and not one that comes with Practicum."""
    top = getattr(environment_class(name), "__module__", "").partition(".")[0]
    return names_code(name) or top not in ("practicum", "practicum_envs")


def build_environment(name: str, options: Mapping[str, Any] | None = None) -> Environment:
    """An environment from its name and options.

    >>> build_environment("math", {"level": 2}).name
    'math'
    """
    kind = environment_class(name)
    require_secrets({"name": name, **(options or {})}, "env")
    whole = create_model("Env", env=(kind.Options, ...))
    try:
        checked = whole.model_validate({"env": dict(options or {})})
    except ValidationError as error:
        raise ConfigError(explain(error, whole)) from None
    _check_levels(kind, (options or {}).get("level"))
    try:
        made = kind(getattr(checked, "env"))  # noqa: B009 - the field is made at run time
    except PracticumError:
        raise
    except Exception as error:
        line = user_line(error) or (place_of(kind) if names_code(name) else "")
        if not line:
            raise
        raise UserError(
            f"the environment {name!r} cannot be made: {type(error).__name__}: {error}{line}; mend "
            "that: it is called with its options, as in `def __init__(self, options)`"
        ) from error
    if not isinstance(getattr(made, "name", None), str):
        raise UserError(
            f"the environment {name!r} has no name{place_of(kind)}; write one in its class, "
            'such as name = "courier"'
        )
    return made


def _check_levels(kind: EnvironmentClass, asked: Any) -> None:
    """Refuse a level that a class does not list among its own."""
    levels = asked if isinstance(asked, list | tuple) else [asked]
    if unknown := [one for one in levels if isinstance(one, int) and one not in kind.all_levels]:
        known = ", ".join(map(str, kind.all_levels))
        raise ConfigError(
            f"env.level = {asked}: there is no level {unknown[0]}; there are {known}, so write "
            f"env.level={kind.all_levels[0]}"
        )


def build_level(name: str, level: int, options: Mapping[str, Any] | None = None) -> Environment:
    """An environment with only the tasks of one level; unchanged where it has no levels.

    >>> next(build_level("math", 3).tasks("train", 0)).level
    3
    """
    has_levels = "level" in environment_class(name).Options.model_fields
    return build_environment(name, {**(options or {}), **({"level": level} if has_levels else {})})


def _plugins() -> dict[str, EntryPoint]:
    """Entry points by name; where two packages have one name, it stands for ours."""
    found = entry_points(group=ENTRY_POINTS)
    return {point.name: point for point in sorted(found, key=_is_ours)}


def _is_ours(plugin: EntryPoint) -> bool:
    return plugin.value.startswith(OURS)


def _load(plugin: EntryPoint) -> EnvironmentClass:
    try:
        loaded = plugin.load()
    except Exception as error:  # another package's import may fail in any way
        raise UserError(
            f"the environment {plugin.name!r} cannot be loaded from {plugin.value!r}: "
            f"{type(error).__name__}: {error}; mend or uninstall the package that brings it"
        ) from error
    return _checked(loaded, plugin.value)


def _checked(loaded: Any, place: str) -> EnvironmentClass:
    if is_gym_like(loaded):
        return cast(EnvironmentClass, wrap(loaded))
    needed = ("Options", "all_levels", "tasks", "open")
    missing = [part for part in needed if not hasattr(loaded, part)]
    if missing:
        raise UserError(
            f"the environment {place!r} has no {' and no '.join(missing)}{place_of(loaded)}; its "
            "class needs `class Options(practicum.ConfigModel)`, `all_levels = (1,)`, `tasks` and "
            f"`open`, as docs/environments.md shows, or `reset` and `step`, as Gymnasium's have"
        )
    kind: EnvironmentClass = loaded
    is_model = isinstance(kind.Options, type) and issubclass(kind.Options, BaseModel)
    if not is_model or kind.Options.model_config.get("extra", "ignore") == "ignore":
        # A plain pydantic model ignores keys that it does not know, and so a typing error.
        raise UserError(
            f"the Options of {place!r} would ignore unknown keys{place_of(loaded)}; write `class "
            'Options(practicum.ConfigModel)`, or give it model_config = {"extra": "forbid"}'
        )
    return kind


def _unknown(name: str) -> str:
    if python := unnamed_code(name, "class"):
        return python
    names = environment_names()
    if name.replace("-", "_") in OTHER_NAMES:
        return (
            f"the environment {name!r} comes with practicum, and this installation does not know "
            "it: it is older than its code; install again, in a clone with: pip install -e ."
        )
    letters = "".join(filter(str.isalnum, name.lower()))
    known_as = [ours for ours, theirs in OTHER_NAMES.items() if letters in theirs]
    meant = f"did you mean {known_as[0]!r}? " if known_as else nearest(name, names)
    return (
        f"unknown environment {name!r}; {meant}known are {', '.join(names)}; "
        "for one of your own give FILE.py:Class or module:Class"
    )


LOOKED_THROUGH = 1000
"""Training tasks among which held-out ones are looked for before a run."""
SEARCHED = 10_000
"""Tasks of each split and level among which an id is looked for."""
PATIENCE_S = 0.7
"""How long the first task is waited for without a word."""


def first_tasks(
    environment: Environment, split: Split, seed: int, n: int, instead: str = ""
) -> list[Task]:
    """The first `n` tasks of a split, or as many as it has.

    A `tasks` that goes on without giving one may be slow, or may go round an empty list for ever:
    nobody can tell which, so the wait is told.

    Raises:
        UserError: it has none; `instead` says what else can be done about it.
    """
    is_ours = type(environment).__module__.startswith(OURS)
    where = f"`tasks`{'' if is_ours else place_of(environment.tasks)} of {environment.name!r}"
    slow = (
        f"still waiting for the first task: {where} has given none of {split!r}; if it goes round "
        "an empty list for ever, press Ctrl-C and let it end, or give other options"
    )
    clock = Timer(PATIENCE_S, print, (slow,), {"file": sys.stderr, "flush": True})
    clock.daemon = True
    clock.start()
    try:
        stream = iter(environment.tasks(split, seed))
        found = list(islice(stream, 1))
        clock.cancel()
        found += list(islice(stream, n - 1))
    except SystemExit as error:
        raise PracticumError(f"{where}: {as_failure(error)}") from error
    finally:
        clock.cancel()
    if not found:
        raise UserError(
            f"{where} gives no task of {split!r} with these options; give others, such as "
            f"env.level=2, or let it give some{instead}"
        )
    return found


FIRST_TASKS = 32
"""Training tasks that are looked at before a run begins."""


def heldout_tasks(environment: Environment, n: int, seed: int) -> list[Task]:
    """The first `n` held-out tasks; the same for every policy that is evaluated with this seed."""
    tasks = first_tasks(environment, "heldout", seed, n, ", or write eval.n=0")
    if len(tasks) < n:
        there = f"{environment.name!r} has {len(tasks)} held-out tasks with these options"
        raise UserError(f"{there} and {n} were asked for; write eval.n={len(tasks)}, or --n here")
    refuse_unsound(environment, tasks)
    return tasks


def check_first_tasks(config: RunConfig, environment: Environment) -> None:
    """Refuse tasks that no run could use, among the held-out ones and the first of training.

    Before anything is loaded: a comparison would tell of them only after training.
    """
    heldout = list(islice(environment.tasks("heldout", config.eval.seed), config.eval.n))
    refuse_unsound(environment, heldout)
    if config.needs_env:  # others only evaluate there, as on a test set
        training = list(islice(environment.tasks("train", config.seed), FIRST_TASKS))
        refuse_unsound(environment, training, may_repeat=True)


def refuse_unsound(
    environment: Environment, tasks: Sequence[Task], *, may_repeat: bool = False
) -> None:
    """Raise `UserError` for two tasks of one id, and for words that are no text.

    Training tasks may come again as they were.
    """
    seen: dict[str, Task] = {}
    for number, task in enumerate(tasks, start=1):
        if found := LONE_SURROGATE.search(f"{task.id}{task.instruction}"):
            raise UserError(
                f"the task {task.id!r} of {environment.name!r} has {found.group()!r} in its words, "
                "half of a surrogate pair, which is no text and which no model can be given; mend "
                "it in `tasks`"
            )
        before = seen.setdefault(task.id, task)
        if before is not task and not (may_repeat and before == task):
            raise UserError(
                f"{environment.name!r} has two {task.split} tasks that are called {task.id!r}, "
                f"one of them number {number}; `tasks` must give each an id of its own"
            )


def shared_tasks(config: RunConfig, environment: Environment | None) -> list[str]:
    """A sentence where held-out tasks of the user's own are training tasks too, by their ids."""
    if environment is None or not names_code(config.env_name):
        return []
    heldout = islice(environment.tasks("heldout", config.eval.seed), config.eval.n)
    ids = {task.id for task in heldout}
    training = islice(environment.tasks("train", config.seed), LOOKED_THROUGH)
    shared = sorted(ids & {task.id for task in training})
    told = f"{len(shared)} of {len(ids)} held-out tasks are training tasks too, such as "
    return [f"{told}{shared[0]!r}: held-out figures are too good" for _ in shared[:1]]


def find_task(environment: Environment, named: str, others: Iterable[Environment] = ()) -> Task:
    """The task with an id, or one the environment makes from a text such as `3x + 7 = 16`.

    Where the environment has no `find`, its first tasks are looked through, and then those of
    `others`: the same environment at its other levels.
    """
    if isinstance(environment, FindsTasks):
        return environment.find(named)
    splits: tuple[Split, ...] = ("heldout", "train")
    for one in chain((environment,), others):
        for split in splits:
            for task in islice(one.tasks(split, 0), SEARCHED):
                if task.id == named:
                    return task
    raise UserError(
        f"{named!r} is the id of none of the first {SEARCHED} tasks of {environment.name!r}, at "
        "any level; list them with practicum tasks, or give the environment a method find(text)"
    )


async def run_and_close(environment: Environment, work: Awaitable[T]) -> T:
    """Await some work with an environment, and close the environment in any case."""
    try:
        return await work
    finally:
        if isinstance(environment, Closable):
            await environment.close()
