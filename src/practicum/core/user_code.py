"""User code: loaded as a config names it (`FILE.py:NAME` or `module:NAME`), and called.

None of it runs without the user's word (`core/trusted_code.py`): the files that user code imports
from its own folder are checked as they are imported.
"""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from practicum.core.errors import ConfigError, as_failure, nearest, user_line
from practicum.core.trusted_code import (
    NotTrusted,
    module_files,
    remember,
    require_name,
    secrets_sent,
    trust_command,
    trust_file,
    trust_name,
    trust_secret,
    trusted_source,
)

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
    remember(_running(place, name))  # another process may load it when the run goes on
    return name


def _running(place: str, name: str) -> list[tuple[str, str]]:
    """The consents to code that runs already, since the user's program has imported it."""
    file = Path(getattr(sys.modules.get(place), "__file__", None) or "")
    paths = sysconfig.get_paths()
    is_installed = any(file.is_relative_to(paths[key]) for key in ("stdlib", "purelib", "platlib"))
    return trust_name(name) if is_installed or file.suffix != ".py" else trust_file(file)


def names_code(word: str) -> bool:
    """Whether a word names code of the user's: `FILE.py:NAME` or `module:NAME`.

    >>> names_code("my_reward.py:short"), names_code("http://localhost:8000"), names_code("math")
    (True, False, False)
    """
    place, _, name = word.rpartition(":")
    is_place = place.endswith(".py") or (bool(place) and "/" not in place)
    return is_place and name.replace(".", "").isidentifier()


COMMANDS = frozenset({"command", "score"})
"""Keys of a config whose lists of words are commands."""


def consents_to(values: Any) -> Iterator[tuple[str, str]]:
    """The consents to all code that values of a config name, and to the keys that they send.

    For `remember`.
    """
    if isinstance(values, Mapping):
        for secret, address in secrets_sent(values):
            yield from trust_secret(secret, address)
        inherit = tuple(map(str, values.get("inherit") or ()))
        for inner, value in values.items():
            words = value if isinstance(value, list | tuple) else ()
            if words and str(inner).rpartition(".")[2] in COMMANDS:
                where = str(values.get("workdir") or "")
                yield from trust_command(tuple(map(str, words)), where, inherit)
            yield from consents_to(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from consents_to(value)
    elif isinstance(values, str) and names_code(values):
        yield from _consents_to_name(values)


def _consents_to_name(named: str) -> list[tuple[str, str]]:
    place = named.rpartition(":")[0]
    if place.endswith(".py"):
        path = Path(place).expanduser()
        return trust_file(path) if path.is_file() else []
    if _is_installed(place):
        return trust_name(named)
    folders = [*_folders_here(place), *map(Path, _FOLDERS)]
    files = [file for folder in folders for file in module_files(folder, place)]
    return [one for file in files if file.is_file() for one in trust_file(file)]


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
            f"{key} = {named!r} names no function or class; write FILE.py:NAME, such as "
            "my_agent.py:rollout"
        )
    if named in _REGISTERED:
        return _REGISTERED[named]
    module = _from_file(place, key) if place.endswith(".py") else _from_name(place, name, key)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        kind = "class" if key in ("env", "algorithm") else "function"
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
    loader = _CheckedSource(name, str(path), key)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None  # a loader was given
    module = importlib.util.module_from_spec(spec)
    make_importable(path.parent)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except NotTrusted:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(
            f"{key}: {place} cannot be loaded: {type(error).__name__}: {error}{user_line(error)}; "
            f"mend it, and see that `python {place}` runs"
        ) from error
    return module


def _from_name(place: str, name: str, key: str) -> ModuleType:
    for folder in _folders_here(place):
        make_importable(folder)
    if _is_installed(place):
        require_name(f"{place}:{name}", key, _origin(place))
    try:
        return importlib.import_module(place)
    except NotTrusted:
        raise
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


def _folders_here(place: str) -> list[Path]:
    """Where a module is looked for: here, and in a project's folder that has the package's name."""
    project = Path.cwd() / place.partition(".")[0]
    has_package = (project / project.name / "__init__.py").is_file()
    return [Path.cwd(), *([project] if has_package else [])]


def _is_installed(place: str) -> bool:
    """Whether Python finds a module by itself, so that the user has installed it."""
    return _top_spec(place) is not None and place.partition(".")[0] not in _FOUND


def _origin(place: str) -> Path:
    """The file of a module's outermost package."""
    spec = _top_spec(place)
    return Path(spec.origin or "") if spec is not None else Path()


def _top_spec(place: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(place.partition(".")[0])  # which runs nothing
    except (ImportError, ValueError):
        return None


class _CheckedSource(SourceFileLoader):
    """Runs a source file that is trusted, as it is written: no compiled file is used instead."""

    def __init__(self, fullname: str, path: str, key: str = "import") -> None:
        super().__init__(fullname, path)
        self._key = key

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(trusted_source(Path(self.path), self._key), self.path)


class _CheckedExtension(ExtensionFileLoader):
    """Loads a compiled module that is trusted."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        trusted_source(Path(self.path), "import")
        return super().create_module(spec)


_FOLDERS: dict[str, FileFinder] = {}
"""Folders from which user code may import, in order."""
_FOUND: set[str] = set()
"""Modules that were found there."""


class _BesideUserCode:
    """Finds what user code imports from its own folders."""

    def __init__(self, *, inside: bool) -> None:
        self._inside = inside

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """A module of those folders, or one inside a package that was found there."""
        if self._inside != (path is not None):
            return None
        if path is not None and name.rpartition(".")[0] not in _FOUND:
            return None
        finders = _FOLDERS.values() if path is None else map(_finder, path)
        found = [spec for finder in finders if (spec := finder.find_spec(name)) is not None]
        # A plain folder of the name is found too, and is the last choice.
        found.sort(key=lambda spec: spec.loader is None)
        _FOUND.update([name] if found else [])
        return found[0] if found else None


def _finder(folder: str) -> FileFinder:
    sources = (_CheckedSource, SOURCE_SUFFIXES)
    return FileFinder(folder, (_CheckedExtension, EXTENSION_SUFFIXES), sources)


def make_importable(folder: Path) -> None:
    """Let user code import the files beside it; after all else, so it shadows nothing."""
    if not _FOLDERS:
        # Inside a package of theirs first: Python's own finder would not check what it finds.
        sys.meta_path.insert(0, _BesideUserCode(inside=True))
        sys.meta_path.append(_BesideUserCode(inside=False))
    if str(folder) not in _FOLDERS:
        _FOLDERS[str(folder)] = _finder(str(folder))


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
