"""What a stage over recorded examples learns from."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from practicum.assemble.players import scripted_player
from practicum.core.config import DataConfig, RunConfig
from practicum.core.errors import UserError
from practicum.core.example import Example
from practicum.core.interfaces import Environment
from practicum.core.sample import Episode
from practicum.core.trace import Trace
from practicum.datasets import tokenise
from practicum.rollouts import run_groups
from practicum.store import RunDir, SqliteTraceStore
from practicum.training import Row, episode_rows, example_row, units

if TYPE_CHECKING:
    from practicum.policy.torch_policy import TorchPolicy

__all__ = ["load_units", "reference_episodes"]

REFERENCE = "reference"
REFERENCE_TASKS = 500
TOGETHER = 32
"""Solutions played at the same time."""


async def load_units(
    view: RunConfig, kind: str, run: RunDir, policy: "TorchPolicy", environment: Environment
) -> list[tuple[Row, ...]]:
    """The rows of a stage, what belongs together in one tuple."""
    data = view.data
    assert data is not None
    if data.source == REFERENCE:
        episodes: Iterable[Episode] = await reference_episodes(view, environment, data)
    else:
        episodes = stored_episodes(data)
    wanted = [e for e in episodes if e.is_usable and _is_wanted(e, view.algorithm.name)]
    rows = [row for e in islice(wanted, data.n or None) for row in _rows(e, view, policy)]
    found = units(rows, kind)
    if not found:
        raise UserError(
            f"{data.source} has nothing that {view.algorithm.name} could learn from"
            + (f" where {data.where}" if data.where else "")
        )
    return found


def _is_wanted(episode: Episode, method: str) -> bool:
    """`sft` learns from what went well; others are told how well it went."""
    success = episode.outcome.success if episode.outcome else None
    return success is True if method == "sft" else True


def _rows(episode: Episode, view: RunConfig, policy: "TorchPolicy") -> list[Row]:
    success = episode.outcome.success if episode.outcome else None
    if _is_own(episode.trace, view.model.name):
        return episode_rows(episode, success)
    example = _example(episode, success)
    return [example_row(example, tokenise(example, policy.codec, model=view.model.name))]


def _is_own(trace: Trace, model: str) -> bool:
    """Whether the tokens are the model's own, with an adapter or without."""
    return trace.has_logprobs and trace.model.split(" + ")[0] == model


def _example(episode: Episode, success: bool | None) -> Example:
    trace = episode.trace
    return Example(
        id=trace.id,
        task_id=trace.task_id,
        messages=tuple(trace.messages()),
        tools=trace.tools,
        env=trace.env,
        label=success,
        reward=episode.score.value,
    )


async def reference_episodes(
    view: RunConfig, environment: Environment, data: DataConfig
) -> list[Episode]:
    """Training tasks solved by the environment's own solutions; those that fail are left out."""
    tasks = list(islice(environment.tasks("train", data.seed), data.n or REFERENCE_TASKS))
    parts = scripted_player(REFERENCE, environment).parts(environment, view)
    found: list[Episode] = []
    for begin in range(0, len(tasks), TOGETHER):
        part = tasks[begin : begin + TOGETHER]
        groups = await run_groups(parts, part, 1, label="reference", seed=data.seed)
        found += [episode for group in groups for episode in group.episodes]
    return found


def stored_episodes(data: DataConfig) -> Sequence[Episode]:
    """Episodes of a store or a run."""
    path = Path(data.source)
    file = path / "traces.sqlite" if path.is_dir() else path
    with SqliteTraceStore(file, read_only=True) as store:
        return list(store.query(data.where))
