"""Whoever acts: a model, an adapter, a scripted policy, a person."""

from asyncio import Semaphore
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from practicum.agents.build_agents import build_agent, build_loop, program_limits
from practicum.agents.call_styles import OBSERVATION
from practicum.agents.rollout import RolloutParts, run_episode, run_groups
from practicum.assemble.wired_rewards import REWARDS
from practicum.core.config.config_sections import ModelConfig, RolloutConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import MissingExtra
from practicum.core.interfaces import Environment, LivePolicy, Sampler
from practicum.core.sample import Episode, Group
from practicum.core.sampling import ActionForm, SamplingParams
from practicum.core.task import JSON, Task
from practicum.engine.models.loading import locate_model
from practicum.engine.planning.machine import placement
from practicum.environments.reference_policies import ReferenceConversation, random_conversation
from practicum.environments.registry import heldout_tasks
from practicum.evaluation.evaluate import Evaluation, evaluate, named_episodes
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.rollout_server import ProgramConversation, RolloutServer
from practicum.gateway.scripted_conversation import ScriptedConversation
from practicum.rewards.verifiable import ReportedScore
from practicum.store.trace_store import SqliteTraceStore
from practicum.store.unfinished_evaluation import UnfinishedEvaluation

if TYPE_CHECKING:
    from practicum.engine.sampling.json_grammar import JsonGrammars

SCRIPTED_POLICIES = ("reference", "random")
"""Policies without a model: the environment's own solution, and any allowed action."""
TOGETHER = 32
"""Tasks that are acted on at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledModel:
    """What a model says its turns with."""

    sampler: Sampler
    codec: Any
    params: SamplingParams
    tokenizer: Any = None
    """Programs that ask for JSON need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyHandle:
    """Anything that can be evaluated or watched: a model, an adapter, a scripted policy."""

    name: str
    fingerprint: str
    converse: Callable[[Task, int], Any]
    model: SampledModel | None = None
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
            reward=REWARDS.reward(config.reward, environment),
            converse=self.converse,
            model=self.name,
            group_reward=REWARDS.group_reward(config.reward, folder=run, compares=learns),
            retries=config.agent.retries,
            answer_timeout_s=config.rollouts.answer_timeout_s,
            success_at=config.reward.success_at,
        )
        return parts if self.model is None else _with_agent(parts, config, self.model, run)


def _with_agent(
    parts: RolloutParts, config: RunConfig, model: SampledModel, run: Path | None
) -> RolloutParts:
    """The same with the agent that the config names, and what that needs."""
    agent = build_agent(parts.environment, config, model.codec, run)
    parts = replace(parts, agent=agent, deadline_s=config.agent.deadline)
    if config.agent.style == "react":
        stops = replace(model.params, stop=(f"\n{OBSERVATION}",))
        return replace(parts, converse=_conversations(replace(model, params=stops)))
    if not config.agent.is_program:
        return parts
    is_left_to_it = config.reward.name == "auto" and not config.reward.components
    return replace(
        parts,
        converse=_program_conversations(model, config.agent.sampling == "client"),
        slots=Semaphore(config.agent.at_once) if config.agent.at_once else None,
        server=RolloutServer(parts.model, program_limits(config), json_grammars(model.tokenizer)),
        reward=ReportedScore(otherwise=parts.reward) if is_left_to_it else parts.reward,
    )


def _conversations(model: SampledModel) -> Callable[[Task, int], CapturedConversation]:
    def converse(task: Task, seed: int) -> CapturedConversation:
        return CapturedConversation(model.sampler, model.codec, model.params, seed)

    return converse


def _program_conversations(
    model: SampledModel, follows_client: bool
) -> Callable[[Task, int], ProgramConversation]:
    def converse(task: Task, seed: int) -> ProgramConversation:
        opened = ProgramConversation(model.sampler, model.codec, model.params, seed)
        opened.follows_client = follows_client
        return opened

    return converse


def scripted_policy(kind: str, environment: Environment) -> PolicyHandle:
    """A policy without a model: `reference` or `random`."""

    def converse(task: Task, seed: int) -> ScriptedConversation:
        if kind == "reference":
            return ReferenceConversation(environment, task)
        return random_conversation(seed)

    return PolicyHandle(name=kind, fingerprint=kind, converse=converse)


def human_policy(ask: Callable[[tuple[ActionForm, ...]], str]) -> PolicyHandle:
    """A person: `ask` shows the possible actions and returns what was typed."""

    def converse(task: Task, seed: int) -> ScriptedConversation:
        return ScriptedConversation(ask, name="human")

    return PolicyHandle(name="you", fingerprint="human", converse=converse)


def sampling_policy(
    name: str, sampler: Sampler, codec: Any, params: SamplingParams, tokenizer: Any = None
) -> PolicyHandle:
    """A policy that samples from a model."""
    model = SampledModel(sampler=sampler, codec=codec, params=params, tokenizer=tokenizer)
    return PolicyHandle(
        name=name, fingerprint=sampler.fingerprint(), converse=_conversations(model), model=model
    )


def trained_policy(name: str, policy: LivePolicy, params: SamplingParams) -> PolicyHandle:
    """A policy that is being trained, as it is at each moment."""
    return sampling_policy(name, policy.sampler, policy.codec, params, policy.tokenizer)


