"""User code: loaded as a config names it (`FILE.py:NAME` or `module:NAME`), and called."""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from practicum.core.errors import ConfigError, as_failure, nearest, user_line

T = TypeVar("T")

_REGISTERED: dict[str, Any] = {}
"""Classes and functions that were passed as objects from Python, by name; see `register`."""


def register(thing: Any) -> str:
    """Register a class, a function or an object and return its name for configs.

    The name is `module:qualname`, or `FILE.py:qualname` for one of the script that runs, so that
    another process can import it and resume a run. An object, and what is made in a notebook or
    inside a function, is only known in this process.

    >>> def polite(task, trace, outcome):
    ...     return 1.0
    >>> register(polite)
    'practicum.core.user_code:polite'
    """
    is_named = isinstance(thing, type) or inspect.isroutine(thing)
    kind, own = (thing, "") if is_named else (type(thing), f"_{id(thing)}")
    place = kind.__module__
    script = getattr(sys.modules.get(place), "__file__", None) if place == "__main__" else None
    # What is defined in a function has <locals> in its name, which no config could hold.
    name = kind.__qualname__.replace("<locals>", "locals") + own
    name = f"{Path(script).resolve() if script else place}:{name}"
    _REGISTERED[name] = thing
    return name


def names_code(word: str) -> bool:
    """Whether a word names code of the user's: `FILE.py:NAME` or `module:NAME`.

    >>> names_code("my_reward.py:short"), names_code("http://localhost:8000"), names_code("math")
    (True, False, False)
    """
    place, _, name = word.rpartition(":")
    is_place = place.endswith(".py") or (bool(place) and "/" not in place)
    return is_place and name.replace(".", "").isidentifier()


def unnamed_code(place: str, what: Literal["class", "function"]) -> str:
    """What to type in place of a Python file's bare name; empty for other words. It is not run."""
    if not place.endswith(".py") or not Path(place).is_file():
        return ""
    kinds = ast.ClassDef if what == "class" else ast.FunctionDef | ast.AsyncFunctionDef
    try:
        body = ast.parse(Path(place).read_bytes()).body
    except (SyntaxError, ValueError):  # loading it says more
        body = []
    there = [f"{place}:{n.name}" for n in body if isinstance(n, kinds) and n.name[0] != "_"]
    typed = " or ".join(there[:8]) or f"{place}:NAME"
    return f"{place} is a Python file; name a {what} in it: write {typed}"


def load_callable(named: str, key: str) -> Any:
    """The function or class that `named` names; `key` is its config key, for error messages.

    Relative files, and modules that are not installed, are found from the current folder.
    """
    place, _, name = named.rpartition(":")
    if not place or not name:
        raise ConfigError(
            f"{key} = {named!r} names no function; write FILE.py:NAME, such as my_agent.py:rollout"
        )
    if named in _REGISTERED:
        return _REGISTERED[named]
    module = _from_file(place, key) if place.endswith(".py") else _from_name(place, key)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        kind = "class" if key == "env" else "function"
        fits = (lambda v: isinstance(v, type)) if kind == "class" else callable
        there = sorted(n for n, v in vars(module).items() if fits(v) and _is_own(module, n, v))
        raise ConfigError(
            f"{key} = {named!r}: {place} has no {kind} {name!r}; {nearest(name, there)}it has "
            f"{', '.join(there[:8]) or 'none'}"
        )
    return found


def _is_own(module: ModuleType, name: str, value: Any) -> bool:
    """Whether a module defines it for others, and does not only import it."""
    return not name.startswith("_") and getattr(value, "__module__", "") == module.__name__


def _from_file(place: str, key: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        there = sorted(str(Path(place).with_name(p.name)) for p in path.parent.glob("*.py"))
        raise ConfigError(
            f"{key}: there is no file {place}; {nearest(place, there)}give its path from "
            f"{Path.cwd()}, or an absolute one"
            + (f"; in that folder: {', '.join(there[:5])}" if there else "")
        )
    # Two files of the same name in different folders are two modules; the same file is one.
    digest = hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()
    name = f"practicum_user_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{key}: {place} cannot be loaded as Python; name a .py file")
    module = importlib.util.module_from_spec(spec)
    make_importable(path.parent)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(
            f"{key}: {place} cannot be loaded: {type(error).__name__}: {error}{user_line(error)}; "
            f"mend it, and see that `python {place}` runs"
        ) from error
    return module


def _from_name(place: str, key: str) -> ModuleType:
    make_importable(Path.cwd())
    try:
        return importlib.import_module(place)
    except (Exception, SystemExit) as error:
        line = user_line(error)
        raise ConfigError(
            f"{key}: the module {place} cannot be loaded: {type(error).__name__}: {error}{line}; "
            + (
                "mend it"
                if line
                else f"start practicum in the folder that holds {place.partition('.')[0]}.py, or "
                "write FILE.py:NAME"
            )
        ) from error


def make_importable(folder: Path) -> None:
    """Let user code import the files beside it; last in `sys.path`, so it shadows nothing."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def returned_rows(named: str, key: str) -> list[Any]:
    """The rows that a user's function returns."""
    function = load_callable(named, key)
    check_call(function, named, key, ())
    try:
        return list(function())
    except Exception as error:
        raise ConfigError(
            f"{key}: {named} failed: {type(error).__name__}: {error}"
            f"{user_line(error) or place_of(function)}; it takes no arguments and returns rows"
        ) from error


def made_of(kind: type, named: str, key: str) -> Any:
    """An object of a user's class, which is made without arguments."""
    try:
        return kind()
    except Exception as error:
        raise ConfigError(
            f"{key} = {named!r} cannot be made: {type(error).__name__}: {error}"
            f"{user_line(error) or place_of(kind)}; it is called without arguments"
        ) from error


def place_of(thing: Any) -> str:
    """File and line of a user's function or class, in brackets; empty where they are not known."""
    if not inspect.isroutine(thing) and not isinstance(thing, type):
        thing = type(thing)
    try:
        place, (_, line) = inspect.getsourcefile(thing), inspect.getsourcelines(thing)
    except (TypeError, OSError):
        return ""
    return f" ({Path(place or '').name}, line {line})"


def check_call(function: Callable[..., Any], named: str, key: str, *calls: tuple[str, ...]) -> None:
    """Raise `ConfigError` where a function cannot be called in any of these ways.

    Args:
        function: The user's.
        named: As the config names it.
        key: Of the config.
        calls: Names of the arguments, for each way.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # one that is written in C may not tell
        return
    for names in calls:
        try:
            signature.bind(*names)
        except TypeError:
            continue
        return
    ways = " or ".join(f"({', '.join(names)})" for names in calls)
    raise ConfigError(
        f"{key} = {named!r} takes {signature} and is called with {ways}{place_of(function)}; give "
        "it these arguments"
    )


async def call_in_thread(call: Callable[[], T]) -> T:
    """The result of a function that may block, run in a thread of its own.

    When the caller is cancelled or its time is up, the thread is left to itself: unlike those of
    `asyncio.to_thread` it holds up neither the next call nor the end of the program.
    """
    import asyncio  # an instant `practicum --help` does without it

    done: Future[T] = Future()

    def thread() -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            done.set_result(call())
        except BaseException as error:  # noqa: BLE001 - a thread's error belongs to its caller
            done.set_exception(as_failure(error))

    threading.Thread(target=thread, name="practicum call", daemon=True).start()
    return await asyncio.wrap_future(done)
