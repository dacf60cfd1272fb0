"""The one driver of a run: from its config to a trained policy, whoever asks for it."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from practicum.agents.build_agents import check_agent
from practicum.agents.own_sessions import check_own_session
from practicum.agents.rollout import RolloutParts
from practicum.analysis.evaluations import read_evaluations
from practicum.assemble.build_policy import build_policy, fitting_plan, learner_settings
from practicum.assemble.build_stages import build_stages, with_own_options
from practicum.assemble.clustered import act_in_workers
from practicum.assemble.environments import choose_task, curriculum_of, open_environment
from practicum.assemble.learner_processes import learner_processes
from practicum.assemble.policies import (
    PolicyHandle,
    evaluate_policy,
    play_once,
    sampling_params,
    scripted_policy,
    trained_policy,
)
from practicum.assemble.wired_rewards import REWARDS
from practicum.core.capabilities import IsTestSet, SamplesElsewhere, parts_of, sandbox_kind
from practicum.core.checkpoint import EvalReport, LoopState
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError, UserError
from practicum.core.interfaces import Environment, LivePolicy
from practicum.core.sample import Episode
from practicum.core.sampling import Actions
from practicum.core.task import Task
from practicum.core.trace import Message
from practicum.engine.planning.config_checks import check_processes, check_sizes, odd_settings
from practicum.engine.planning.machine import detect_machine, placement, thread_count
from practicum.environments.registry import (
    check_first_tasks,
    environment_class,
    first_tasks,
    heldout_tasks,
    run_and_close,
    shared_tasks,
)
from practicum.environments.tasks_environment import check_answers
from practicum.evaluation.evaluate import keep_episodes
from practicum.evaluation.report import report_to_json, report_to_row
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import EventLog
from practicum.store.run_dir import RunDir, check_place
from practicum.store.trace_store import SqliteTraceStore
from practicum.store.unused_runs import no_empty_run
from practicum.training.loop import (
    Trainer,
    TrainingObserver,
    TrainingParts,
    TrainingResult,
    read_state,
    restore,
)
from practicum.training.recovery import eased_settings
from practicum.training.stage_data import check_data
from practicum.training.warm_start import end_imitation, fitting_eval, settle_warm_start

if TYPE_CHECKING:
    from practicum.engine.planning.memory_plan import MemoryPlan


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that is about to train: its folder, its policy, and where it acts."""

    run: RunDir
    config: RunConfig
    policy: LivePolicy
    environment: Environment | None  # None where the run learns from recorded examples alone
    note: str = ""  # what was decided about it before it began, in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedRun:
    """A run that has come to its end, and the policy as it is now."""

    run: RunDir
    result: TrainingResult
    policy: LivePolicy


Observe = Callable[[OpenRun], AbstractContextManager[TrainingObserver]]
"""Who is told how a run goes on, made when everything is loaded and open for as long as it runs."""


def open_run_environment(config: RunConfig) -> Environment | None:
    """The environment of a run with its reward checked; None where the run does not act.

    To be called before anything is made or loaded: a config may ask for what is not there.
    """
    check_sizes(config, detect_machine(look_for_devices=False))
    check_processes(config)
    for data in [stage.data for stage in config.all_stages if stage.data]:
        check_data(data, Path(config.runs_dir))
    if config.env is None:
        if config.needs_env:
            raise ConfigError(config.needs_env)
        return None
    kind = environment_class(config.env.name)
    if config.needs_env and isinstance(kind, IsTestSet):
        raise UserError(kind.not_for_training)
    environment = open_environment(config.env)
    for part in (type(one) for one in parts_of(environment).values()):
        if config.needs_env and isinstance(part, IsTestSet):
            raise UserError(part.not_for_training)
    if config.needs_env:
        first_tasks(environment, "train", config.seed, 1)
    check_agent(environment, config.agent)
    REWARDS.check(config.reward, environment)
    check_answers(config, environment)
    curriculum_of(config, environment)
    if config.eval.n:
        is_given = "n" in config.eval.model_fields_set
        heldout_tasks(environment, config.eval.n if is_given else 1, config.eval.seed)
    check_first_tasks(config, environment)
    if config.cluster.is_there and config.cluster.workers:
        act_in_workers(config, environment)
    return environment


def create_run(config: RunConfig, name: str | None) -> RunDir:
    """A new run's folder, which says what machine it was made on."""
    found = json.loads(json.dumps(asdict(detect_machine())))
    return RunDir.create(Path(config.runs_dir), config, name=name, hardware=found)


