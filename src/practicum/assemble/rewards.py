"""Which reward scores an environment's episodes."""

import importlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from practicum.assemble.judges import local_judge
from practicum.core.config import RewardConfig
from practicum.core.config import reward_components as parts
from practicum.core.errors import ConfigError
from practicum.core.interfaces import Environment, GroupReward, Reward
from practicum.rewards import (
    AgentCompanyScore,
    BorrowedSandboxes,
    CodeExecution,
    CompositeReward,
    Efficiency,
    EndpointJudge,
    FormatCompliance,
    FunctionReward,
    InOrder,
    JudgementLedger,
    JudgeReward,
    LengthPenalty,
    NormalisedComponents,
    OutcomeReward,
    RepetitionPenalty,
    RewardPart,
    SyntaxCheck,
    TaskCompletion,
    ToolSuccess,
    TurnRewards,
)
from practicum.sandboxes import open_sandboxes

__all__ = ["build_group_reward", "build_reward"]

PAID_BY_TURN = "turns"
"""What environments are made for that do not say otherwise."""

JUDGEMENTS = "judgements.jsonl"
"""File of a run that holds what its judge said and cost."""


def build_reward(config: RewardConfig, environment: Environment) -> Reward:
    """The reward a config names, or the one that the environment is made for."""
    if config.components:
        return _composed(config, environment)
    made_for = str(getattr(environment, "default_reward", PAID_BY_TURN))
    name = made_for if config.name == "auto" else config.name
    if name == PAID_BY_TURN:
        return _paid_by_turn(environment)
    return OutcomeReward(
        correct=config.correct,
        incorrect=config.incorrect,
        unknown=config.unknown,
        malformed=config.malformed,
    )


def build_group_reward(
    config: RewardConfig,
    *,
    folder: Path | None = None,
    compares: bool = True,
) -> GroupReward | None:
    """What the config's reward says of the episodes of a group beside each other.

    Args:
        config: The reward.
        folder: Where judgements are kept; without one they are forgotten with the process.
        compares: Whether components are put in relation to the group, as training wants it; not
            so where scores are reported, which must mean the same in every group.
    """
    steps: list[GroupReward] = [
        _judge(part, folder) for part in config.components if isinstance(part, parts.JudgeComponent)
    ]
    if config.combine == "normalise" and compares:
        paid = [p.logged_as for p in config.components if isinstance(p, parts.TurnsComponent)]
        steps.append(NormalisedComponents(turns=paid[0] if paid else ""))
    return InOrder(rewards=tuple(steps)) if steps else None


def _judge(part: parts.JudgeComponent, folder: Path | None) -> JudgeReward:
    model = local_judge(part)
    if part.endpoint:
        model = EndpointJudge(
            part.endpoint,
            part.model,
            key_variable=part.key_variable,
            temperature=part.temperature,
            max_tokens=part.max_tokens,
            timeout_s=part.timeout_s,
            at_once=part.at_once,
        )
    return JudgeReward(
        model=model,
        label=part.logged_as,
        weight=part.weight,
        rubric=part.rubric,
        repeats=part.repeats,
        retries=part.retries,
        longest=part.longest,
        seed=part.seed,
        ledger=JudgementLedger(folder / JUDGEMENTS if folder is not None else None),
    )


def _composed(config: RewardConfig, environment: Environment) -> CompositeReward:
    judges = [p for p in config.components if isinstance(p, parts.JudgeComponent)]
    return CompositeReward(
        parts=tuple(
            RewardPart(label=p.logged_as, reward=_component(p, environment), weight=p.weight)
            for p in config.components
            if not isinstance(p, parts.JudgeComponent)
        ),
        judged_later=tuple((judge.logged_as, judge.weight) for judge in judges),
    )


def _component(part: parts.ComponentConfig, environment: Environment) -> Reward:
    """The reward of one component."""
    if isinstance(part, parts.TurnsComponent):
        return _paid_by_turn(environment)
    if isinstance(part, parts.FunctionComponent):
        return FunctionReward(name=part.logged_as, function=_function(part.name))
    if isinstance(part, parts.CodeExecutionComponent):
        return CodeExecution(
            sandboxes=_sandboxes(part.sandbox),
            count=part.score,
            **_options(part, "score", "sandbox"),
        )
    if isinstance(part, parts.SyntaxComponent):
        boxes = _sandboxes(part.sandbox) if part.sandbox else None
        return SyntaxCheck(sandboxes=boxes, **_options(part, "sandbox"))
    if isinstance(part, parts.LearnedComponent):
        return _learned(part.labeler, part.form, part.minimum_confidence)
    plain = PLAIN.get(type(part))
    if plain is None:
        raise ConfigError(f"the component {part.name!r} is made by no part of this version")
    return plain(**_options(part))


PLAIN: dict[type[parts.ComponentConfig], Callable[..., Reward]] = {
    parts.OutcomeComponent: OutcomeReward,
    parts.AgentCompanyComponent: AgentCompanyScore,
    parts.TaskCompletionComponent: TaskCompletion,
    parts.ToolSuccessComponent: ToolSuccess,
    parts.EfficiencyComponent: Efficiency,
    parts.FormatComponent: FormatCompliance,
    parts.LengthComponent: LengthPenalty,
    parts.RepetitionComponent: RepetitionPenalty,
}
"""Rewards whose fields are the options of their components."""


@cache
def _sandboxes(kind: str) -> BorrowedSandboxes:
    """Sandboxes of a kind; it is tried out once, however many rewards use it."""
    return BorrowedSandboxes(open_sandboxes(kind))


@cache
def _learned(folder: str, form: Any, minimum_confidence: float) -> Reward:
    """The reward of a labeler; read once, since a language model may belong to it."""
    from practicum.assemble.labels import build_learned_reward

    return build_learned_reward(Path(folder), form=form, minimum_confidence=minimum_confidence)


def _options(part: parts.ComponentConfig, *left_out: str) -> dict[str, Any]:
    """A component's own options: all but what every component has."""
    common = {*parts.ComponentConfig.model_fields, *left_out}
    own = type(part).model_fields.keys() - common
    return {key: getattr(part, key) for key in sorted(own)}


def _paid_by_turn(environment: Environment) -> TurnRewards:
    made_for = str(getattr(environment, "default_reward", PAID_BY_TURN))
    if made_for != PAID_BY_TURN:
        raise ConfigError(
            f"reward = 'turns' cannot be used: {environment.name!r} pays nothing for a turn; "
            f"write reward: {made_for}, or leave it out"
        )
    return TurnRewards()


def _function(named: str) -> Callable[..., Any]:
    """A user's function by `module:function`; modules beside the config's folder are found too."""
    module_name, _, name = named.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"reward component {named!r}: {error}; write module:function, and start practicum in "
            f"the folder that holds {module_name.partition('.')[0]}.py"
        ) from None
    function = getattr(module, name, None)
    if not callable(function):
        there = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise ConfigError(
            f"reward component {named!r}: {module_name} has no function {name!r}; it has "
            f"{', '.join(sorted(there)[:8]) or 'none'}"
        )
    return function  # type: ignore[no-any-return]
