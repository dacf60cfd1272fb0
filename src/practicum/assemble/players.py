"""Whoever acts: a model, an adapter, a scripted policy, a person."""

import json
import random
from asyncio import Semaphore
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from practicum.agents.react import OBSERVATION
from practicum.assemble.agents import build_agent, build_loop, program_limits
from practicum.assemble.environments import heldout_tasks
from practicum.assemble.models import placement
from practicum.assemble.reach import GatewayReach, ProgramConversation
from practicum.assemble.rewards import build_group_reward, build_reward
from practicum.core.config import ModelConfig, RolloutConfig, RunConfig
from practicum.core.errors import CheckpointError, UserError
from practicum.core.interfaces import Environment, Sampler
from practicum.core.report import EvalReport
from practicum.core.sample import Episode
from practicum.core.sampling import ActionForm, Completion, SamplingParams
from practicum.core.task import Task
from practicum.core.trace import Message, ToolSpec
from practicum.environments import Reference, random_action_text
from practicum.evaluation import evaluate
from practicum.gateway import CapturedConversation, ScriptedConversation
from practicum.rewards import ReportedScore
from practicum.rollouts import RolloutParts, run_episode

if TYPE_CHECKING:
    from practicum.policy.torch_policy import TorchPolicy

__all__ = [
    "SCRIPTED_POLICIES",
    "Player",
    "base_of_adapter",
    "evaluate_player",
    "human_player",
    "load_player",
    "play_once",
    "policy_player",
    "sampling_params",
    "sampling_player",
    "scripted_player",
]

SCRIPTED_POLICIES = ("reference", "random")
"""Policies without a model: the environment's own solution, and any allowed action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """What a model says its turns with."""

    sampler: Sampler
    codec: Any
    params: SamplingParams
    tokenizer: Any = None
    """Programs that ask for JSON need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Anything that can be evaluated or watched: a model, an adapter, a scripted policy."""

    name: str
    fingerprint: str
    converse: Callable[[Task, int], Any]
    voice: Voice | None = None
    """None for a policy without a model, which always acts by itself, whatever agent is named."""

    def parts(
        self,
        environment: Environment,
        config: RunConfig,
        *,
        run: Path | None = None,
        learns: bool = False,
    ) -> RolloutParts:
        """What its episodes are made with.

        Args:
            environment: Where they are played.
            config: The run's.
            run: Folder of the run they belong to, where what a judge says is kept.
            learns: Whether they are learned from, and so compared with each other.
        """
        parts = RolloutParts(
            environment=environment,
            agent=build_loop(environment, config),
            reward=build_reward(config.reward, environment),
            converse=self.converse,
            model=self.name,
            group_reward=build_group_reward(config.reward, folder=run, compares=learns),
            retries=config.agent.retries,
        )
        return parts if self.voice is None else _with_agent(parts, config, self.voice, run)


def _with_agent(
    parts: RolloutParts, config: RunConfig, voice: Voice, run: Path | None
) -> RolloutParts:
    """The same with the agent that the config names, and what that needs."""
    agent = build_agent(parts.environment, config, voice.codec, run)
    parts = replace(parts, agent=agent, deadline_s=config.agent.deadline)
    if config.agent.style == "react":
        stops = replace(voice.params, stop=(f"\n{OBSERVATION}",))
        return replace(parts, converse=_conversations(replace(voice, params=stops)))
    if not config.agent.is_program:
        return parts
    is_left_to_it = config.reward.name == "auto" and not config.reward.components
    return replace(
        parts,
        converse=_program_conversations(voice, config.agent.sampling == "client"),
        places=Semaphore(config.agent.at_once) if config.agent.at_once else None,
        reach=GatewayReach(parts.model, program_limits(config), voice.tokenizer),
        reward=ReportedScore(otherwise=parts.reward) if is_left_to_it else parts.reward,
    )


def _conversations(voice: Voice) -> Callable[[Task, int], CapturedConversation]:
    def converse(task: Task, seed: int) -> CapturedConversation:
        return CapturedConversation(voice.sampler, voice.codec, voice.params, seed)

    return converse


def _program_conversations(
    voice: Voice, follows_client: bool
) -> Callable[[Task, int], ProgramConversation]:
    def converse(task: Task, seed: int) -> ProgramConversation:
        opened = ProgramConversation(voice.sampler, voice.codec, voice.params, seed)
        opened.follows_client = follows_client
        return opened

    return converse


def scripted_player(kind: str, environment: Environment) -> Player:
    """A policy without a model: `reference` or `random`."""

    def converse(task: Task, seed: int) -> ScriptedConversation:
        if kind == "reference":
            return _ReferenceConversation(environment, task)
        dice = random.Random(seed)

        def choose(actions: tuple[ActionForm, ...]) -> str:
            return random_action_text(actions, dice)

        return ScriptedConversation(choose, name=kind)

    return Player(name=kind, fingerprint=kind, converse=converse)


class _ReferenceConversation(ScriptedConversation):
    """Writes the turns of a solution, which may depend on what the earlier ones were answered."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self._task = task
        self._reference = Reference(environment, task)
        super().__init__(lambda actions: self._next(), name="reference")

    async def complete(
        self,
        messages: Sequence[Message],
        actions: tuple[ActionForm, ...] = (),
        tools: tuple[ToolSpec, ...] = (),
    ) -> Completion:
        if self.nodes:
            self._reference.saw(messages[-1].content)
        return await super().complete(messages, actions, tools)

    def _next(self) -> str:
        turn = self._reference.next_turn()
        if turn is None:
            raise UserError(
                f"the solution of {self._task.id!r} has no more turns, or is not known; "
                "choose another policy or another task"
            )
        return turn


