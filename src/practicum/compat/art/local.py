"""The backend that trains on this machine, in this process.

A choice is only a pointer: the gateway numbers every turn it answers, and the choice of the answer
carries that number. Tokens, log-probabilities and masks are those that the gateway kept; whatever
the choice says of them is not looked at.
"""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from practicum.compat.art.history import ModelFolder
from practicum.compat.art.trajectories import LEARNING_RATE, LocalTrainResult, is_choice
from practicum.core.errors import UserError
from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.core.trace import Node, Trace

if TYPE_CHECKING:
    from practicum.assemble.shared_policy import LearnedStep, SharedPolicy
    from practicum.core.config.run_config import RunConfig

TURN_FIELD = "practicum_turn"
"""What the gateway calls a turn's number in the choices of its answers."""


class CapturedTurns(Protocol):
    """Every turn the gateway answered since the weights last changed, by its number."""

    def path(self, number: int) -> Sequence[Node] | None:
        """The nodes from the root to a turn; None where there is no such turn."""
        ...

    def is_stale(self, number: int) -> bool:
        """Whether it was answered by weights of before the last update."""
        ...


@dataclass(slots=True)
class _Tree:
    """Paths joined where their tokens are the same."""

    nodes: list[Node] = field(default_factory=list)
    _children: dict[tuple[int | None, tuple[int, ...]], int] = field(default_factory=dict)

    def add(self, path: Sequence[Node]) -> None:
        """Add a path whose last node was sampled for this trajectory.

        Turns before it may have been sampled for another one that began alike; they were given to
        this one, and carry no loss unless they are its own as well.
        """
        at: int | None = None
        for place, node in enumerate(path):
            key = (at, node.token_ids)
            if key not in self._children:
                self._children[key] = len(self.nodes)
                self.nodes.append(replace(node, parent=at, sampled=None))
            at = self._children[key]
            if place == len(path) - 1 and self.nodes[at].sampled is None:
                self.nodes[at] = replace(self.nodes[at], sampled=node.sampled)


def link_groups(groups: Iterable[Any], turns: CapturedTurns, step: int) -> list[Group]:
    """Groups of captured episodes, one for each group that has trajectories.

    Raises:
        UserError: for a choice that this model did not sample, or sampled before it last learned.
    """
    found = []
    for number, group in enumerate(groups):
        label = f"art/{step}/{number}"
        task = Task(id=label, env="art", split="train")
        episodes = tuple(
            _episode(trajectory, turns, f"{label}/{place}", task)
            for place, trajectory in enumerate(group.trajectories)
        )
        if episodes:
            found.append(Group(task=task, episodes=episodes))
    return found


def _episode(trajectory: Any, turns: CapturedTurns, label: str, task: Task) -> Episode:
    tree = _Tree()
    for number in _turns_of(trajectory, label):
        path = turns.path(number)
        if path is None:
            raise UserError(_stale(label) if turns.is_stale(number) else _foreign(label))
        tree.add(path)
    trace = Trace(id=label, task_id=task.id, env=task.env, nodes=tuple(tree.nodes))
    score = Score(components={"reward": float(trajectory.reward)})
    return Episode(trace=trace, outcome=None, score=score)


def _turns_of(trajectory: Any, label: str) -> list[int]:
    """The numbers of its turns in the order in which they were sampled, each once."""
    histories = [trajectory, *trajectory.additional_histories]
    entries = [entry for history in histories for entry in history.messages_and_choices]
    numbers = set[int]()
    for entry in entries:
        if is_choice(entry):
            number = turn_number(entry)
            if number is None:
                raise UserError(_foreign(label))
            numbers.add(number)
    return sorted(numbers)


def turn_number(choice: Any) -> int | None:
    """The number that the gateway gave to the turn of a choice; None where it gave none.

    Some clients put fields they do not know into `provider_specific_fields`.

    >>> turn_number({"index": 0, "message": {}, "practicum_turn": 7})
    7
    """

    def field_of(name: str) -> Any:
        return choice.get(name) if isinstance(choice, Mapping) else getattr(choice, name, None)

    found, others = field_of(TURN_FIELD), field_of("provider_specific_fields")
    if found is None and isinstance(others, Mapping):
        found = others.get(TURN_FIELD)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _foreign(label: str) -> str:
    return (
        f"trajectory {label} holds a choice that this model's openai_client() did not return, so "
        "its tokens are not known; add answers of other models as plain messages: "
        "{'role': 'assistant', 'content': ...}"
    )


