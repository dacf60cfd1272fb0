"""`RewardBuilder`: from a `RewardConfig` to `Reward` and `GroupReward` objects."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from practicum.core.capabilities import BY_TESTS, PAID_BY_TURN, HasParts, default_reward
from practicum.core.config import reward_config as parts
from practicum.core.config.reward_config import CodeExecutionComponent, RewardConfig
from practicum.core.errors import ConfigError
from practicum.core.interfaces import Environment, GroupReward, Reward, Sandboxes
from practicum.core.score import JudgeModel, WeighingModel
from practicum.core.trusted_code import require_secret
from practicum.core.user_code import check_call, load_callable, made_of, names_code
from practicum.rewards.behaviour import (
    Efficiency,
    FormatCompliance,
    LengthPenalty,
    RepetitionPenalty,
    TaskCompletion,
    ToolSuccess,
)
from practicum.rewards.code import BorrowedSandboxes, CodeExecution, SyntaxCheck
from practicum.rewards.composite import (
    CompositeReward,
    InOrder,
    NormalisedComponents,
    RewardByEnvironment,
    RewardPart,
)
from practicum.rewards.judge.judge_endpoint import EndpointJudge
from practicum.rewards.judge.judge_reward import FunctionJudge, JudgementLedger, JudgeReward
from practicum.rewards.learned.features import Embedder
from practicum.rewards.learned.labeler import LearnedReward, load_labeler
from practicum.rewards.verifiable import (
    AgentCompanyScore,
    FunctionReward,
    OutcomeReward,
    ProgressScore,
    TurnRewards,
)

JUDGEMENTS = "judgements.jsonl"
"""File of a run with its judge's judgements and their cost."""

BY_CHECKPOINTS = "agent_company"
"""The default reward of an environment whose outcomes have checkpoints."""

KEY = "reward"
"""Of the config, for error messages about a user's function."""

