"""Classes with `reset` and `step`, as Gymnasium's have them, as environments.

One line wraps such a class, or a function that makes one: `Lake = pr.wrap(make_lake)`. A class that
is named by itself, as in `practicum train lake.py:Lake`, is wrapped without that line.

What it may have, and what it is used for:

    reset(seed=)             begins an episode and returns an observation, or (observation, info).
                             Without `seed`, Python's and numpy's own random numbers are seeded.
    step(action)             (observation, reward, terminated, truncated, info), or Gym's older
                             (observation, reward, done, info), or a mapping with such keys
    get_valid_actions()      what is possible now; else `action_space.n` actions, called by
                             `get_action_meanings()` or by their numbers, less those that
                             `info["action_mask"]` leaves out
    info["success"]          or `is_success`: whether the task is done; else nobody knows, and a run
                             reports the mean reward
    problems                 a list of them; `reset(problem)` is given one in place of a seed
    reference()              the actions of a solution, from where `reset` has left it
    its docstring            tells the model what to do

A seed is a task. One in five is held out, by a hash of the first observation where that differs
from seed to seed, so that no held-out task opens as a training task does.
"""

import hashlib
import inspect
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from practicum.core.config.config_sections import ConfigModel
from practicum.core.errors import UserError, user_line
from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Outcome, Split, Task
from practicum.core.trace import Message
from practicum.core.user_code import place_of

HELD_OUT = 100
"""Held-out tasks at the most: as many as an evaluation takes."""
LOOKED_AT = 2000
"""Seeds among which held-out tasks are looked for."""
SEEN = 50
"""Seeds whose first observations are compared."""
OURS = ("Options", "all_levels", "tasks", "open")


@runtime_checkable
class KnowsSolution(Protocol):
    """A wrapped object that can say how its task is done."""

    def reference(self) -> Sequence[Any]:
        """The actions of a solution, from where `reset` has left it."""
        ...


@runtime_checkable
class Closes(Protocol):
    """A wrapped object that holds something."""

    def close(self) -> None:
        """Let it go."""
        ...


def is_gym_like(thing: Any) -> bool:
    """Whether it is a function, which may make one, or a class with `reset` and `step`.

    A class that has anything of what an environment has here is taken for one of these.
    """
    if inspect.isroutine(thing):
        return True
    theirs = all(callable(getattr(thing, name, None)) for name in ("reset", "step"))
    return isinstance(thing, type) and theirs and not any(hasattr(thing, name) for name in OURS)


def wrap(make: Callable[[], Any], *, name: str = "") -> type:
    """An environment of a class with `reset` and `step`, or of a function that makes such objects.

    >>> class Coin:
    ...     "Say heads."
    ...     def reset(self, seed=None):
    ...         return f"coin {seed}"
    ...     def get_valid_actions(self):
    ...         return ["heads", "tails"]
    ...     def step(self, action):
    ...         return "over", float(action == "heads"), True, False, {}
    >>> wrap(Coin).name
    'coin'

    Args:
        make: Called without arguments for each episode.
        name: What its tasks say in `env`; the name of `make` in small letters unless given.
    """
    if not callable(make):
        raise UserError(
            f"wrap is given {make!r}, an object; give its class, or a function that makes one, as "
            "in pr.wrap(lambda: gymnasium.make('FrozenLake-v1'))"
        )
    called = str(getattr(make, "__name__", type(make).__name__))
    if not called.isidentifier():  # a lambda, which no other process can find
        called = f"Wrapped{id(make)}"
    whole = {
        "__doc__": f"`{called}` as an environment.",
        "__module__": make.__module__,
        "__qualname__": str(getattr(make, "__qualname__", called)).replace("<lambda>", called),
        "name": name or called.lower().rstrip("0123456789"),
        "make": staticmethod(make),
    }
    return type(called, (GymEnvironment,), whole)


