"""The error hierarchy, and `boundary`, which tells an episode's failures apart.

* PracticumError
  - UserError            something the user can fix: printed as one sentence, exit code 2
    + ConfigError        a value in a config file or on the command line
    + MissingExtra       a part that is not installed
    + NotTrusted         code that nobody has agreed to run yet
    + NotEnoughMemory    the plan does not fit this machine
    + CheckpointError    a checkpoint that is damaged, missing or does not match
    + RunBusy            another trainer holds this run folder
    + FolderMoved        a run's folder was renamed or removed while it trained
    + EpisodesFailed     every episode of a step or an evaluation failed
  - ContextFull          the next prompt does not fit the model: the episode ends there
    + MessageTooLong     because of one message alone
  - PolicyMismatch       the learner would train on tokens another policy sampled: the run stops
  - RolloutFailure       one episode failed: recorded on its trace, never ends a run
    + EnvironmentFailure the environment's fault: the episode is masked
      * MachineFailure   its machine is gone: the episode is run again on another
    + AgentFailure       the agent's fault

A `UserError` message has three parts: the value, what is allowed, what to type next.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class PracticumError(Exception):
    """Base of every error Practicum raises on purpose."""


class UserError(PracticumError):
    """Something the user must fix; the command line prints it without a traceback."""


class ConfigError(UserError, ValueError):
    """A config value that cannot be used."""


def nearest(word: str, names: Iterable[str], cutoff: float = 0.5, prefix: str = "") -> str:
    """The question whether another name was meant, for a message; empty where none is near.

    >>> nearest("maths", ["math", "shell"])
    "did you mean 'math'? "
    """
    import difflib  # an instant `practicum --help` does without it

    near = difflib.get_close_matches(word, list(names), n=1, cutoff=cutoff)
    return f"did you mean {prefix + near[0]!r}? " if near else ""


class MissingExtra(UserError, ImportError):
    """A feature whose optional packages are not installed."""

    @classmethod
    def for_extra(cls, extra: str, needed_for: str) -> "MissingExtra":
        """The sentence for a missing extra, with the command that installs it."""
        return cls(
            f"{needed_for} needs the extra {extra!r}, which is not installed; "
            f"type: pip install 'practicum[{extra}]'"
        )

    @classmethod
    def unless(cls, package: str, extra: str, needed_for: str) -> None:
        """Raise the sentence unless a package can be imported; imports nothing."""
        import importlib.util  # an instant `practicum --help` does without it

        try:
            is_here = importlib.util.find_spec(package) is not None
        except ImportError:
            is_here = False
        if not is_here:
            raise cls.for_extra(extra, needed_for)

    @classmethod
    def of(cls, error: ImportError) -> "MissingExtra | None":
        """The sentence for a package of an extra that could not be imported; None for others.

        >>> MissingExtra.of(ModuleNotFoundError("", name="numpy")) is None
        True
        """
        package = (error.name or "").partition(".")[0]
        extra = EXTRA_OF.get(package)
        return cls.for_extra(extra, f"this command imports {package} and") if extra else None


EXTRA_OF = {
    **dict.fromkeys(
        ("torch", "transformers", "peft", "gguf", "safetensors", "huggingface_hub", "tokenizers"),
        "train",
    ),
    **dict.fromkeys(("httptools", "llguidance", "starlette", "uvicorn"), "gateway"),
    **dict.fromkeys(("fastapi", "httpx", "websockets"), "serve"),
    **dict.fromkeys(("cyllama", "sentencepiece", "xllamacpp"), "export"),
    "matplotlib": "plots",
    "weasyprint": "report",
    "openai": "agents",
    "pyarrow": "parquet",
    "ray": "ray",
    **dict.fromkeys(("harper", "pyphen"), "writing"),
}
"""Packages that an extra brings, by the name they are imported by."""


class NotEnoughMemory(UserError):
    """The plan needs more memory than this machine has."""


class CheckpointError(UserError):
    """A checkpoint that is damaged, missing or made for something else."""


class RunBusy(UserError):
    """Another process is training in this run folder."""


class FolderMoved(UserError):
    """A run's folder is not where it was when its trainer opened it.

    Args:
        before: Where it was.
        now: Where it is; None where it is gone, or where that is not known.
    """

    def __init__(self, before: Path, now: Path | None) -> None:
        self.before, self.now = before, now
        super().__init__(
            f"{before} was renamed or removed while its run trained, and the run has stopped; "
            + (
                f"go on with: practicum train --resume {now}"
                if now is not None
                else "if it is still somewhere, go on with: practicum train --resume FOLDER"
            )
        )


class EpisodesFailed(UserError):
    """Every episode of a step or an evaluation failed, so that nothing can be learned or said."""


class ContextFull(PracticumError):
    """A prompt and the tokens asked for do not fit the model's context."""


class MessageTooLong(ContextFull):
    """A message is so long that it cannot fit, whatever its tokens are; they are never made."""


class PolicyMismatch(PracticumError):
    """The tokens were not sampled by the weights about to be trained."""


class RolloutFailure(PracticumError):
    """One episode failed. It is data: recorded on the trace, and the run goes on."""


class EnvironmentFailure(RolloutFailure):
    """The environment failed, not the policy: the episode is masked, never punished."""


class MachineFailure(EnvironmentFailure):
    """The machine that an episode took place on is gone: it is run again on another one."""


class AgentFailure(RolloutFailure):
    """The agent program failed while it used the policy."""


@contextmanager
def boundary(kind: type[RolloutFailure], what: str) -> Iterator[None]:
    """Turn any error that escapes the block into a `kind` of failure, prefixed with `what`.

    So too an exit of the program and a cancellation that the block made up by itself. Practicum's
    own errors pass through unchanged, and so do Ctrl-C and a cancellation from outside.

    >>> with boundary(EnvironmentFailure, "environment 'math'"):
    ...     1 / 0
    Traceback (most recent call last):
    practicum.core.errors.EnvironmentFailure: environment 'math': ZeroDivisionError: ...
    """
    try:
        yield
    except PracticumError:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        raise kind(said_of(what, error)) from error


def said_of(what: str, error: BaseException) -> str:
    """The sentence in which `boundary` tells an error."""
    return f"{what}: {type(error).__name__}: {as_failure(error)}{user_line(error)}"


def user_line(error: BaseException) -> str:
    """Where in the user's own code an error came from, in brackets; empty where it did not."""
    import sysconfig  # these too are slow to load, and seldom wanted
    import traceback
    from pathlib import Path

    installed = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))
    others = (str(Path(__file__).parents[1]), *installed, "<")
    places = [
        f" ({Path(frame.filename).name}, line {frame.lineno}, in {frame.name})"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(others)
    ]
    return places[-1] if places else ""


def is_failure(error: BaseException) -> bool:
    """Whether code that raised this has failed, and nobody wants it or the program to stop.

    An environment that raises `SystemExit`, or `CancelledError` while nobody cancels its task, has
    failed.
    """
    if isinstance(error, Exception | SystemExit):
        return True
    import asyncio  # an instant `practicum --help` does without it

    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() == 0


def as_failure(error: BaseException) -> BaseException:
    """An error that can be raised in another thread or task without ending that."""
    if isinstance(error, SystemExit):
        return RuntimeError(f"it left the program with exit code {error.code}")
    if isinstance(error, StopIteration):
        return RuntimeError("there is no next value")
    return error
