"""The error hierarchy, and `boundary`, which tells an episode's failures apart.

* PracticumError
  - UserError            something the user can fix: printed as one sentence, exit code 2
    + ConfigError        a value in a config file or on the command line
    + MissingExtra       a part that is not installed
    + NotEnoughMemory    the plan does not fit this machine
    + CheckpointError    a checkpoint that is damaged, missing or does not match
    + RunBusy            another trainer holds this run folder
  - ContextFull          the next prompt does not fit the model: the episode ends there
  - PolicyMismatch       the learner would train on tokens another policy sampled: the run stops
  - RolloutFailure       one episode failed: recorded on its trace, never ends a run
    + EnvironmentFailure the environment's fault: the episode is masked
    + AgentFailure       the agent's fault

A `UserError` message has three parts: the value, what is allowed, what to type next.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class PracticumError(Exception):
    """Base of every error Practicum raises on purpose."""


class UserError(PracticumError):
    """Something the user must fix; the command line prints it without a traceback."""


class ConfigError(UserError, ValueError):
    """A config value that cannot be used."""


class MissingExtra(UserError, ImportError):
    """A feature whose optional packages are not installed."""

    @classmethod
    def for_extra(cls, extra: str, needed_for: str) -> "MissingExtra":
        """The sentence for a missing extra, with the command that installs it."""
        return cls(
            f"{needed_for} needs the extra {extra!r}, which is not installed; "
            f"type: pip install 'practicum[{extra}]'"
        )


class NotEnoughMemory(UserError):
    """The plan needs more memory than this machine has."""


class CheckpointError(UserError):
    """A checkpoint that is damaged, missing or made for something else."""


class RunBusy(UserError):
    """Another process is training in this run folder."""


class ContextFull(PracticumError):
    """A prompt and the tokens asked for do not fit the model's context."""


class PolicyMismatch(PracticumError):
    """The tokens were not sampled by the weights about to be trained."""


class RolloutFailure(PracticumError):
    """One episode failed. It is data: recorded on the trace, and the run goes on."""


class EnvironmentFailure(RolloutFailure):
    """The environment failed, not the policy: the episode is masked, never punished."""


class AgentFailure(RolloutFailure):
    """The agent program failed while it used the policy."""


@contextmanager
def boundary(kind: type[RolloutFailure], what: str) -> Iterator[None]:
    """Turn any error that escapes the block into a `kind` of failure, prefixed with `what`.

    Practicum's own errors pass through unchanged.

    >>> with boundary(EnvironmentFailure, "environment 'math'"):
    ...     1 / 0
    Traceback (most recent call last):
    practicum.core.errors.EnvironmentFailure: environment 'math': ZeroDivisionError: ...
    """
    try:
        yield
    except PracticumError:
        raise
    except Exception as error:
        raise kind(f"{what}: {type(error).__name__}: {error}") from error
