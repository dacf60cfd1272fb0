"""Algorithms of the user's own: found by their names, and tried before a model is loaded.

    algorithm: mine.py:Mine                        a class in a file
    algorithm: {name: mine.py:Mine, push: 2.0}     with options, which are checked by its `Options`

An installed package brings one by an entry point in the group `practicum.algorithms`, and its name
alone is enough then. docs/own-algorithm.md says what the class must have.
"""

import math
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import torch

from practicum.core.config.algorithm_config import (
    ALGORITHM_PLUGINS,
    OnlineConfig,
    OwnAlgorithmConfig,
    options_class,
)
from practicum.core.config.config_sections import RolloutConfig
from practicum.core.config.parse_config import check_own_options
from practicum.core.errors import ConfigError, PracticumError, UserError, user_line
from practicum.core.interfaces import Algorithm, Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Credit, Episode, Estimates, Group
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.core.trace import Node, SampledSpan, StopReason, Trace
from practicum.core.user_code import check_call, load_callable, names_code, place_of

PARTS = {
    "credit": ("self", "groups", "estimates"),
    "is_informative": ("self", "group"),
    "loss": ("self", "terms"),
}
"""The methods that each must have, and how they are called."""
FACTS = ("credit_needs", "loss_needs", "epochs", "minibatches", "averaging")
FACTS_OF_LOSS = ("by_sequence", "from_policy")
SHOWN = "docs/own-algorithm.md shows a whole one"


def checked_own(given: OwnAlgorithmConfig, rollouts: RolloutConfig) -> OnlineConfig:
    """The options of an algorithm of the user's own, once it was tried on a made-up step."""
    kind = load_class(given.name)
    options = options_of(kind, given)
    if why := options.why_not_in_groups_of(rollouts.group_size):
        raise ConfigError(f"{given.name} {why}")
    try_algorithm(make(kind, options, rollouts), given.name)
    return options


def load_class(name: str) -> Any:
    """The class of a name, which has all that an algorithm must have."""
    if names_code(name):
        kind = load_callable(name, "algorithm")
    else:
        [point] = entry_points(group=ALGORITHM_PLUGINS, name=name)
        try:
            kind = point.load()
        except Exception as error:  # another package's import may fail in any way
            raise UserError(
                f"the algorithm {name!r} cannot be loaded from {point.value!r}: "
                f"{type(error).__name__}: {error}; mend or uninstall the package that brings it"
            ) from error
    if not isinstance(kind, type):
        raise ConfigError(
            f"algorithm = {name!r} is a {type(kind).__name__}{place_of(kind)}, not a class; {SHOWN}"
        )
    missing = [part for part in (*PARTS, *FACTS, *FACTS_OF_LOSS) if not hasattr(kind, part)]
    if missing:
        raise ConfigError(
            f"algorithm = {name!r} has no {' and no '.join(missing)}{place_of(kind)}; derive it "
            f"from practicum.GroupMethod, which has them all but the loss; {SHOWN}"
        )
    for part, arguments in PARTS.items():
        check_call(getattr(kind, part), f"{name}.{part}", "algorithm", arguments)
    return kind


def options_of(kind: Any, given: OwnAlgorithmConfig) -> OnlineConfig:
    """The options that a config gives, with the class's own defaults."""
    model: Any = options_class(kind)
    if not isinstance(model, type) or not issubclass(model, OnlineConfig):
        raise ConfigError(
            f"the Options of {given.name}{place_of(kind)} are none of an algorithm that acts; "
            "write `class Options(practicum.GroupConfig)`"
        )
    return check_own_options(model, given.name, given.given)


def make(kind: Any, options: OnlineConfig, rollouts: RolloutConfig) -> Algorithm:
    """An algorithm of a class with its options."""
    try:
        made: Algorithm = kind(options, turn_limit=rollouts.max_tokens)
    except PracticumError:
        raise
    except Exception as error:
        raise ConfigError(
            f"algorithm = {options.name!r} cannot be made: {type(error).__name__}: {error}"
            f"{user_line(error) or place_of(kind)}; it is called with its options, as in "
            "`def __init__(self, config, *, turn_limit)`"
        ) from error
    return made


SCORES = (1.0, 0.0, 0.25, 1.0)
TURN_TOKENS = (2, 3)
"""Tokens of each turn of a made-up episode."""


def try_algorithm(algorithm: Algorithm, name: str) -> None:
    """Raise `UserError` where an algorithm fails on a made-up step of four episodes."""
    group = _made_up_group()
    wrong = _Told(algorithm, name)
    if wrong.called("is_informative", group) is None:
        raise wrong.error("is_informative", "gave None; return whether the group teaches anything")
    needs = wrong.fact("credit_needs")
    estimates = {e.trace.id: _estimates(needs) for e in group.usable if needs}
    _check_credit(wrong.called("credit", [group], estimates), wrong)
    terms = _terms(wrong.fact("loss_needs"))
    report = wrong.called("loss", terms)
    if not isinstance(report, LossReport):
        raise wrong.error("loss", f"gave {report!r:.60}; return a practicum.LossReport")
    if not isinstance(report.loss, torch.Tensor) or report.loss.ndim:
        raise wrong.error("loss", "gave a loss that is no single number; sum it over the terms")
    if not math.isfinite(float(report.loss.detach())):
        raise wrong.error("loss", f"gave a loss of {float(report.loss.detach())}; keep it finite")
    if not report.loss.requires_grad:
        raise wrong.error(
            "loss", "gave a loss without a gradient; compute it from terms.logprobs, undetached"
        )
    [gradient] = torch.autograd.grad(report.loss, [terms.logprobs], allow_unused=True)
    if gradient is None or not bool(torch.isfinite(gradient).all()):
        raise wrong.error("loss", "gave a gradient that is not finite, or none by terms.logprobs")