class GymEnvironment:
    """Opens an episode of the wrapped class for a seed, or for one of its problems."""

    class Options(ConfigModel):
        """A wrapped class has no options."""

    all_levels: ClassVar[tuple[int, ...]] = (1,)
    name: str
    make: Callable[[], Any]

    def __init__(self, options: Options) -> None:
        try:
            made = self.make()
        except Exception as error:
            raise UserError(
                f"the environment {self.name!r} cannot be made: {type(error).__name__}: {error}"
                f"{user_line(error) or place_of(self.make)}; it is made without arguments"
            ) from error
        if missing := [one for one in ("reset", "step") if not hasattr(made, one)]:
            raise UserError(
                f"a {type(made).__name__}{place_of(type(made))} cannot be wrapped: it has no "
                f"{' and no '.join(missing)}"
            )
        problems = getattr(made, "problems", None)
        self._problems = list(problems() if callable(problems) else problems or ())
        self._split: tuple[bool, int] | None = None

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Problems or seeds; training tasks go on for ever, held-out ones end."""
        rng = random.Random(f"{split} {seed}")
        if self._problems:
            yield from self._of_problems(split, rng)
        elif split == "heldout":
            found = list(self._held_out())
            rng.shuffle(found)
            yield from found
        else:
            while True:
                opened = self._task(rng.randrange(10**6))
                if not self._is_held_out(opened):
                    yield opened

    def _of_problems(self, split: Split, rng: random.Random) -> Iterator[Task]:
        limit = _fifth([_hash_of(one) for one in self._problems])
        found = [
            Task(
                id=f"{self.name}-{_hash_of(problem):012x}",
                env=self.name,
                split=split,
                instruction=" ".join(_as_text(problem).split()),
                data={"problem": problem},
            )
            for problem in self._problems
            if (_hash_of(problem) <= limit) == (split == "heldout")
        ]
        while found:
            rng.shuffle(found)
            yield from found
            if split == "heldout":
                return

    def _held_out(self) -> Iterator[Task]:
        seen: set[str] = set()
        for number in range(LOOKED_AT):
            task = self._task(number, "heldout")
            if self._is_held_out(task) and self._content(task) not in seen:
                seen.add(self._content(task))
                yield task
            if len(seen) == HELD_OUT:
                return

    def _task(self, number: int, split: Split = "train") -> Task:
        env = self.make()
        shown, _ = _begin(env, {"seed": number})
        return Task(
            id=f"{self.name}-{number}",
            env=self.name,
            split=split,
            instruction=" ".join(shown.split()),
            data={"seed": number},
        )

    def _is_held_out(self, task: Task) -> bool:
        return _hash_of(self._content(task)) <= self._rule()[1]

    def _content(self, task: Task) -> str:
        """What decides whether a task is held out."""
        return task.instruction if self._rule()[0] else task.id

    def _rule(self) -> tuple[bool, int]:
        """Whether seeds open with different observations, and up to which hash one is held out."""
        if self._split is None:
            tasks = [self._task(number) for number in range(SEEN)]
            opened = {task.instruction for task in tasks}
            contents = opened if len(opened) > 1 else {task.id for task in tasks}
            self._split = (len(opened) > 1, _fifth([_hash_of(one) for one in contents]))
        return self._split

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator["GymSession"]:
        """One episode of a fresh object."""
        env = self.make()
        try:
            yield GymSession(env, *_begin(env, task.data))
        finally:
            if isinstance(env, Closes):
                env.close()

    def reference(self, task: Task) -> Sequence[str]:
        """What the object's own `reference` says; nothing where it has none."""
        env = self.make()
        if not isinstance(env, KnowsSolution):
            return ()
        _, info = _begin(env, task.data)
        names = {value: name for name, value in _actions(env, info).items() if _hashable(value)}
        return [names.get(one, str(one)) for one in env.reference()]


class GymSession:
    """One episode."""

    def __init__(self, env: Any, shown: str, info: Mapping[str, Any]) -> None:
        self._env = env
        self._shown = shown
        self._valid = _actions(env, info)
        self._paid: list[float] = []
        self._success = _success(info)
        self._is_over = self._is_truncated = False

    def prompt(self) -> list[Message]:
        """What the class says of itself, its actions, and the first observation."""
        rules = _rules(self._env)
        told = f"{rules}\n{self._listed()}" if rules else self._listed()
        return [Message(role="system", content=told), Message(role="user", content=self._shown)]

    def actions(self) -> tuple[ActionForm, ...]:
        """What is possible now."""
        return tuple(ActionForm(name=name) for name in self._valid)

    async def act(self, text: str) -> Observation:
        """One `step`."""
        if self._is_over:
            raise RuntimeError("the episode is over")
        if text not in self._valid:
            raise ValueError(f"{text!r} is none of the actions now: {', '.join(self._valid)}")
        stepped = self._env.step(self._valid[text])
        result = await stepped if inspect.isawaitable(stepped) else stepped
        seen, reward, self._is_over, self._is_truncated, info = _stepped(self._env, result)
        self._is_over = self._is_over or self._is_truncated
        self._paid.append(float(reward))
        said = _success(info)
        self._success = self._success if said is None else said
        shown = _as_text(seen)
        if not self._is_over:
            before, self._valid = self._valid, _actions(self._env, info)
            shown += "" if list(before) == list(self._valid) else f"\n{self._listed()}"
        message = Message(role="user", content=shown)
        return Observation(message=message, reward=self._paid[-1], terminated=self._is_over)

    async def outcome(self) -> Outcome:
        """Success as `info` has it, or False before the end, and what each turn paid."""
        success = self._success if self._is_over or self._success is not None else False
        evidence: dict[str, JSON] = {"truncated": self._is_truncated}
        return Outcome(success=success, turn_rewards=tuple(self._paid), evidence=evidence)

    def _listed(self) -> str:
        return f"Your actions: {', '.join(self._valid)}"


