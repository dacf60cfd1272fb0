"""What a stage over recorded examples learns from: brought in, scored, built, and kept."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from practicum.assemble.datasets import (
    STORES,
    DatasetSource,
    build_dataset,
    is_store,
    store_path,
)
from practicum.assemble.stage_rows import StageRows, keep_rows, read_rows, rows_folder
from practicum.assemble.traces import import_traces, rescored, reward_for_traces
from practicum.core.config import DataConfig, RunConfig
from practicum.core.errors import UserError
from practicum.core.example import Example
from practicum.core.interfaces import Environment, OfflineMethod
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.trace import Trace
from practicum.datasets import (
    BuildOptions,
    Built,
    LeftOut,
    checked_file,
    is_built,
    tokenise,
)
from practicum.store import RunDir, SqliteTraceStore
from practicum.training import Row, episode_rows, example_row, units

if TYPE_CHECKING:
    from practicum.policy.torch_policy import TorchPolicy

__all__ = ["StageData", "load_stage"]

TOO_LONG = "it is longer than the model's context"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageData:
    """Which stage of which run, and what it has to do with."""

    view: RunConfig
    """The run as if it had only this stage."""
    number: int
    """The stage, counted from 1."""
    method: OfflineMethod
    run: RunDir
    policy: "TorchPolicy"
    environment: Environment | None
    warn: Callable[[str], None]
    """Told what did not get into the material."""

    @property
    def data(self) -> DataConfig:
        """What the stage is to learn from; its config has seen to it that there is something."""
        assert self.view.data is not None
        return self.view.data


async def load_stage(stage: StageData) -> StageRows:
    """The rows of a stage; made when the stage first begins, and read again ever after."""
    folder = rows_folder(stage.run.path, stage.number)
    if folder.is_dir():
        return read_rows(folder)
    data, own = stage.data, _OwnTokens(model=stage.view.model.name)
    _bring_in(data, stage.warn)
    own.scores = await _scores(data, Path(stage.view.runs_dir))
    built = await _built(stage, own)
    rows = _rows(stage, built, own)
    if not rows.train:
        raise UserError(_nothing(stage, built))
    _tell(stage, built, rows)
    question = {"kind": built.kind, **data.model_dump(mode="json")}
    return keep_rows(folder, rows, built, question)


def _bring_in(data: DataConfig, warn: Callable[[str], None]) -> None:
    """Import what is to be imported; what is in the store already is left as it is."""
    if not data.imports:
        return
    path = Path(data.source)
    if path.suffix not in STORES:
        raise UserError(
            f"data.imports brings traces into a store, and data.source is {data.source!r}; name a "
            "store there, such as traces.sqlite"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    format = "" if data.format == "auto" else data.format
    with SqliteTraceStore(path) as store:
        report = import_traces([Path(p) for p in data.imports], store, _Unwatched(), format=format)
    if report.problems:
        warn(
            f"{report.refused} parts of the imported files could not be used; the first: "
            f"{report.problems[0]}"
        )


class _Unwatched:
    """Nobody is told how an import goes."""

    def file_started(self, file: Path, format: str, size: int) -> None:
        """A file is being read."""

    def read(self, offset: int, episodes: int) -> None:
        """Some of it has been dealt with."""


async def _scores(data: DataConfig, runs_dir: Path) -> dict[str, Score] | None:
    """What the stage's own reward says of each trace; None where it has none.

    The store keeps the scores it has: it may belong to another run, or to other stages.
    """
    if data.reward is None:
        return None
    source = DatasetSource(name=data.source, runs_dir=runs_dir)
    if not is_store(source):
        raise UserError(
            f"data.reward scores the traces of a store or a run, and {data.source} is a dataset; "
            "take it out, or name the store that the dataset was built from"
        )
    reward = reward_for_traces(data.reward)
    with SqliteTraceStore(store_path(source), read_only=True) as store:
        return {
            episode.trace.id: (await rescored(store, reward, episode)).score
            for episode in store.query(data.where)
        }


async def _built(stage: StageData, own: "_OwnTokens") -> Built:
    data, kind = stage.data, stage.method.kind
    source = DatasetSource(
        name=data.source,
        where=data.where,
        good_at=data.good_at,
        runs_dir=Path(stage.view.runs_dir),
        revise=own.revise,
        unmarked=True if kind == "sft" else None,
    )
    weighted = stage.view.algorithm.name == "weighted_sft"
    options = BuildOptions(
        kind=kind,
        only="all" if weighted else None,
        min_score=float("-inf") if weighted else None,  # what is weighted by reward needs one
        heldout=data.heldout,
        n=data.n,
        seed=data.seed,
    )
    path = Path(data.source)
    if is_built(path):  # its doubles are gone and its classes weighed already
        options = replace(options, duplicates="keep", balance="none")
    built = await build_dataset(source, options, environment=stage.environment)
    if path.is_dir() and is_built(path) and not data.heldout:
        kept_apart = checked_file(path, "heldout")
        if kept_apart is not None:
            theirs = await build_dataset(replace(source, name=str(kept_apart)), options)
            built = replace(built, heldout=theirs.train)
    return built


def _rows(stage: StageData, built: Built, own: "_OwnTokens") -> StageRows:
    """The tokens of both sides; what the model cannot read at once is left out."""
    longest = int(stage.policy.model.get_base_model().config.max_position_embeddings)
    sides = []
    for side in (built.train, built.heldout):
        kept: list[Row] = []
        for unit in side:
            found = [own.row(example, stage.policy) for example in unit]
            if all(row.sample.token_ids.size <= longest for row in found):
                kept += found
            else:
                built.left_out.add(TOO_LONG, unit[0].id, len(unit))
        sides.append(units(kept, built.kind))
    return StageRows(*sides)


@dataclass(slots=True, kw_only=True)
class _OwnTokens:
    """Watches episodes go by, and keeps those whose tokens the model itself has sampled.

    Learning from what it did has to raise or lower the choices it had: an answer drawn under a
    constraint is not the answer it would have been without.
    """

    model: str
    scores: dict[str, Score] | None = None
    """New scores of traces by id, where they are scored again."""
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def revise(self, episode: Episode) -> Episode:
        """The episode with the score that counts here."""
        if self.scores is not None:
            episode = _with_score(episode, self.scores[episode.trace.id])
        if episode.is_usable and _is_own(episode.trace, self.model):
            self.rows[episode.trace.id] = episode_rows(episode, None)
        return episode

    def row(self, example: Example, policy: "TorchPolicy") -> Row:
        """An example's own tokens where they are known, else those of its text."""
        if example.token_ids and example.tokens_of == self.model:
            walks = self.rows.get(example.id) or self.rows.get(example.id.rpartition("#")[0]) or []
            for walk in walks:
                if np.array_equal(walk.sample.token_ids, example.token_ids):
                    return replace(
                        walk,
                        label=example.label,
                        pair=example.pair,
                        chosen=example.chosen,
                        weight=example.weight,
                        reward=example.reward,
                    )
        return example_row(example, tokenise(example, policy.codec, model=self.model))


