"""The composition root: configs and names to wired objects. The one place that knows them all."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from practicum.agents import DiscreteAgent
from practicum.core.checkpoint import LoopState
from practicum.core.config import EnvConfig, ModelConfig, RolloutConfig, RunConfig
from practicum.core.errors import CheckpointError, UserError
from practicum.core.interfaces import Environment, Sampler
from practicum.core.report import EvalReport
from practicum.core.sample import Episode
from practicum.core.sampling import ActionForm, SamplingParams
from practicum.core.task import Task
from practicum.environments import (
    EnvironmentCheck,
    LevelCheck,
    build_environment,
    build_level,
    check_environment,
    environment_class,
    random_action_text,
)
from practicum.evaluation import evaluate, report_from_json, report_to_json
from practicum.gateway import CapturedConversation, ScriptedConversation
from practicum.hardware import (
    choose_device,
    choose_dtype,
    detect_machine,
    make_heap_compact,
    plan_allotment,
    plan_threads,
)
from practicum.rewards import TurnRewards
from practicum.rollouts import RolloutParts, run_episode
from practicum.store import CheckpointStore, EventLog, RunDir, SqliteTraceStore
from practicum.training import TaskStream, Trainer, TrainingObserver, TrainingParts, restore

if TYPE_CHECKING:
    from practicum.policy.models import DTypeName
    from practicum.policy.pull import ListedModel, Pulled
    from practicum.policy.torch_policy import TorchPolicy

__all__ = [
    "SCRIPTED_POLICIES",
    "EnvironmentCheck",
    "LevelCheck",
    "Player",
    "base_of_adapter",
    "build_policy",
    "check_levels",
    "evaluate_player",
    "find_task",
    "heldout_tasks",
    "human_player",
    "list_models",
    "load_player",
    "open_environment",
    "play_once",
    "pull_model",
    "read_evaluations",
    "scripted_player",
    "trainer_for",
]

SCRIPTED_POLICIES = ("reference", "random")
"""Policies without a model: the environment's own solution, and any allowed action."""

EVALS = "evals"
"""Folder of a run that holds its evaluations, one JSON file each."""


def list_models() -> "list[ListedModel]":
    """Every known model, and whether it is here."""
    from practicum.policy.pull import list_models

    return list_models()


def pull_model(
    name: str, progress: Callable[[str, int, int], None], *, keep_download: bool = False
) -> "Pulled | None":
    """Fetch a model; None for one that is made on the spot."""
    from practicum.policy.pull import pull

    return pull(name, progress, keep_download=keep_download)


def open_environment(config: EnvConfig) -> Environment:
    """The environment a config names, its options checked."""
    return build_environment(config.name, config.options)


def heldout_tasks(environment: Environment, n: int, seed: int) -> list[Task]:
    """The first `n` held-out tasks; the same for every policy that is evaluated with this seed."""
    tasks = list(islice(environment.tasks("heldout", seed), n))
    if len(tasks) < n:
        raise UserError(
            f"{environment.name!r} has {len(tasks)} held-out tasks with these options and {n} were "
            f"asked for; lower the number to {len(tasks)}"
        )
    return tasks


def find_task(environment: Environment, named: str) -> Task:
    """The task with an id, or what the environment makes of a text such as `3x + 7 = 16`."""
    find = getattr(environment, "find", None)
    if find is None:
        raise UserError(f"{environment.name!r} cannot look up {named!r}; list its tasks instead")
    found: Task = find(named)
    return found


