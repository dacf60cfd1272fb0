"""Models that scripts ask: one that is only prompted, and one that is trained."""

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, PrivateAttr
from typing_extensions import TypeVar

from practicum.compat.art.history import ModelFolder, as_groups, summarise
from practicum.compat.art.trajectories import TrainConfig, TrainResult
from practicum.core.errors import MissingExtra, UserError

if TYPE_CHECKING:
    from practicum.compat.art.trajectories import Trajectory, TrajectoryGroup

ConfigType = TypeVar("ConfigType", default=Any)
StateType = TypeVar("StateType", default=dict[str, Any])

NO_CLIENT = (
    "model {name!r} has no inference_base_url and inference_api_key, which a client needs; give "
    "both, or for a TrainableModel: await model.register(backend)"
)
PATIENCE_S = 1200.0
"""How long a client waits for an answer: requests wait while the model learns."""


@runtime_checkable
class Backend(Protocol):
    """What a model can be registered with: `LocalBackend`, or one of your own."""

    async def register(self, model: Any) -> None:
        """Know a model."""

    async def train(
        self, model: Any, trajectory_groups: Iterable[Any], **options: Any
    ) -> TrainResult:
        """One step."""

    async def close(self) -> None:
        """Stop serving all models."""


class Model(BaseModel, Generic[ConfigType, StateType]):
    """A model behind an OpenAI-compatible server, to be compared with the one that is trained.

    Example:
        ```
        judge = Model(
            name="qwen", project="demo",
            inference_base_url="http://localhost:8000/v1", inference_api_key="none",
        )
        ```
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str
    project: str
    entity: str | None = None
    id: str | None = None
    run_id: str | None = None
    config: Any = None
    trainable: bool = False
    inference_api_key: str | None = None
    inference_base_url: str | None = None
    inference_model_name: str | None = None
    """What the server calls it, where that is not `name`."""
    base_path: str = ".art"
    report_metrics: list[str] | None = None
    """Taken for the sake of ART's scripts; figures are kept in `history.jsonl` only."""

    _backend: Any = PrivateAttr(default=None)
    _client: Any = PrivateAttr(default=None)

    def backend(self) -> Any:
        """What it is registered with."""
        if self._backend is None:
            raise UserError(
                f"model {self.name!r} is not registered yet; first: await model.register(backend)"
            )
        return self._backend

    async def register(self, backend: Any) -> None:
        """Make a backend know the model."""
        self._backend = backend
        await backend.register(self)

    def openai_client(self) -> Any:
        """An `openai.AsyncOpenAI` that asks this model; always the same one."""
        if self._client is None:
            if self.inference_api_key is None or self.inference_base_url is None:
                raise UserError(NO_CLIENT.format(name=self.name))
            self._client = _openai_client(self.inference_base_url, self.inference_api_key)
        return self._client

    def litellm_completion_params(self, step: int | None = None) -> dict[str, Any]:
        """What `litellm.acompletion` needs to ask this model."""
        name = self.get_inference_name(step)
        return {
            "model": f"hosted_vllm/{name}" if self.trainable else name,
            "base_url": self.inference_base_url,
            "api_key": self.inference_api_key,
            "temperature": 1,
        }

    def get_inference_name(self, step: int | None = None) -> str:
        """What to give as `model=` in a request."""
        if self._backend is not None:
            name: str = self._backend._model_inference_name(self, step=step)
            return name
        base = self.inference_model_name or self.name
        return base if step is None else f"{base}@{step}"

    async def get_step(self) -> int:
        """Steps that were trained; 0 for a model that is only prompted."""
        return 0

    @property
    def folder(self) -> ModelFolder:
        """Where its history, state and checkpoints lie."""
        return ModelFolder(self.base_path, self.project, self.name)

    async def log(
        self,
        trajectories: "Iterable[Trajectory | BaseException] | Iterable[TrajectoryGroup] | None" = (
            None
        ),
        split: str = "val",
        *,
        metrics: dict[str, float] | None = None,
        step: int | None = None,
    ) -> None:
        """Keep trajectories, and a row of their mean figures and of `metrics`, with the model."""
        step = await self.get_step() if step is None else step
        figures: dict[str, float] = {}
        if trajectories is not None:
            groups = as_groups(trajectories)
            self.folder.add_trajectories(groups, split, step)
            figures = summarise(groups)
        if figures or metrics:
            self.folder.add_row({**figures, **(metrics or {})}, split, step)

    def read_state(self) -> dict[str, Any] | None:
        """What the script kept with the model; None where it kept nothing."""
        return self.folder.read_state()

    def overwrite_state(self, state: dict[str, Any]) -> None:
        """Keep values with the model in place of those that are there."""
        self.folder.write_state(state)

    def write_state(self, state: dict[str, Any]) -> None:
        """An older name of `overwrite_state`."""
        warnings.warn("use overwrite_state or merge_state", DeprecationWarning, stacklevel=2)
        self.overwrite_state(state)

    def merge_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Add values to those that are there, dictionaries within them too."""
        merged = _merged(self.read_state() or {}, state)
        self.overwrite_state(merged)
        return merged


class TrainableModel(Model[ConfigType, StateType], Generic[ConfigType, StateType]):
    """A base model with an adapter that is trained.

    Example:
        ```
        model = TrainableModel(name="agent-1", project="demo", base_model="smollm2-135m")
        await model.register(LocalBackend())
        client = model.openai_client()
        ```
    """

    base_model: str
    """A known name (`practicum models`), a hub id, a folder or a .gguf file."""
    trainable: bool = True

    _internal_config: Any = PrivateAttr(default=None)

    def __init__(self, *words: Any, _internal_config: Any = None, **fields: Any) -> None:
        if words:
            raise UserError(
                "ART's TrainableModel is given its fields by name: TrainableModel(name=..., "
                "project=..., base_model=...); TrainableModel(NAME, peft_config) is in "
                "practicum.compat"
            )
        super().__init__(**fields)
        self._internal_config = _internal_config

    async def register(self, backend: Any, _openai_client_config: Any = None) -> None:
        """Load the model and its newest checkpoint, and serve it to `openai_client()`."""
        await super().register(backend)
        url, key = await backend._prepare_backend_for_training(self, _openai_client_config)
        self._client = None
        self.inference_base_url, self.inference_api_key = url, key
        self.inference_model_name = backend._model_inference_name(self)

    async def get_step(self) -> int:
        """Steps that were trained, those with nothing to learn from included."""
        step: int = await self.backend()._get_step(self)
        return step

    async def train(
        self,
        trajectory_groups: Iterable[Any],
        config: TrainConfig | None = None,
        _config: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> TrainResult:
        """One step: update the adapter, save it, and log the groups as `train`.

        Args:
            trajectory_groups: What to learn from; its choices came through `openai_client()`.
            config: Learning rate and what leaving the base model costs.
            _config: Further options, as `LocalBackend.train` takes them.
            verbose: Taken for the sake of ART's scripts; has no effect.
        """
        groups = list(trajectory_groups)
        told = config.model_dump(exclude_unset=True) if config is not None else {}
        options = {**told, **(_config or {})}
        result: TrainResult = await self.backend().train(self, groups, **options)
        await self.log(groups, split="train", metrics=result.metrics, step=result.step)
        return result

    async def delete_checkpoints(self, best_checkpoint_metric: str = "val/reward") -> None:
        """Remove all checkpoints but the newest and the one with the best figure."""
        keep = [await self.get_step()]
        best = self.folder.best_step(best_checkpoint_metric)
        if best is None:
            print(
                f"no {best_checkpoint_metric!r} was logged for {self.name!r}: only the newest "
                "checkpoint is kept"
            )
        else:
            keep.append(best)
        await self.backend()._delete_checkpoint_files(self, keep)

    async def train_sft(self, *_: Any, **__: Any) -> None:
        """Not offered here: Practicum learns from recorded conversations by a config."""
        raise UserError(
            "train_sft is not part of practicum.compat.art; give the conversations to "
            "practicum.AgenticTrainer(model, method='sft') instead"
        )


def _openai_client(url: str, key: str) -> Any:
    try:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient
    except ImportError:
        raise MissingExtra.for_extra("art", "openai_client()") from None
    return AsyncOpenAI(
        base_url=url,
        api_key=key,
        timeout=PATIENCE_S,
        http_client=DefaultAsyncHttpxClient(timeout=PATIENCE_S, trust_env=False)
        if "//127.0.0.1" in url
        else None,
    )


def _merged(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for key, value in more.items():
        there = merged.get(key)
        both = isinstance(there, dict) and isinstance(value, dict)
        merged[key] = _merged(there or {}, value) if both else value
    return merged