def _with_score(episode: Episode, score: Score) -> Episode:
    """The episode scored anew; where that says how good it is, its outcome does not."""
    outcome = episode.outcome
    if score.value is not None and outcome is not None:
        outcome = replace(outcome, success=None)
    return replace(episode, score=score, outcome=outcome)


def _is_own(trace: Trace, model: str) -> bool:
    """Whether the tokens are the model's own, with an adapter or without."""
    return trace.has_logprobs and trace.model.partition(" + ")[0] == model


def _nothing(stage: StageData, built: Built) -> str:
    data = stage.data
    where = f" where {data.where}" if data.where else ""
    reasons = _reasons(built.left_out)
    return (
        f"{data.source} has nothing that {stage.view.algorithm.name} could learn from{where}"
        + (f": {reasons}" if reasons else "")
        + "; look at it with: practicum dataset build "
        f"--kind {built.kind} --from {data.source}"
    )


def _tell(stage: StageData, built: Built, rows: StageRows) -> None:
    """Say what the user would want to know of the material before it is learned from."""
    if built.left_out.total:
        stage.warn(
            f"{stage.view.algorithm.name} learns from {len(rows.train)} of "
            f"{stage.data.source}; left out: {_reasons(built.left_out)}"
        )
    if built.kind == "kto":
        classes = {row.label for unit in rows.train for row in unit}
        if len(classes) == 1:
            called = "good" if classes == {True} else "bad"
            stage.warn(
                f"every example of {stage.data.source} is called {called}; kto learns most where "
                "there are both"
            )


def _reasons(left_out: LeftOut) -> str:
    return ", ".join(f"{count} ({reason})" for reason, count in left_out.counts.items())