async def check_levels(
    config: EnvConfig,
    level: int | None,
    n: int | None,
    seed: int,
    report: Callable[[LevelCheck], None],
) -> EnvironmentCheck:
    """Check held-out tasks of one level or of every level; `n` None takes all there are."""
    checks: list[LevelCheck] = []

    def build(one: int) -> Environment:
        return build_level(config.name, one, config.options)

    for one in (level,) if level is not None else environment_class(config.name).all_levels:
        count = n or sum(1 for _ in build(one).tasks("heldout", seed))
        found = await check_environment(build, levels=(one,), n=count, seed=seed, report=report)
        checks += found.levels
    return EnvironmentCheck(env=config.name, seed=seed, levels=tuple(checks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Anything that can be evaluated or watched: a model, an adapter, a scripted policy."""

    name: str
    fingerprint: str
    converse: Callable[[Task, int], Any]

    def parts(self, environment: Environment, max_turns: int) -> RolloutParts:
        """What its episodes are made with."""
        return RolloutParts(
            environment=environment,
            agent=DiscreteAgent(max_turns=max_turns),
            reward=TurnRewards(),
            converse=self.converse,
            model=self.name,
        )


def scripted_player(kind: str, environment: Environment) -> Player:
    """A policy without a model: `reference` or `random`."""

    def converse(task: Task, seed: int) -> ScriptedConversation:
        if kind == "reference":
            turns = iter(environment.reference(task))
            return ScriptedConversation(lambda actions: next(turns), name=kind)
        dice = random.Random(seed)

        def choose(actions: tuple[ActionForm, ...]) -> str:
            return random_action_text(actions, dice)

        return ScriptedConversation(choose, name=kind)

    return Player(name=kind, fingerprint=kind, converse=converse)


def human_player(ask: Callable[[tuple[ActionForm, ...]], str]) -> Player:
    """A person: `ask` shows the possible actions and returns what was typed."""

    def converse(task: Task, seed: int) -> ScriptedConversation:
        return ScriptedConversation(ask, name="human")

    return Player(name="you", fingerprint="human", converse=converse)


def sampling_player(name: str, sampler: Sampler, codec: Any, params: SamplingParams) -> Player:
    """A policy that samples from a model."""

    def converse(task: Task, seed: int) -> CapturedConversation:
        return CapturedConversation(sampler, codec, params, seed)

    return Player(name=name, fingerprint=sampler.fingerprint(), converse=converse)


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

    dtype, device = _placement(model)
    loaded = load_for_policy(model.name, dtype, device)
    sampler = load_adapted_sampler(loaded, adapter)
    params = sampling_params(rollouts, temperature)
    name = f"{model.name} + {adapter.name}" if adapter else model.name
    return sampling_player(name, sampler, loaded.codec, params)


def base_of_adapter(folder: Path) -> str:
    """The name of the model that a checkpoint's adapter belongs to."""
    path = folder / "adapter_config.json"
    try:
        return str(json.loads(path.read_text())["base_model_name_or_path"])
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}; name another checkpoint") from None


def _placement(model: ModelConfig) -> "tuple[DTypeName, str]":
    device = choose_device(detect_machine(), model.device)
    return choose_dtype(device, model.dtype), device


def build_policy(config: RunConfig) -> "TorchPolicy":
    """The model with a fresh adapter, given its share of memory. Threads are pinned first."""
    from practicum.policy.learner import LearnerSettings
    from practicum.policy.threads import pin_threads
    from practicum.policy.torch_policy import TorchPolicy, load_for_policy

    pin_threads(thread_count(config))
    dtype, device = _placement(config.model)
    given = plan_allotment(config, detect_machine())
    if given.checkpointed and device == "cpu":
        make_heap_compact()  # without it the heap would hold on to what is not kept
    loaded = load_for_policy(config.model.name, dtype, device)
    algorithm = config.algorithm
    settings = LearnerSettings(
        lr=algorithm.lr,
        weight_decay=algorithm.weight_decay,
        max_grad_norm=algorithm.max_grad_norm,
        max_logprob_gap=config.hardware.gap_limit(dtype),
        checkpointed=given.checkpointed,
    )
    return TorchPolicy.build(loaded, config.lora, settings, config.seed, max_slots=given.kv_slots)


def with_batch_size(config: RunConfig) -> RunConfig:
    """The config with the micro-batch that suits the machine, where it names none."""
    tokens = plan_allotment(config, detect_machine()).batch_tokens
    algorithm = config.algorithm.model_copy(update={"micro_batch_tokens": tokens})
    return config.model_copy(update={"algorithm": algorithm})


def thread_count(config: RunConfig) -> int:
    """The threads a config asks for, or as many as the machine allows."""
    return config.hardware.threads or plan_threads(detect_machine())


def build_algorithm(config: RunConfig) -> Any:
    """Credit and loss as the config says."""
    from practicum.algorithms import Grpo

    algorithm = config.algorithm
    return Grpo(
        credit_by=algorithm.credit,
        discount=algorithm.discount,
        scale=algorithm.scale,
        clip=algorithm.clip,
        kl=algorithm.kl,
        epochs=algorithm.epochs,
    )


@contextmanager
def trainer_for(
    config: RunConfig, run: RunDir, policy: "TorchPolicy", observer: TrainingObserver
) -> Iterator[Trainer]:
    """A trainer that goes on from the run's newest sound checkpoint, or starts at step 0.

    The caller holds the run's lock.
    """
    environment = open_environment(config.env)
    curriculum = TaskStream(lambda: environment.tasks("train", config.seed))
    checkpoints = CheckpointStore(run.path)
    checkpoints.recover()
    found = checkpoints.load_latest()
    for damaged in found.damaged:
        observer.warned(damaged.reason)
    state = LoopState(step=0, curriculum=curriculum.state())
    if found.checkpoint is not None:
        state = restore(found.checkpoint, policy.learner, curriculum)
    _, device = _placement(config.model)
    attempt = run.begin_attempt(
        from_step=state.step, threads=thread_count(config), device=device
    ).attempt
    explore = sampling_params(config.rollouts, config.rollouts.temperature)
    explorer = sampling_player(config.model.name, policy.sampler, policy.codec, explore)
    with (
        EventLog(run.metrics_path, attempt=attempt, from_step=state.step) as metrics,
        SqliteTraceStore(run.traces_path) as traces,
    ):
        traces.begin_attempt(attempt, state.step)

        async def evaluate_now(step: int) -> EvalReport:
            params = sampling_params(config.rollouts, config.eval.temperature)
            player = sampling_player(config.model.name, policy.sampler, policy.codec, params)
            report = await evaluate_player(
                player, environment, config, observer.episode_done, f"{run.name} step {step}"
            )
            save_evaluation(run, step, report)
            metrics.append("eval", step=step, values=evaluation_row(report))
            return report

        parts = TrainingParts(
            config=with_batch_size(config),
            rollout=explorer.parts(environment, config.rollouts.max_turns),
            sampler=policy.sampler,
            learner=policy.learner,
            algorithm=build_algorithm(config),
            curriculum=curriculum,
            metrics=metrics,
            traces=traces,
            checkpoints=checkpoints,
            evaluate=evaluate_now,
            earlier_reports={s: r for s, r in read_evaluations(run).items() if s <= state.step},
            observer=observer,
        )
        yield Trainer(parts, state)


async def play_once(
    player: Player, environment: Environment, task: Task, max_turns: int, seed: int
) -> Episode:
    """One episode, as it would be trained on."""
    return await run_episode(player.parts(environment, max_turns), task, "play", seed)


async def evaluate_player(
    player: Player,
    environment: Environment,
    config: RunConfig,
    on_episode: Callable[[Episode], None],
    name: str = "",
) -> EvalReport:
    """A player on the config's held-out tasks."""
    tasks = heldout_tasks(environment, config.eval.n, config.eval.seed)
    result = await evaluate(
        player.parts(environment, config.rollouts.max_turns),
        tasks,
        attempts=config.eval.k,
        seed=config.eval.seed,
        policy=name or player.name,
        fingerprint=player.fingerprint,
        on_episode=on_episode,
    )
    return result.report


def save_evaluation(run: RunDir, step: int, report: EvalReport) -> None:
    """Keep a whole report in the run's folder."""
    from practicum.store.durable import write_file

    folder = run.path / EVALS
    folder.mkdir(exist_ok=True)
    write_file(folder / f"step_{step}.json", json.dumps(report_to_json(report)).encode())


def read_evaluations(run: RunDir) -> dict[int, EvalReport]:
    """Every evaluation of a run, by step."""
    files = (run.path / EVALS).glob("step_*.json")
    found = {int(f.stem.removeprefix("step_")): f for f in files}
    return {step: report_from_json(json.loads(f.read_text())) for step, f in sorted(found.items())}


def evaluation_row(report: EvalReport) -> Mapping[str, Any]:
    """What `metrics.jsonl` says of an evaluation."""

    def interval(part: Any) -> dict[str, Any]:
        return {"value": part.value, "low": part.low, "high": part.high, "n": part.n}

    return {
        "success": interval(report.success),
        "reward": interval(report.reward),
        "masked": report.masked,
        "fingerprint": report.fingerprint,
        "duration_s": report.duration_s,
    }