async def train_run_async(
    config: RunConfig,
    observe: Observe,
    *,
    name: str | None = None,
    resumed: RunDir | None = None,
    policy: LivePolicy | None = None,
    plan: "MemoryPlan | None" = None,
) -> TrainedRun:
    """Train a run to its end: a new one, or one that goes on.

    Everything that a config may ask for and that may not be there (an environment's options, an
    agent, memory, a sandbox, the model) is looked for before the run's folder is made.

    Args:
        config: What is to be done.
        observe: Makes the observer.
        name: What to call a new run's folder.
        resumed: The run to go on with; None makes a new one.
        policy: A model with a fresh adapter that was built from this config, if there is one. Its
            memory was planned before it was loaded.
        plan: The memory plan, if it was made already.
    """
    if resumed is None:
        check_place(Path(config.runs_dir), name)
    environment = open_run_environment(config)
    config = with_own_options(config)
    if policy is not None:
        return await _to_the_end(config, observe, policy, environment, name, resumed)
    plan = plan or fitting_plan(config)
    if environment is not None and config.env is not None:
        sandbox_kind(environment)  # before the model is loaded: there may be no sandbox
        seconds = config.rollouts.answer_timeout_s
        _check_offered(await check_own_session(config.env.name, environment, seconds), config)
    with learner_processes(config.hardware.processes) as group:
        policy = build_policy(config, plan, group)
        return await _to_the_end(config, observe, policy, environment, name, resumed)


async def _to_the_end(
    config: RunConfig,
    observe: Observe,
    policy: LivePolicy,
    environment: Environment | None,
    name: str | None,
    resumed: RunDir | None,
) -> TrainedRun:
    """Train, and give up what the policy has elsewhere."""
    try:
        opened = await _open_run(config, policy, environment, name, resumed)
        return await _train_opened(opened, observe, is_new=resumed is None)
    finally:
        if isinstance(policy, SamplesElsewhere):
            policy.close()


async def _open_run(
    config: RunConfig,
    policy: LivePolicy,
    environment: Environment | None,
    name: str | None,
    resumed: RunDir | None,
) -> OpenRun:
    """The run with what it decides before it begins."""
    note = ""
    if environment is not None and resumed is None and "n" not in config.eval.model_fields_set:
        config = config.model_copy(update={"eval": fitting_eval(config.eval, environment)})
    if environment is not None and resumed is None and config.may_warm_start:
        parts = _practice(policy, environment, config)
        solver = scripted_policy("reference", environment).parts(environment, config)
        config, note = await settle_warm_start(config, environment, parts, solver)
    run = resumed or create_run(config, name)
    return OpenRun(run, config, policy, environment, note=note)


async def _train_opened(opened: OpenRun, observe: Observe, *, is_new: bool) -> TrainedRun:
    """Hold the run, train it to its end."""
    run, config, policy, environment = opened.run, opened.config, opened.policy, opened.environment
    with run.hold(), no_empty_run(run, is_new=is_new):
        if not is_new and config != run.config():
            run.replace_config(config)
        with (
            observe(opened) as observer,
            trainer_for(config, run, policy, observer, environment) as trainer,
        ):
            told = [*odd_settings(config, detect_machine()), *shared_tasks(config, environment)]
            for sentence in told:
                observer.warned(sentence)
            work = trainer.run()
            result = await (run_and_close(environment, work) if environment else work)
    return TrainedRun(run=run, result=result, policy=policy)


def _check_offered(offered: Collection[Actions], config: RunConfig) -> None:
    """Raise `UserError` where the model's tokenizer cannot write actions; the model stays out."""
    from practicum.engine.models.loading import load_tokenizer
    from practicum.engine.sampling.completions import check_actions

    tokenizer = load_tokenizer(config.model.name) if offered else None
    for forms in offered:
        check_actions(forms, tokenizer, config.rollouts.max_tokens)


def train_run(config: RunConfig, observe: Observe, **options: Any) -> TrainedRun:
    """As `train_run_async`, from code that awaits nothing."""
    from practicum.engine.compute_thread import run_to_end

    return run_to_end(train_run_async(config, observe, **options))