def _begin(env: Any, data: Mapping[str, JSON]) -> tuple[str, Mapping[str, Any]]:
    """The first observation of an episode as text, and what `reset` says besides."""
    if "problem" in data:
        begun = env.reset(data["problem"])
    elif _takes_seed(env):
        begun = env.reset(seed=data["seed"])
    else:
        with _seeded(int(str(data["seed"]))):
            begun = env.reset()
    if inspect.isawaitable(begun):
        if inspect.iscoroutine(begun):
            begun.close()
        raise UserError(
            f"`reset` of {type(env).__name__}{place_of(env.reset)} is async, and is asked for "
            "before any episode; write `def reset`"
        )
    has_info = isinstance(begun, tuple) and len(begun) == 2 and isinstance(begun[1], Mapping)
    shown, info = begun if has_info else (begun, {})
    return _as_text(shown), info


def _takes_seed(env: Any) -> bool:
    """Whether `reset` can be given a seed; it must need nothing else."""
    parameters = inspect.signature(env.reset).parameters.values()
    by_keyword = [one for one in parameters if one.kind is not one.VAR_POSITIONAL]
    for one in by_keyword:
        if one.default is one.empty and one.name != "seed" and one.kind is not one.VAR_KEYWORD:
            raise UserError(
                f"`reset` of {type(env).__name__}{place_of(env.reset)} takes {one.name!r}, and "
                "there is no list of what it takes; write `problems = [...]` in the class"
            )
    return any(one.name == "seed" or one.kind is one.VAR_KEYWORD for one in by_keyword)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Python's and numpy's own random numbers begin with a seed; afterwards they are as before."""
    python, arrays = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)


def _actions(env: Any, info: Mapping[str, Any]) -> dict[str, Any]:
    """What is possible now: each action's name, and what `step` takes for it."""
    where = f"{type(env).__name__}{place_of(type(env))}"
    if callable(getattr(env, "get_valid_actions", None)):
        values = list(env.get_valid_actions())
        if not values:
            raise UserError(
                f"get_valid_actions of {where} gives nothing while the episode goes on; give at "
                "least one, or let `step` end it"
            )
        names = [str(value) for value in values]
        if doubles := [name for name in names if names.count(name) > 1]:
            raise UserError(
                f"get_valid_actions of {where} gives {doubles[0]!r} twice; give it once"
            )
        return dict(zip(names, values, strict=True))
    space: Any = getattr(env, "action_space", None)
    if not hasattr(space, "n"):
        raise UserError(
            f"{where} does not say what can be done; give it a method get_valid_actions() that "
            "returns names, or an action_space of gymnasium.spaces.Discrete"
        )
    first = int(getattr(space, "start", 0))
    meanings = getattr(getattr(env, "unwrapped", env), "get_action_meanings", None)
    names = list(map(str, meanings())) if callable(meanings) else []
    every = {
        (names[at].lower() if at < len(names) else str(first + at)): first + at
        for at in range(int(space.n))
    }
    mask = info.get("action_mask")
    return every if mask is None else {k: v for k, v in every.items() if mask[v - first]}


def _stepped(env: Any, result: Any) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
    """The five parts of what `step` returned."""
    if isinstance(result, Mapping):
        seen = next((result[key] for key in ("observation", "state") if key in result), "done")
        over = result.get("terminated", result.get("done", False))
        result = (seen, result.get("reward", 0.0), over, result.get("truncated", False), result)
    parts = result if isinstance(result, tuple) else ()
    if len(parts) == 5:
        seen, reward, terminated, truncated, info = parts
    elif len(parts) in (3, 4):
        seen, reward, terminated, info = (*parts, {})[:4]
        truncated = False
    else:
        raise UserError(
            f"`step` of {type(env).__name__}{place_of(env.step)} gave {result!r:.60}; return "
            "(observation, reward, terminated, truncated, info)"
        )
    return seen, reward, bool(terminated), bool(truncated), info or {}


def _success(info: Mapping[str, Any]) -> bool | None:
    said = info.get("success", info.get("is_success"))
    return None if said is None else bool(said)


def _rules(env: Any) -> str:
    """The first words of its own docstring."""
    return inspect.cleandoc(type(env).__doc__ or "").partition("\n\n")[0]


def _as_text(seen: Any) -> str:
    """An observation as a model can read it."""
    if hasattr(seen, "tolist"):
        seen = seen.tolist()
    if isinstance(seen, Mapping):
        return "\n".join(f"{key}: {_as_text(value)}" for key, value in seen.items())
    if isinstance(seen, list | tuple):
        return " ".join(map(_as_text, seen))
    return f"{seen:.4g}" if isinstance(seen, float) else str(seen)


def _hash_of(content: Any) -> int:
    text = json.dumps(content, sort_keys=True, default=str)
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def _fifth(hashes: Sequence[int]) -> int:
    """The hash up to which one in five of these lies, and at least one."""
    ordered = sorted(set(hashes))
    return ordered[max(0, len(ordered) // 5 - 1)]


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
