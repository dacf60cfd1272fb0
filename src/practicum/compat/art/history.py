"""What is kept of a model in its folder, beside its checkpoints.

    BASE_PATH/PROJECT/models/NAME/
        checkpoints/step_1/            the adapter after one step, and what a resume needs
        history.jsonl                  a row of figures for each call of `log`
        state.json                     what the script itself keeps
        trajectories/train/0001.jsonl  a group a line, as `practicum traces import` reads it

Nothing in it but `state.json` is ever written anew.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from practicum.compat.art.trajectories import Trajectory, TrajectoryGroup
from practicum.core.private_files import make_private_folder, owner_only

SECTIONS = frozenset({"reward", "loss", "throughput", "costs", "time", "data"})
SPLITS = frozenset({"train", "val", "test"})


class ModelFolder:
    """The folder of one model."""

    def __init__(self, base_path: str | Path, project: str, name: str) -> None:
        self.path = Path(base_path) / project / "models" / name

    def read_state(self) -> dict[str, Any] | None:
        """What was written last; None where nothing was."""
        file = self.path / "state.json"
        if not file.is_file():
            return None
        state: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return state

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Replace what is there."""
        self.path.mkdir(parents=True, exist_ok=True)
        staged = self.path / ".state.json.tmp"
        staged.write_text(json.dumps(state, indent=2), encoding="utf-8")
        staged.replace(self.path / "state.json")

    def add_row(self, metrics: Mapping[str, float], split: str, step: int) -> None:
        """Append figures to the history; those that are no numbers are left out."""
        self.path.mkdir(parents=True, exist_ok=True)
        figures = {_with_split(key, split): float(value) for key, value in metrics.items()}
        row = {
            **{key: value for key, value in figures.items() if math.isfinite(value)},
            "training_step": step,
            "step": step,
            "recorded_at": datetime.now().astimezone().isoformat(),
        }
        with (self.path / "history.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        """The history so far; a line that was torn when a process died is passed over."""
        file = self.path / "history.jsonl"
        found: list[dict[str, Any]] = []
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def best_step(self, metric: str) -> int | None:
        """The step with the highest mean of a figure; the later of equals, None without any."""
        by_step: dict[int, list[float]] = {}
        for row in self.rows():
            if isinstance(row.get(metric), int | float):
                by_step.setdefault(int(row["step"]), []).append(float(row[metric]))
        return max(by_step, key=lambda step: (fmean(by_step[step]), step), default=None)

    def add_trajectories(self, groups: Sequence[TrajectoryGroup], split: str, step: int) -> None:
        """Append groups to those of their split and step."""
        folder = self.path / "trajectories" / split
        make_private_folder(folder)
        lines = folder / f"{step:04d}.jsonl"
        with open(lines, "a", encoding="utf-8", opener=owner_only) as file:
            for group in groups:
                file.write(group.model_dump_json(serialize_as_any=True) + "\n")


def _with_split(key: str, split: str) -> str:
    first, _, rest = key.partition("/")
    is_named = bool(rest) and first in SECTIONS | SPLITS and split in SPLITS
    return key if is_named else f"{split}/{key}"


def as_groups(items: Iterable[Any]) -> list[TrajectoryGroup]:
    """Groups as they are; trajectories and exceptions as one group.

    Groups are told by what they hold, so that those of ART itself are groups too.
    """
    found = list(items)
    if all(hasattr(item, "trajectories") for item in found):
        return found
    if all(isinstance(item, Trajectory | BaseException) for item in found):
        return [TrajectoryGroup(trajectories=found)]
    kinds = ", ".join(sorted({type(item).__name__ for item in found}))
    raise TypeError(f"groups or trajectories are expected, and these are {kinds}")


def summarise(groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
    """Means over all trajectories: the reward, and what they measured themselves."""
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    failed = sum(len(group.exceptions) for group in groups)
    count = len(trajectories) + failed
    figures: dict[str, list[float]] = {}
    for trajectory in trajectories:
        figures.setdefault("reward", []).append(float(trajectory.reward))
        for key, value in trajectory.metrics.items():
            figures.setdefault(key, []).append(float(value))
    for group in groups:
        for key, value in group.metrics.items():
            figures.setdefault(f"group_{key}", []).append(float(value))
    spreads = [pstdev([float(t.reward) for t in g.trajectories]) for g in groups if len(g) > 1]
    return {
        **{key: fmean(values) for key, values in figures.items()},
        "exception_rate": failed / count if count else 0.0,
        **({"reward_std_dev": fmean(spreads)} if spreads else {}),
    }
