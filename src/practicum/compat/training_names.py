"""`TrainingConfig`, `RLTrainer`, `GGUFExporter`, `OllamaDeployer`, `ExportPipeline`: thin names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from practicum.api import Run, train
from practicum.compat.pipeline import TrainingData, learns_from_traces, method_for_traces
from practicum.core.errors import UserError
from practicum.delivery.ollama import HostingProfile as OllamaHostingProfile
from practicum.workflows.exports import Export, create_in_ollama, export

__all__ = [
    "ExportPipeline",
    "GGUFExporter",
    "OllamaDeployer",
    "OllamaHostingProfile",
    "RLTrainer",
    "TrainingConfig",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """Hyperparameters in the words of other trainers."""

    base_model: str = "smollm2-135m"
    method: str = "grpo"
    env: str | None = None
    """Where the policy acts; not for methods that learn from traces."""
    num_steps: int = 30
    learning_rate: float = 2e-4
    batch_size: int = 8
    """Tasks of a step; examples of an update for methods that learn from traces."""
    num_generations: int = 8
    """Episodes of a group."""
    lora_r: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.0
    output_dir: str = "runs"
    seed: int = 0

    def as_options(self) -> dict[str, Any]:
        """The same as keys of a config."""
        lora = {"r": self.lora_r, "alpha": self.lora_alpha, "dropout": self.lora_dropout}
        algorithm: dict[str, Any] = {"name": self.method.lower(), "lr": self.learning_rate}
        options: dict[str, Any] = {
            "model": self.base_model,
            "steps": self.num_steps,
            "lora": {"preset": "full", **lora},
            "runs_dir": self.output_dir,
            "seed": self.seed,
        }
        if learns_from_traces(algorithm["name"]):
            return {**options, "algorithm": {**algorithm, "batch": self.batch_size}}
        rollouts = {"tasks_per_step": self.batch_size, "group_size": self.num_generations}
        return {**options, "algorithm": algorithm, "rollouts": rollouts}


class RLTrainer:
    """`practicum.train` with a `TrainingConfig`.

    Example:
        ```
        run = RLTrainer(TrainingConfig(base_model="tiny", env="math", num_steps=2)).train()
        ```
    """

    def __init__(self, config: TrainingConfig) -> None:
        self.config = config
        self.run: Run | None = None

    def train(self, dataset: TrainingData | str | Path | None = None, **options: Any) -> Run:
        """Train to the end.

        Args:
            dataset: What a method learns from that does not act: a store, a run, a dataset.
            options: Further keys of a config, and `name`, `quiet`.
        """
        learns_so = self.config.env is None and dataset is not None
        method = method_for_traces(self.config.method) if learns_so else self.config.method
        given = replace(self.config, method=method).as_options()
        if dataset is not None:
            path = dataset.path if isinstance(dataset, TrainingData) else dataset
            given["data"] = str(path)
        self.run = train(self.config.env, **{**given, **options})
        return self.run

    def save_model(self, folder: str | Path, merge: bool = False) -> Path:
        """The trained adapter, or with `merge` the whole model, in a folder."""
        if self.run is None:
            raise UserError("nothing is trained yet; call train() first")
        return export(self.run, "merged" if merge else "adapter", folder, n=10).folder


class GGUFExporter:
    """`practicum export --to gguf`.

    Args:
        policy: A run, a checkpoint or a model.
    """

    def __init__(self, policy: Run | str | Path) -> None:
        self.policy = policy

    def convert(
        self,
        quantization: str | Sequence[str] = (),
        folder: str | Path | None = None,
        **options: Any,
    ) -> Export:
        """A .gguf file, checked; `Q2_K` to `F16`, or what fits the memory if not said."""
        quants = [quantization] if isinstance(quantization, str) else list(quantization)
        return export(self.policy, "gguf", folder, quants=quants, **options)


class OllamaDeployer:
    """`practicum ollama create`."""

    def create_model(self, name: str, folder: str | Path) -> list[str]:
        """Make an export known to Ollama; a sentence says what to type where it is not here."""
        return create_in_ollama(folder, name)


class ExportPipeline:
    """Export for Ollama, and make it known there.

    Args:
        policy: A run, a checkpoint or a model.
        name: What it is called in Ollama.
    """

    def __init__(self, policy: Run | str | Path, name: str) -> None:
        self.policy = policy
        self.name = name

    def run(
        self, folder: str | Path, *, quantization: str = "", deploy: bool = True, **options: Any
    ) -> Export:
        """Write the .gguf file with its Modelfile, and create the model."""
        quants = [quantization] if quantization else []
        done = export(self.policy, "ollama", folder, quants=quants, **options)
        if deploy:
            create_in_ollama(done.folder, self.name)
        return done
