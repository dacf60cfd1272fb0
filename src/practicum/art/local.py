"""The backend that trains on this machine, in this process."""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from practicum.art.history import ModelFolder
from practicum.art.options import model_words, read_options
from practicum.art.types import LocalTrainResult
from practicum.core.errors import UserError

if TYPE_CHECKING:
    from practicum.assemble.shared_policy import LearnedStep, SharedPolicy
    from practicum.core.config import RunConfig

__all__ = ["LocalBackend"]

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
        from practicum.core.config import apply_overrides, build_config

        words = model_words(getattr(model, "_internal_config", None))
        values: dict[str, Any] = {
            "env": "art",
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
        from practicum.art.linking import link_groups

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop serving all models as soon as the event loop goes on."""
        for policy in self._served.values():
            policy.stop()
        self._served = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        }
        if report.kl_to_base is not None:
            figures["loss/kl_to_base"] = report.kl_to_base
    return figures