def sampling_params(rollouts: RolloutConfig, temperature: float) -> SamplingParams:
    """How turns are drawn: as the rollouts', at a temperature that may be another."""
    return SamplingParams(
        temperature=temperature,
        top_p=rollouts.top_p,
        top_k=rollouts.top_k,
        max_tokens=rollouts.max_tokens,
    )


def load_policy(
    model: ModelConfig, adapter: Path | None, rollouts: RolloutConfig, temperature: float
) -> PolicyHandle:
    """A model, or a model with the adapter of a checkpoint folder, ready to act."""
    MissingExtra.unless("torch", "train", f"loading the model {model.name!r}")
    if model.runtime == "torch":
        locate_model(model.name)
    from practicum.engine.policy import load_adapted_sampler, load_for_policy

    params = sampling_params(rollouts, temperature)
    if model.runtime == "llama.cpp":
        from practicum.engine.sampling.llama_cpp_sampler import open_gguf

        opened = open_gguf(model.name, adapter)
        return sampling_policy(model.name, opened.sampler, opened.codec, params, opened.tokenizer)
    loaded = load_for_policy(model.name, *placement(model), model.chat_template)
    name = f"{model.name} + {adapter.name}" if adapter else model.name
    sampler = load_adapted_sampler(loaded, adapter)
    return sampling_policy(name, sampler, loaded.codec, params, loaded.tokenizer)


def json_grammars(tokenizer: Any) -> "Callable[[], JsonGrammars] | None":
    """What holds turns to JSON, made when a program first asks; None without a tokenizer."""

    def build() -> "JsonGrammars":
        from practicum.engine.sampling.json_grammar import JsonGrammars

        return JsonGrammars(tokenizer)

    return None if tokenizer is None else build


async def play_once(
    handle: PolicyHandle, environment: Environment, task: Task, config: RunConfig, seed: int
) -> Episode:
    """One episode, as it would be trained on."""
    return await run_episode(handle.parts(environment, config), task, "play", seed)


async def evaluate_policy(
    handle: PolicyHandle,
    environment: Environment,
    config: RunConfig,
    on_episode: Callable[[Episode], None],
    name: str = "",
    run: Path | None = None,
    on_groups: Callable[[Sequence[Group]], None] = lambda groups: None,
    done: Mapping[str, Episode] = MappingProxyType({}),
) -> Evaluation:
    """A policy on the config's held-out tasks.

    `run` is the folder of its run, where it has one; `done` are the episodes of an evaluation that
    was cut off, by trace id.
    """
    tasks = heldout_tasks(environment, config.eval.n, config.eval.seed)
    return await evaluate(
        replace(handle.parts(environment, config, run=run), done=done),
        tasks,
        attempts=config.eval.k,
        seed=config.eval.seed,
        policy=name or handle.name,
        fingerprint=handle.fingerprint,
        on_episode=on_episode,
        on_groups=on_groups,
    )


def unfinished_evaluation(
    handle: PolicyHandle, config: RunConfig, *, resume: bool
) -> UnfinishedEvaluation:
    """What is kept of an evaluation while it goes on; with `resume` what one before had done."""
    asked = config.model_dump(mode="json", include={"env", "agent", "reward", "model", "eval"})
    question: dict[str, JSON] = {
        **asked,
        "rollouts": config.rollouts.model_dump(mode="json"),
        "fingerprint": handle.fingerprint,
    }
    return UnfinishedEvaluation(question, resume=resume)


FAILED = "eval_failures.sqlite"
"""Where the episodes of an evaluation go that came to nothing, unless told where all go."""


class KeptEpisodes(NamedTuple):
    """Episodes of an evaluation, and the file that they are in; none and no file."""

    episodes: int = 0
    path: str = ""


def keep_evaluated(groups: Sequence[Group], fingerprint: str, store: str = "") -> KeptEpisodes:
    """Keep all episodes of an evaluation in a store, or without one those that failed."""
    chosen = [e for e in named_episodes(groups, fingerprint[:16]) if store or not e.is_usable]
    if not chosen:
        return KeptEpisodes()
    path = store or FAILED
    with SqliteTraceStore(Path(path)) as kept:
        kept.add_imported(chosen, tasks=[group.task for group in groups], purpose="eval")
    return KeptEpisodes(len(chosen), path)


async def record_episodes(
    handle: PolicyHandle,
    environment: Environment,
    config: RunConfig,
    store: Path,
    on_episode: Callable[[Episode], None],
) -> list[Episode]:
    """`eval.k` episodes of each of `eval.n` training tasks; what was made is kept as it goes."""
    tasks, parts = environment.tasks("train", config.eval.seed), handle.parts(environment, config)
    made: list[Episode] = []
    with SqliteTraceStore(store) as kept:
        for begin in range(0, config.eval.n, TOGETHER):
            some = list(islice(tasks, min(TOGETHER, config.eval.n - begin)))
            groups = await run_groups(
                parts,
                some,
                config.eval.k,
                label=f"record/{handle.fingerprint}/{config.eval.seed}/{begin}",
                seed=config.eval.seed,
                on_episode=on_episode,
            )
            episodes = [episode for group in groups for episode in group.episodes]
            kept.add_imported(episodes, tasks=some)
            made += episodes
    return made
