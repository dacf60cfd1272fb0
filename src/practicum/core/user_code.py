"""User code: loaded as a config names it (`FILE.py:NAME` or `module:NAME`), and called."""

import hashlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from practicum.core.errors import ConfigError, as_failure

T = TypeVar("T")


def load_callable(named: str, key: str) -> Any:
    """The function or class that `named` names; `key` is its config key, for error messages.

    Relative files, and modules that are not installed, are found from the current folder.
    """
    place, _, name = named.rpartition(":")
    if not place or not name:
        raise ConfigError(
            f"{key} = {named!r} names no function; write FILE.py:NAME, such as my_agent.py:rollout"
        )
    module = _from_file(place, key) if place.endswith(".py") else _from_name(place, key)
    found = getattr(module, name, None)
    if not callable(found):
        there = [n for n, v in vars(module).items() if callable(v) and _is_own(module, n, v)]
        raise ConfigError(
            f"{key} = {named!r}: {place} has no function {name!r}; it has "
            f"{', '.join(sorted(there)[:8]) or 'none'}"
        )
    return found


def _is_own(module: ModuleType, name: str, value: Any) -> bool:
    """Whether a module defines it for others, and does not only import it."""
    return not name.startswith("_") and getattr(value, "__module__", "") == module.__name__


def _from_file(place: str, key: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise ConfigError(
            f"{key}: there is no file {place}; give its path from {Path.cwd()}, or an absolute one"
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
    _make_importable(path.parent)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(
            f"{key}: {place} cannot be loaded: {type(error).__name__}: {error}; mend it, and see "
            f"that `python {place}` runs"
        ) from error
    return module


def _from_name(place: str, key: str) -> ModuleType:
    _make_importable(Path.cwd())
    try:
        return importlib.import_module(place)
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{key}: the module {place} cannot be loaded: {type(error).__name__}: {error}; start "
            f"practicum in the folder that holds {place.partition('.')[0]}.py, or write "
            "FILE.py:NAME"
        ) from error


def _make_importable(folder: Path) -> None:
    """Let user code import the files beside it; last in `sys.path`, so it shadows nothing."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


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