@contextmanager
def trainer_for(
    config: RunConfig,
    run: RunDir,
    policy: LivePolicy,
    observer: TrainingObserver,
    environment: Environment | None = None,
) -> Iterator[Trainer]:
    """A trainer that goes on from the run's newest sound checkpoint, or starts at step 0.

    The caller holds the run's lock, and closes the environment where it gives one.
    """
    if config.acts:
        environment = environment or open_environment(config.env)
    curriculum = curriculum_of(config, environment, observer.warned)
    checkpoints = CheckpointStore(run.path, config.checkpoints.layout)
    checkpoints.recover()
    found = checkpoints.load_latest()
    for damaged in found.damaged:
        observer.warned(damaged.reason)
    state = LoopState(step=0, curriculum=curriculum.state())
    if found.checkpoint is not None:
        settings = learner_settings(config, config.stage_at(found.checkpoint.step))
        recoveries = read_state(found.checkpoint.path).recoveries
        policy.learner.retune(eased_settings(settings, recoveries))
        state = restore(found.checkpoint, policy.learner, curriculum)
    attempt = _begin_attempt(config, run, environment, state.step)
    stages = partial(build_stages, run, policy, environment, curriculum, observer)
    with (
        EventLog(run.metrics_path, attempt=attempt, from_step=state.step) as metrics,
        SqliteTraceStore(run.traces_path) as traces,
    ):
        traces.begin_attempt(attempt, state.step)
        practice = partial(_practice, policy, environment)

        async def evaluate_now(environment: Environment, step: int) -> EvalReport:
            keep = partial(keep_episodes, traces, attempt=attempt, step=step)
            acting, name = _handle(policy, config), f"{run.name} step {step}"
            evaluation = await evaluate_policy(
                acting, environment, config, observer.episode_done, name, run.path, on_groups=keep
            )
            metrics.check_place()
            run.save_evaluation(step, report_to_json(evaluation.report))
            metrics.append("eval", step=step, values=report_to_row(evaluation.report))
            return evaluation.report

        parts = TrainingParts(
            config=config,
            stages=stages(config),
            sampler=policy.sampler,
            learner=policy.learner,
            curriculum=curriculum,
            metrics=metrics,
            traces=traces,
            checkpoints=checkpoints,
            evaluate=partial(evaluate_now, environment) if environment and config.eval.n else None,
            earlier_reports={s: r for s, r in read_evaluations(run).items() if s <= state.step},
            observer=observer,
            end_imitation=partial(end_imitation, run, environment, practice, stages),
        )
        yield Trainer(parts, state)


def _begin_attempt(
    config: RunConfig, run: RunDir, environment: Environment | None, from_step: int
) -> int:
    """Record with the run what this start of it computes with; its number."""
    return run.begin_attempt(
        from_step=from_step,
        threads=thread_count(config),
        device=placement(config.model)[1],
        sandbox=sandbox_kind(environment) if environment is not None else "",
    ).attempt


async def ask(policy: LivePolicy, config: RunConfig, question: str) -> str:
    """What the policy answers to a question, with its likeliest tokens."""
    conversation = _handle(policy, config).converse(
        Task(id="question", env=config.env_name, split="heldout"), config.seed
    )
    completion = await conversation.complete([Message(role="user", content=question)])
    return str(completion.text)


async def play_tasks(
    policy: LivePolicy | Sequence[PolicyHandle], config: RunConfig, named: Sequence[str]
) -> list[Episode]:
    """The policy, or one for each task, at tasks of its environment, such as `3x + 7 = 16`."""
    handles = policy if isinstance(policy, Sequence) else [_handle(policy, config)] * len(named)
    environment = open_environment(config.env)

    async def play() -> list[Episode]:
        tasks = [choose_task(config.env, environment, one) for one in named]
        pairs = zip(handles, tasks, strict=True)
        return [await play_once(h, environment, t, config, config.seed) for h, t in pairs]

    return await run_and_close(environment, play())


def _handle(policy: LivePolicy, config: RunConfig) -> PolicyHandle:
    """The policy as it is evaluated."""
    params = sampling_params(config.rollouts, config.eval.temperature)
    return trained_policy(config.model.name, policy, params)


def _practice(
    policy: LivePolicy, environment: Environment | None, config: RunConfig
) -> RolloutParts:
    """What episodes are made with that are as warm as in practice, and teach nothing."""
    assert environment is not None
    params = sampling_params(config.rollouts, config.rollouts.temperature)
    return trained_policy(config.model.name, policy, params).parts(environment, config)