class _Told:
    """Says what is wrong with a method of an algorithm, and where."""

    def __init__(self, algorithm: Algorithm, name: str) -> None:
        self._algorithm = algorithm
        self._name = name

    def called(self, part: str, *arguments: Any) -> Any:
        """What the method gives."""
        try:
            return getattr(self._algorithm, part)(*arguments)
        except Exception as error:
            said = f"failed on a made-up step: {type(error).__name__}: {error}"
            raise self.error(part, said, user_line(error), "; mend that") from error

    def fact(self, name: str) -> frozenset[Need]:
        """What one of its methods asks for."""
        try:
            return frozenset(getattr(self._algorithm, name))
        except Exception as error:
            said = f"algorithm = {self._name!r}: `{name}`{user_line(error)} failed: "
            raise UserError(f"{said}{type(error).__name__}: {error}; mend that") from error

    def error(self, part: str, said: str, line: str = "", then: str = "") -> UserError:
        """The error to raise."""
        own = next((n for n in ("own_loss", part) if part == "loss" and self._has(n)), part)
        line = line or place_of(getattr(self._algorithm, own))
        return UserError(f"algorithm = {self._name!r}: `{own}`{line} {said}{then}")

    def _has(self, name: str) -> bool:
        return callable(getattr(self._algorithm, name, None))


def _check_credit(credited: Any, wrong: _Told) -> None:
    rows = list(credited) if isinstance(credited, list | tuple) else None
    if rows is None or len(rows) != 1 or len(rows[0]) != len(SCORES):
        raise wrong.error(
            "credit", "does not give a list for each group with a Credit for each usable episode"
        )
    for one in rows[0]:
        if not isinstance(one, Credit) or len(one.advantages) != len(TURN_TOKENS):
            raise wrong.error(
                "credit",
                f"gave {one!r:.60} for an episode of two turns; give a practicum.Credit "
                "with an advantage for each turn",
            )
        if not all(np.isfinite(np.asarray(part)).all() for part in one.advantages):
            raise wrong.error("credit", f"gave advantages that are not finite: {one.advantages}")


def _made_up_group() -> Group:
    episodes = tuple(_episode(f"made-up-{n}", score) for n, score in enumerate(SCORES))
    return Group(task=Task(id="made-up", env="made-up", split="train"), episodes=episodes)


def _episode(name: str, score: float) -> Episode:
    nodes = [Node(parent=None, messages=(), token_ids=(0,))]
    for tokens in TURN_TOKENS:
        nodes.append(Node(parent=len(nodes) - 1, messages=(), token_ids=(0,)))
        span = SampledSpan(logprobs=(-1.0,) * tokens, loss_mask=(True,) * tokens)
        ids = tuple(range(1, tokens + 1))
        nodes.append(Node(parent=len(nodes) - 1, messages=(), token_ids=ids, sampled=span))
    trace = Trace(
        id=name, task_id="made-up", env="made-up", nodes=tuple(nodes), stop=StopReason.FINISHED
    )
    paid = Score(components={"turns": score}, turn_values=(0.0, score))
    return Episode(trace=trace, outcome=None, score=paid)


def _estimates(needs: frozenset[Need]) -> Estimates:
    """What `credit` has asked for, and nothing else."""
    each = tuple(np.full(tokens, -1.0, np.float32) for tokens in TURN_TOKENS)
    return Estimates(
        logprobs=each if needs & {"base", "values"} else (),
        base_logprobs=each if "base" in needs else (),
        values=each if "values" in needs else (),
        teacher_logprobs=each if "teacher" in needs else (),
    )


def _terms(needs: frozenset[Need]) -> LossTerms:
    """Terms of the made-up step, with what the loss has asked for and nothing else."""
    tokens = sum(TURN_TOKENS)
    count = tokens * len(SCORES)
    logprobs = torch.linspace(-2.0, -0.1, count).requires_grad_()
    values = torch.linspace(-1.0, 1.0, count).requires_grad_()
    flat = torch.full((count,), 1.0)
    return LossTerms(
        logprobs=logprobs,
        old_logprobs=logprobs.detach() + torch.linspace(-0.5, 0.5, count),
        advantages=torch.tensor([1.0, -1.0, -0.5, 1.0]).repeat_interleave(tokens),
        weights=flat / count,
        base_logprobs=logprobs.detach() - 0.1 if "base" in needs else None,
        samples=torch.arange(len(SCORES)).repeat_interleave(tokens),
        entropies=flat.clone().requires_grad_(),
        values=values if "values" in needs else None,
        old_values=values.detach() if "values" in needs else None,
        returns=flat if "values" in needs else None,
    )