def _stale(label: str) -> str:
    return (
        f"trajectory {label} was sampled before the model last learned, so its tokens are not the "
        "present model's; gather again after each train"
    )


LOSSES = {"grpo": "grpo", "ppo": "grpo", "cispo": "cispo"}
"""ART's names of losses; its `ppo` is the clipped ratio that GRPO has, without a value head."""

LEVELS = {"token": None, "sequence": "gspo", "geometric_average": "gspo"}
"""What a ratio is taken of, and the method that takes it so where it is not the loss's own."""

INERT: dict[str, Any] = {
    "verbose": ...,
    "adam_params": None,
    "advantage_balance": 0.0,
    "allow_training_without_logprobs": False,
    "grad_accumulation_sequences": ...,
    "kimi_k2_tau": None,
    "kl_penalty_reference_step": None,
    "kl_ref_adapter_path": None,
    "logprob_calculation_chunk_size": ...,
    "loss_fn_config": None,
    "mask_prob_ratio": False,
    "max_negative_advantage_importance_sampling_weight": None,
    "num_trajectories_learning_rate_multiplier_power": 0.0,
    "packed_sequence_length": ...,
    "plot_tensors": False,
    "precalculate_logprobs": ...,
    "save_checkpoint": True,
    "scale_learning_rate_by_reward_std_dev": False,
    "truncated_importance_sampling": ...,
}
"""Options of ART that are taken at the value given, where they change nothing; `...` is any value:
these are about memory, packing and sampler mismatch, which are dealt with otherwise here."""

TAKEN = (
    "learning_rate",
    "algorithm",
    "loss_fn",
    "importance_sampling_level",
    "normalize_advantages",
    "scale_rewards",
    "epsilon",
    "epsilon_high",
    "kl_penalty_coef",
    "beta",
)