PLAIN: dict[type[parts.ComponentConfig], Callable[..., Reward]] = {
    parts.OutcomeComponent: OutcomeReward,
    parts.AgentCompanyComponent: AgentCompanyScore,
    parts.ProgressComponent: ProgressScore,
    parts.TaskCompletionComponent: TaskCompletion,
    parts.ToolSuccessComponent: ToolSuccess,
    parts.EfficiencyComponent: Efficiency,
    parts.FormatComponent: FormatCompliance,
    parts.LengthComponent: LengthPenalty,
    parts.RepetitionComponent: RepetitionPenalty,
}
"""Rewards whose fields are exactly their component's options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardBuilder:
    """Builds rewards; sandboxes and labelers, slow to open, are shared by all of them."""

    open_sandboxes: Callable[[str], Sandboxes]
    """Opens sandboxes of a kind."""
    local_judge: Callable[[parts.JudgeComponent], JudgeModel | WeighingModel]
    """A judge in this process, for a component without an endpoint."""
    load_embedder: Callable[[str], Embedder]
    """Loads a local embedding model by name."""
    _sandboxes: dict[str, BorrowedSandboxes] = field(default_factory=dict)
    _learned: dict[tuple[str, str, float], Reward] = field(default_factory=dict)

    def reward(self, config: RewardConfig, environment: Environment) -> Reward:
        """The reward a config describes; `auto` is the environment's default."""
        if isinstance(environment, HasParts):
            several = environment.parts.items()
            return RewardByEnvironment(rewards={n: self.reward(config, e) for n, e in several})
        if config.components:
            return self._composed(config, environment)
        name = default_reward(environment) if config.name == "auto" else config.name
        if name == PAID_BY_TURN:
            return _paid_by_turn(environment)
        if name == BY_CHECKPOINTS:
            return AgentCompanyScore()
        if name == BY_TESTS:
            tests = RewardConfig(components=(CodeExecutionComponent(),))
            return self._composed(tests, environment)
        return OutcomeReward(
            correct=config.correct,
            incorrect=config.incorrect,
            unknown=config.unknown,
            malformed=config.malformed,
        )

    def check(self, config: RewardConfig, environment: Environment) -> None:
        """Raise if the reward cannot be built, without loading a learned reward's model."""
        learned = [p for p in config.components if isinstance(p, parts.LearnedComponent)]
        for part in learned:
            load_labeler(Path(part.labeler))
        others = tuple(p for p in config.components if p not in learned)
        if others or not learned:
            self.reward(config.model_copy(update={"components": others}), environment)
        self.group_reward(config)

    def group_reward(
        self, config: RewardConfig, *, folder: Path | None = None, compares: bool = True
    ) -> GroupReward | None:
        """The group reward of a config; None where it has none.

        Args:
            config: The reward.
            folder: Where judgements are cached; in memory without one.
            compares: Whether to normalise within the group, as for training. Reported scores must
                mean the same in every group, so evaluation does not.
        """
        judges = [p for p in config.components if isinstance(p, parts.JudgeComponent)]
        steps = [self.judge_reward(part, self.judge(part), folder) for part in judges]
        if config.combine == "normalise" and compares:
            paid = [p.logged_as for p in config.components if isinstance(p, parts.TurnsComponent)]
            steps.append(NormalisedComponents(turns=paid[0] if paid else ""))
        return InOrder(rewards=tuple(steps)) if steps else None

    def for_traces(self, config: RewardConfig) -> Reward:
        """The reward for scoring stored episodes of any source."""
        if any(isinstance(part, parts.JudgeComponent) for part in config.components):
            raise ConfigError(
                "the component 'judge' compares episodes of a group and cannot score stored ones "
                "one by one; leave it out"
            )
        pays_turns = any(isinstance(part, parts.TurnsComponent) for part in config.components)
        made_for = PAID_BY_TURN if config.name == PAID_BY_TURN or pays_turns else "os"
        return self.reward(config, cast(Environment, _RecordedEnvironment(made_for)))

    def judge(self, part: parts.JudgeComponent) -> JudgeModel | WeighingModel:
        """The judge that a component names: at its endpoint, or in this process."""
        if not part.endpoint and names_code(part.model):
            return FunctionJudge(name=part.model, function=_judging(part.model))
        if not part.endpoint:
            return self.local_judge(part)
        if part.key_variable:
            require_secret(part.key_variable, part.endpoint, "the reward component 'judge'")
        return EndpointJudge(
            part.endpoint,
            part.model,
            key_variable=part.key_variable,
            temperature=part.temperature,
            max_tokens=part.max_tokens,
            timeout_s=part.timeout_s,
            at_once=part.at_once,
        )

    def judge_reward(
        self,
        part: parts.JudgeComponent,
        model: JudgeModel | WeighingModel,
        folder: Path | None = None,
    ) -> GroupReward:
        """The scores of a judge, as a component wants them; cached in a folder, if there is one."""
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

    def _composed(self, config: RewardConfig, environment: Environment) -> CompositeReward:
        judges = [p for p in config.components if isinstance(p, parts.JudgeComponent)]
        return CompositeReward(
            parts=tuple(
                RewardPart(
                    label=p.logged_as, reward=self._component(p, environment), weight=p.weight
                )
                for p in config.components
                if not isinstance(p, parts.JudgeComponent)
            ),
            is_mean=config.combine == "mean",
            judged_later=tuple((judge.logged_as, judge.weight) for judge in judges),
        )

    def _component(self, part: parts.ComponentConfig, environment: Environment) -> Reward:
        if isinstance(part, parts.TurnsComponent):
            return _paid_by_turn(environment)
        if isinstance(part, parts.FunctionComponent):
            return FunctionReward(name=part.logged_as, function=_scoring(part.name))
        if isinstance(part, parts.CodeExecutionComponent):
            return CodeExecution(
                sandboxes=self._of_kind(part.sandbox),
                count=part.score,
                **_options(part, "score", "sandbox"),
            )
        if isinstance(part, parts.SyntaxComponent):
            boxes = self._of_kind(part.sandbox) if part.sandbox else None
            return SyntaxCheck(sandboxes=boxes, **_options(part, "sandbox"))
        if isinstance(part, parts.LearnedComponent):
            return self._learned_reward(part)
        plain = PLAIN.get(type(part))
        if plain is None:
            raise ConfigError(f"the component {part.name!r} is made by no part of this version")
        return plain(**_options(part))

    def _of_kind(self, kind: str) -> BorrowedSandboxes:
        if kind not in self._sandboxes:
            self._sandboxes[kind] = BorrowedSandboxes(self.open_sandboxes(kind))
        return self._sandboxes[kind]

    def _learned_reward(self, part: parts.LearnedComponent) -> Reward:
        key = (part.labeler, part.form, part.minimum_confidence)
        if key not in self._learned:
            labeler = load_labeler(Path(part.labeler))
            self._learned[key] = LearnedReward(
                labeler=labeler,
                form=part.form,
                minimum_confidence=part.minimum_confidence,
                embedder=self.load_embedder(labeler.embedder_model) if labeler.embedder else None,
            )
        return self._learned[key]


def _judging(named: str) -> Callable[..., Any]:
    """A user's judge: a function of messages that returns text."""
    function = load_callable(named, KEY)
    if isinstance(function, type):
        function = made_of(function, named, KEY)
    check_call(function, named, KEY, ("messages",))
    return cast("Callable[..., Any]", function)


def _scoring(named: str) -> Callable[..., Any]:
    """A user's function; of a class, the method `score` of an object of it."""
    function = load_callable(named, KEY)
    if isinstance(function, type):
        function = made_of(function, named, KEY)
    if isinstance(function, Reward):
        function = function.score
    check_call(function, named, KEY, ("task", "trace", "outcome"))
    return cast("Callable[..., Any]", function)


class _RecordedEnvironment:
    """Stands in for the unknown environment of stored episodes."""

    name = "recorded traces"

    def __init__(self, default_reward: str) -> None:
        self.default_reward = default_reward


def _options(part: parts.ComponentConfig, *left_out: str) -> dict[str, Any]:
    """A component's own options, without the fields every component has."""
    common = {*parts.ComponentConfig.model_fields, *left_out}
    own = type(part).model_fields.keys() - common
    return {key: getattr(part, key) for key in sorted(own)}


def _paid_by_turn(environment: Environment) -> TurnRewards:
    made_for = default_reward(environment)
    if made_for != PAID_BY_TURN:
        raise ConfigError(
            f"reward = 'turns' cannot be used: {environment.name!r} pays nothing for a turn; "
            f"write reward: {made_for}, or leave it out"
        )
    return TurnRewards()
