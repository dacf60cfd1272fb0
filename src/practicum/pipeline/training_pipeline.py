"""From an agent's traces to a trained adapter in one call."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.assemble import TrainedRun, train_run
from practicum.core.config import RunConfig, apply_overrides, build_config
from practicum.core.errors import UserError
from practicum.core.report import EvalReport, Interval
from practicum.pipeline.lines import TrainingLines
from practicum.pipeline.methods import check_method, learns_from_traces
from practicum.store import CheckpointStore, read_metrics

__all__ = ["PipelineOptions", "TrainingPipeline"]

RESULTS = "pipeline_results.json"
STORE = Path("traces.sqlite")
"""Where `practicum.record` and `practicum traces import` put traces unless told."""
WARM_START = "sft"
"""What an agent's good traces are learned by, before a method that learns from acting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """What one call of the pipeline is told."""

    traces: tuple[str, ...] = ()
    """Files or folders that are imported first."""
    env: str | Mapping[str, Any] | None = None
    where: str = ""
    reward: Mapping[str, Any] | str | None = None
    steps: int = 30
    heldout: float = 0.1


class TrainingPipeline:
    """Everything from an agent's traces to an adapter: what `practicum train` does with a config.

    Example:
        ```
        pipeline = TrainingPipeline(agent_name="isaa", base_model="tiny", method="kto")
        results = pipeline.run_full_pipeline(traces="examples/traces")
        print(results["checkpoint"], results["heldout"])
        ```

    Args:
        agent_name: What the run is called, with a number where there is one already.
        base_model: A known name, a hub id, a folder or a .gguf file.
        method: `sft`, `weighted_sft`, `kto` or `dpo` learn from traces; `grpo`, `ppo` and the
            others act in an environment, after `sft` on the good traces where there are any.
        runs_dir: Folder that holds runs.
        store: The agent's traces; what is imported goes there.
    """

    def __init__(
        self,
        agent_name: str,
        base_model: str = "smollm2-135m",
        method: str = "kto",
        *,
        runs_dir: str | Path = "runs",
        store: str | Path = STORE,
    ) -> None:
        self.agent_name = agent_name
        self.base_model = base_model
        self.method = check_method(method)
        self.runs_dir = Path(runs_dir)
        self.store = Path(store)

    def run_full_pipeline(
        self,
        traces: str | Path | Sequence[str | Path] = (),
        *,
        env: str | Mapping[str, Any] | None = None,
        deploy_ollama: bool = False,
        overrides: Sequence[str] = (),
        quiet: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """Import, score, build, train, evaluate; what came of it, also in `pipeline_results.json`.

        Args:
            traces: Files or folders to import first; without any the store is used as it is.
            env: Where the policy acts and is evaluated; without one it learns from traces alone.
            deploy_ollama: Asks for an export, which this version cannot make yet: the results say
                so, and the training is done all the same.
            overrides: Words as `practicum train` takes them, such as `algorithm.lr=1e-4`.
            quiet: Whether nothing is said on standard error.
            options: `steps`, `heldout`, `where` and `reward`, as in a config.
        """
        paths = [traces] if isinstance(traces, str | Path) else traces
        try:
            asked = PipelineOptions(traces=tuple(map(str, paths)), env=env, **options)
        except TypeError as error:
            known = "steps, heldout, where, reward"
            raise UserError(f"run_full_pipeline: {error}; it takes {known} besides") from None
        config = self._config(asked, overrides)
        lines = TrainingLines(steps=config.steps, is_quiet=quiet)
        trained = train_run(config, lines, name=_free_name(self.runs_dir, self.agent_name))
        results = self._results(config, trained, lines)
        if deploy_ollama:
            results["deployment"] = _no_export(results["checkpoint"])
            lines.warned(results["deployment"]["reason"])
        path = trained.run.path / RESULTS
        path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        return results

    def _config(self, asked: PipelineOptions, overrides: Sequence[str]) -> RunConfig:
        values: dict[str, Any] = {
            "env": asked.env or "none",
            "model": self.base_model,
            "runs_dir": str(self.runs_dir),
        }
        offline = learns_from_traces(self.method)
        if not offline and asked.env is None:
            raise UserError(
                f"{self.method} learns from episodes it makes; give env='shell' or another "
                "environment, or choose method='kto', which learns from traces alone"
            )
        has_traces = bool(asked.traces) or self.store.exists()
        if offline and not has_traces:
            raise UserError(
                f"there are no traces of {self.agent_name!r}: {self.store} is not there; record "
                "some with practicum.record, or give traces='FILE'"
            )
        if offline:
            values |= {"steps": asked.steps, "algorithm": self.method, "data": self._data(asked)}
        elif has_traces:
            warm = {"steps": asked.steps, "algorithm": WARM_START, "data": self._data(asked)}
            values["stages"] = [warm, {"steps": asked.steps, "algorithm": self.method}]
        else:
            values |= {"steps": asked.steps, "algorithm": self.method}
        return build_config(apply_overrides(values, list(overrides)), "run_full_pipeline")

    def _data(self, asked: PipelineOptions) -> dict[str, Any]:
        data = {
            "source": str(self.store),
            "imports": list(asked.traces),
            "where": asked.where,
            "heldout": asked.heldout,
        }
        return data if asked.reward is None else {**data, "reward": asked.reward}

    def _results(
        self, config: RunConfig, trained: TrainedRun, lines: TrainingLines
    ) -> dict[str, Any]:
        rows, _ = read_metrics(trained.run.metrics_path)
        steps = [row.values for row in rows if row.kind == "step"]
        found = CheckpointStore(trained.run.path).load_latest().checkpoint
        return {
            "agent_name": self.agent_name,
            "base_model": self.base_model,
            "method": self.method,
            "run": str(trained.run.path),
            "checkpoint": str(found.path) if found else None,
            "interrupted": trained.result.interrupted,
            "stages": [stage.algorithm.name for stage in config.all_stages],
            "losses": [step.get("loss") for step in steps],
            "heldout": _heldout([dict(step) for step in steps]),
            "evaluations": {
                str(step): _evaluation(report) for step, report in trained.result.reports.items()
            },
            "warnings": list(lines.warnings),
            "deployment": None,
        }


def _heldout(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of held-out rows: before a stage and last."""
    found: dict[str, Any] = {}
    for step in steps:
        found |= {name: value for name, value in step.items() if name.startswith("heldout_")}
    return found


def _evaluation(report: EvalReport) -> dict[str, Any]:
    def interval(part: Interval) -> dict[str, Any]:
        return {"value": part.value, "low": part.low, "high": part.high, "n": part.n}

    return {"success": interval(report.success), "reward": interval(report.reward)}


def _no_export(checkpoint: str | None) -> dict[str, Any]:
    return {
        "done": False,
        "reason": (
            "exporting to Ollama comes with a later version of Practicum; the adapter is in "
            f"{checkpoint}, and until then is loaded with: "
            f"peft.PeftModel.from_pretrained(model, {checkpoint!r})"
        ),
    }


def _free_name(runs_dir: Path, agent: str) -> str:
    """The agent's name, with a number where a run has it already."""
    name, number = agent, 1
    while (runs_dir / name).exists():
        number += 1
        name = f"{agent}-{number}"
    return name