def read_options(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The `algorithm` of a config: the options of a call over what was chosen before.

    Args:
        options: As ART's `backend.train` and `TrainConfig` name them.
        chosen: An `algorithm` as a config names it.
    """
    from practicum.core.config.algorithm_config import AlgorithmConfig

    _refuse_unknown(options)
    algorithm: dict[str, Any] = {"name": "grpo", **chosen}
    if "algorithm" in options:
        kept = {key: v for key, v in chosen.items() if key in AlgorithmConfig.model_fields}
        algorithm = {**kept, "name": options["algorithm"]}
    if "loss_fn" in options:
        algorithm["name"] = _one_of(LOSSES, "loss_fn", options["loss_fn"])
    level = _one_of(
        LEVELS, "importance_sampling_level", options.get("importance_sampling_level", "token")
    )
    algorithm["name"] = level or algorithm["name"]
    if not options.get("normalize_advantages", True) or not options.get("scale_rewards", True):
        algorithm["scale"] = "none"
    for theirs, ours in (("epsilon", "clip"), ("epsilon_high", "clip_high")):
        if options.get(theirs) is not None:
            algorithm[ours] = options[theirs]
    if "clip_high" in algorithm and algorithm["name"] == "grpo":
        algorithm["name"] = "dapo"  # GRPO with bounds of its own on either side
    if options.get("kl_penalty_coef"):
        algorithm |= {"kl": options["kl_penalty_coef"], "kl_in": "reward"}
    elif options.get("beta"):
        algorithm |= {"kl": options["beta"], "kl_in": "loss"}
    rate = options.get("learning_rate", algorithm.get("lr", LEARNING_RATE))
    return {**algorithm, "lr": rate}


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in TAKEN:
            continue
        if name not in INERT:
            raise UserError(
                f"train has no option {name!r}; it takes {', '.join(TAKEN)}, and of ART's others "
                "those that docs/art.md lists"
            )
        if INERT[name] is not ... and value not in (None, INERT[name]):
            raise UserError(
                f"train cannot do {name}={value!r}, which only ART does; leave it out, or look in "
                "docs/art.md for what is covered"
            )


def _one_of(known: Mapping[str, Any], option: str, value: Any) -> Any:
    if value not in known:
        raise UserError(f"{option}={value!r} is not known; choose one of {', '.join(known)}")
    return known[value]


PEFT = {"r": "r", "lora_alpha": "alpha", "lora_dropout": "dropout", "target_modules": "targets"}
TRAINER = {"learning_rate": "lr", "max_grad_norm": "max_grad_norm", "weight_decay": "weight_decay"}


def model_words(internal: Mapping[str, Any] | None) -> dict[str, Any]:
    """What ART's `_internal_config` says of the adapter and the optimizer, as a config says it.

    Its engine and initialisation arguments are about vLLM and Unsloth, which are not used here.

    >>> model_words({"peft_args": {"r": 4, "lora_alpha": 8}, "engine_args": {"max_num_seqs": 4}})
    {'lora': {'r': 4, 'alpha': 8}}
    """
    given = internal or {}
    words: dict[str, Any] = {}
    for part, names, ours in (("peft_args", PEFT, "lora"), ("trainer_args", TRAINER, "algorithm")):
        found = {names[key]: v for key, v in (given.get(part) or {}).items() if key in names}
        if found:
            words[ours] = found
    return words


MAX_TOKENS = 512
"""What a turn may have where a request does not say."""

CLIENTS = ("_client", "_openai_client")
"""Where a model of ours, and one of ART's, keeps its client."""

METHODS = ("grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "reinforce++")
"""Methods that learn from groups of rewards alone."""


class LocalBackend:
    """Samples and learns in this process, on the CPU or a GPU, with one copy of the weights.

    It is also what ART's own `TrainableModel.register` takes.

    Args:
        path: Folder that holds projects; a model's own `base_path` unless given.
        overrides: Words as `practicum train` takes them, such as `lora.r=8`, `seed=1`,
            `model.device=cpu` or `algorithm.name=dr_grpo`.
        in_process: Taken for the sake of ART's scripts; it always is.
        gpu_cost_per_hour_usd: Taken for the sake of ART's scripts; has no effect.
    """

    def __init__(
        self,
        *,
        path: str | os.PathLike[str] | None = None,
        overrides: Sequence[str] = (),
        in_process: bool = True,
        gpu_cost_per_hour_usd: float | None = None,
    ) -> None:
        self._path = None if path is None else os.fspath(path)
        self._overrides = list(overrides)
        self._served: dict[tuple[str, str], SharedPolicy] = {}
        self._models: list[Any] = []

    async def register(self, model: Any) -> None:
        """Know a model; where this backend has a path, the model's folder is there."""
        if self._path is not None:
            model.base_path = self._path
        self._models.append(model)

    async def _prepare_backend_for_training(self, model: Any, config: Any) -> tuple[str, str]:
        """Load the model and serve it: the address and the key for OpenAI's client."""
        from practicum.assemble.shared_policy import SharedPolicy

        key = (model.project, model.name)
        if key in self._served:
            raise UserError(
                f"model {model.name!r} of {model.project!r} is registered already; use that one, "
                "or give this one another name"
            )
        told = self._config(model, {})
        folder = ModelFolder(model.base_path, model.project, model.name).path
        policy = SharedPolicy(told, folder)
        try:
            endpoint = await policy.serve(model.name)
        except BaseException:
            await policy.close()
            raise
        self._served[key] = policy
        return f"{endpoint.url}/v1", endpoint.key

    def _config(self, model: Any, options: Mapping[str, Any]) -> "RunConfig":
        """A run's config: the model's own words, above them the backend's, above them a call's."""
        from practicum.core.config.parse_config import apply_overrides, build_config

        words = model_words(getattr(model, "_internal_config", None))
        values: dict[str, Any] = {
            "model": model.base_model,
            "rollouts": {"max_tokens": MAX_TOKENS},
            **words,
        }
        given = apply_overrides(values, self._overrides)
        chosen = given.get("algorithm", {})
        chosen = {"name": chosen} if isinstance(chosen, str) else chosen
        algorithm = read_options(options, chosen)
        if algorithm["name"] not in METHODS:
            raise UserError(
                f"algorithm {algorithm['name']!r} does not learn from rewards of groups alone; "
                f"choose one of {', '.join(METHODS)}"
            )
        return build_config({**given, "algorithm": algorithm}, "LocalBackend")

    def _policy(self, model: Any) -> "SharedPolicy":
        found = self._served.get((model.project, model.name))
        if found is None:
            raise UserError(
                f"model {model.name!r} is not registered with this backend; first: "
                "await model.register(backend)"
            )
        return found

    def _model_inference_name(self, model: Any, step: int | None = None) -> str:
        """What requests call the model; only its newest step is served."""
        served = self._served.get((model.project, model.name))
        if step is not None and served is not None and step != served.step:
            raise UserError(
                f"model {model.name!r} is at step {served.step} and step {step} is not served; "
                "leave step out"
            )
        return str(model.name)

    async def _get_step(self, model: Any) -> int:
        return self._policy(model).step

    async def train(
        self, model: Any, trajectory_groups: Iterable[Any], **options: Any
    ) -> LocalTrainResult:
        """One step of learning from groups, whose adapter is saved; figures in `metrics`.

        Groups whose rewards are all equal have nothing to compare and are skipped, which is said.
        The step counts also where that is all of them.

        Args:
            model: A model that is registered here.
            trajectory_groups: What to learn from; its choices came through `openai_client()`.
            options: `learning_rate`, `algorithm` or `loss_fn`, `epsilon`, `kl_penalty_coef` and
                others; docs/art.md lists them.
        """
        policy = self._policy(model)
        groups = list(trajectory_groups)
        config = self._config(model, options)
        learned = await policy.learn(lambda turns, step: link_groups(groups, turns, step), config)
        _say_what_was_skipped(learned, policy.step)
        return LocalTrainResult(
            step=policy.step,
            metrics=_figures(learned, groups),
            checkpoint_path=str(policy.checkpoints.load(policy.step).path),
        )

    async def _delete_checkpoint_files(self, model: Any, steps_to_keep: list[int]) -> None:
        checkpoints = self._policy(model).checkpoints
        for step in set(checkpoints.steps()) - set(steps_to_keep):
            folder = checkpoints.load(step).path
            # Out of sight first: half of a folder would look like a damaged checkpoint.
            hidden = folder.with_name(f".{folder.name}.gone-{os.getpid()}")
            folder.rename(hidden)
            shutil.rmtree(hidden)

    def _train_sft(self, *_: Any, **__: Any) -> AsyncIterator[dict[str, float]]:
        raise UserError(
            "train_sft is not part of Practicum's backend; give the conversations to "
            "practicum.AgenticTrainer(model, method='sft') instead"
        )

    async def close(self) -> None:
        """Stop serving all models, and close their clients."""
        served, self._served = list(self._served.values()), {}
        models, self._models = self._models, []
        for model in models:
            for name in CLIENTS:
                if (client := getattr(model, name, None)) is not None:
                    await client.close()
                    setattr(model, name, None)
        for policy in served:
            await policy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop serving all models as soon as the event loop goes on."""
        for policy in self._served.values():
            policy.stop()
        self._served = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


def _say_what_was_skipped(learned: "LearnedStep", step: int) -> None:
    flat = learned.groups - learned.trained_groups
    if not learned.groups:
        print(f"step {step}: there are no trajectories to learn from", file=sys.stderr)
    elif flat:
        print(
            f"step {step}: {flat} of {learned.groups} groups have nothing to compare, because "
            "their rewards are all equal, and were skipped",
            file=sys.stderr,
        )
    if learned.report is not None and learned.report.memory_notice:
        print(f"step {step}: {learned.report.memory_notice}", file=sys.stderr)


def _figures(learned: "LearnedStep", groups: Sequence[Any]) -> dict[str, float]:
    """What a step came to, under the names that ART gives such figures."""
    figures = {
        "data/step_num_groups_submitted": float(len(groups)),
        "data/step_num_groups_trainable": float(learned.trained_groups),
        "data/step_num_trajectories": float(sum(len(group.trajectories) for group in groups)),
        "time/step_trainer_s": learned.seconds,
    }
    report = learned.report
    if report is not None:
        figures |= {
            "loss/train": report.loss,
            "loss/grad_norm": report.grad_norm,
            "loss/entropy": report.entropy,
            "loss/clip_share": report.clip_share,
            "loss/logprob_gap": report.logprob_gap,
            "loss/largest_gap": report.largest_gap,
            "data/step_trainer_tokens": float(report.tokens),
            "data/update_applied": float(report.applied),
            "data/out_of_memory": float(report.out_of_memory),
            "data/micro_batch_splits": float(report.micro_batch_splits),
            "data/gradient_checkpointing": float(report.gradient_checkpointing),
        }
        if report.kl_to_base is not None:
            figures["loss/kl_to_base"] = report.kl_to_base
    return figures