def human_player(ask: Callable[[tuple[ActionForm, ...]], str]) -> Player:
    """A person: `ask` shows the possible actions and returns what was typed."""

    def converse(task: Task, seed: int) -> ScriptedConversation:
        return ScriptedConversation(ask, name="human")

    return Player(name="you", fingerprint="human", converse=converse)


def sampling_player(
    name: str, sampler: Sampler, codec: Any, params: SamplingParams, tokenizer: Any = None
) -> Player:
    """A policy that samples from a model."""
    voice = Voice(sampler=sampler, codec=codec, params=params, tokenizer=tokenizer)
    return Player(
        name=name, fingerprint=sampler.fingerprint(), converse=_conversations(voice), voice=voice
    )


def policy_player(name: str, policy: "TorchPolicy", params: SamplingParams) -> Player:
    """A policy that is being trained, as it is at each moment."""
    return sampling_player(name, policy.sampler, policy.codec, params, policy.tokenizer)


def sampling_params(rollouts: RolloutConfig, temperature: float) -> SamplingParams:
    """How turns are drawn; top-k and top-p belong to exploring, so an evaluation leaves them."""
    exploring = temperature == rollouts.temperature
    return SamplingParams(
        temperature=temperature,
        top_p=rollouts.top_p if exploring else 1.0,
        top_k=rollouts.top_k if exploring else 0,
        max_tokens=rollouts.max_tokens,
    )


def load_player(
    model: ModelConfig, adapter: Path | None, rollouts: RolloutConfig, temperature: float
) -> Player:
    """A model, or a model with the adapter of a checkpoint folder, ready to act."""
    from practicum.policy.torch_policy import load_adapted_sampler, load_for_policy

    dtype, device = placement(model)
    loaded = load_for_policy(model.name, dtype, device)
    sampler = load_adapted_sampler(loaded, adapter)
    params = sampling_params(rollouts, temperature)
    name = f"{model.name} + {adapter.name}" if adapter else model.name
    return sampling_player(name, sampler, loaded.codec, params, loaded.tokenizer)


def base_of_adapter(folder: Path) -> str:
    """The name of the model that a checkpoint's adapter belongs to."""
    path = folder / "adapter_config.json"
    try:
        return str(json.loads(path.read_text())["base_model_name_or_path"])
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}; name another checkpoint") from None


async def play_once(
    player: Player, environment: Environment, task: Task, config: RunConfig, seed: int
) -> Episode:
    """One episode, as it would be trained on."""
    return await run_episode(player.parts(environment, config), task, "play", seed)


async def evaluate_player(
    player: Player,
    environment: Environment,
    config: RunConfig,
    on_episode: Callable[[Episode], None],
    name: str = "",
    run: Path | None = None,
) -> EvalReport:
    """A player on the config's held-out tasks; `run` is the folder of its run, where it has one."""
    tasks = heldout_tasks(environment, config.eval.n, config.eval.seed)
    result = await evaluate(
        player.parts(environment, config, run=run),
        tasks,
        attempts=config.eval.k,
        seed=config.eval.seed,
        policy=name or player.name,
        fingerprint=player.fingerprint,
        on_episode=on_episode,
    )
    return result.report
