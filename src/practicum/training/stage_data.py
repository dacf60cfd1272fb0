"""The examples of an offline stage: import, score, build, tokenise, and store them with the run.

They are stored so that a resumed run reads the same ones. The folder appears in one rename:

data/stage_1/
    rows.jsonl       the tokens of each example, in order
    dataset.json     the options, and what was built
    train.jsonl      the same examples as text, for people and `practicum dataset`
    heldout.jsonl
"""

import json
import os
import shlex
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from practicum.core.config.reward_config import RewardConfig
from practicum.core.config.run_config import REFERENCE, DataConfig, RunConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import ChatCodec, OfflineMethod, Reward
from practicum.core.private_files import make_private_folder, owner_only
from practicum.core.sample import Episode, Example, Sample
from practicum.core.score import Score
from practicum.core.task import JSON
from practicum.core.trace import Trace
from practicum.core.user_code import check_call, load_callable, names_code
from practicum.store.durable import publish_folder
from practicum.store.trace_store import SqliteTraceStore
from practicum.store.where import not_evaluated
from practicum.traces.datasets.build import BuildOptions, Built
from practicum.traces.datasets.dataset_writing import Side, checked_file, is_built, write_dataset
from practicum.traces.datasets.examples import tokenise
from practicum.traces.datasets.sources import STORES, DatasetSource, is_store, store_path
from practicum.traces.datasets.splits import LeftOut
from practicum.traces.importing import import_traces, rescored
from practicum.training.example_steps import (
    OfflineExample,
    offline_example,
    offline_examples,
    units,
)

ROWS = "rows.jsonl"

LABELS = ("task_id", "label", "pair", "chosen", "weight", "reward")
"""Fields of `OfflineExample` that are stored as they are."""

TOO_LONG = "it is longer than the model's context"

Units = list[tuple[OfflineExample, ...]]


class StageExamples(NamedTuple):
    """A stage's training and held-out examples, in units (see `example_steps.Units`)."""

    train: Units
    heldout: Units


@dataclass(slots=True, kw_only=True)
class StageData:
    """What `load_stage` needs."""

    view: RunConfig
    """The run's config with only this stage."""
    number: int
    """The stage, counted from 1."""
    method: OfflineMethod
    run: Path
    codec: ChatCodec
    """The model's."""
    longest: int
    """Context length of the model, in tokens."""
    build: Callable[[DatasetSource, BuildOptions], Awaitable[Built]]
    """Builds a dataset; `source: reference` runs the environment's solutions."""
    reward_for: Callable[[RewardConfig], Reward]
    """The reward for scoring stored episodes again."""
    warn: Callable[[str], None]
    """Called with warnings for the user."""

    _loaded: StageExamples | None = None

    async def train(self) -> Units:
        """The training examples; the first call of either method loads both splits."""
        self._loaded = self._loaded or await load_stage(self)
        return self._loaded.train

    async def heldout(self) -> Units:
        """The held-out examples."""
        self._loaded = self._loaded or await load_stage(self)
        return self._loaded.heldout

    @property
    def data(self) -> DataConfig:
        """The stage's data config; `RunConfig` makes sure that an offline stage has one."""
        assert self.view.data is not None
        return self.view.data


def check_data(data: DataConfig, runs_dir: Path) -> None:
    """Raise `UserError` where a stage's examples cannot be found; none of them is read."""
    for one in data.imports:
        if not Path(one).exists():
            raise UserError(f"data.imports: there is no file or folder {one}; give its path")
    if names_code(data.source):
        check_call(load_callable(data.source, "data"), data.source, "data", ())
        return
    source = DatasetSource(name=data.source, key="data:", runs_dir=runs_dir)
    if data.source == REFERENCE or data.imports:
        return
    place = store_path(source) if is_store(source) else Path(data.source)
    if not place.exists():
        raise UserError(
            f"data: there is no {place}; give a store (*.sqlite), a run, a dataset, "
            "FILE.py:FUNCTION that returns rows, or reference"
        )


async def load_stage(stage: StageData) -> StageExamples:
    """The examples of a stage: built when it first starts, read from the run when it resumes."""
    folder = examples_folder(stage.run, stage.number)
    if folder.is_dir():
        return read_stage_examples(folder)
    data, own = stage.data, _SampledTokens(model=stage.view.model.name)
    _import_traces(data, stage.warn)
    own.scores = await _score_traces(stage)
    built = await _build_dataset(stage, own)
    rows = _tokenise(stage, built, own)
    if not rows.train:
        raise UserError(_why_empty(stage, built))
    _warn(stage, built, rows)
    question = {"kind": built.kind, **data.model_dump(mode="json")}
    return keep_examples(folder, rows, built, question)


def _import_traces(data: DataConfig, warn: Callable[[str], None]) -> None:
    """Import `data.imports` into the store; traces that are already there stay as they are."""
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
        report = import_traces([Path(p) for p in data.imports], store, _NoProgress(), format=format)
    if report.problems:
        warn(
            f"{report.refused} parts of the imported files could not be used; the first: "
            f"{report.problems[0]}"
        )


class _NoProgress:
    """An import observer that does nothing."""

    def file_started(self, file: Path, format: str, size: int) -> None:
        """Ignored."""

    def read(self, offset: int, episodes: int) -> None:
        """Ignored."""


async def _score_traces(stage: StageData) -> dict[str, Score] | None:
    """Scores of the stage's own reward by trace id; None where it has no reward.

    They are not written to the store, which other runs and stages may use.
    """
    data = stage.data
    if data.reward is None:
        return None
    source = DatasetSource(name=data.source, runs_dir=Path(stage.view.runs_dir))
    if not is_store(source):
        raise UserError(
            f"data.reward scores the traces of a store or a run, and {data.source} is a dataset; "
            "take it out, or name the store that the dataset was built from"
        )
    reward = stage.reward_for(data.reward)
    with SqliteTraceStore(store_path(source), read_only=True) as store:
        return {
            episode.trace.id: (await rescored(store, reward, episode)).score
            for episode in store.query(not_evaluated(data.where))
        }


async def _build_dataset(stage: StageData, own: "_SampledTokens") -> Built:
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
        min_score=float("-inf") if weighted else None,  # any score, but there must be one
        heldout=data.heldout,
        n=data.n,
        seed=data.seed_in(stage.view.seed),
    )
    path = Path(data.source)
    if is_built(path):  # deduplicated and balanced when it was built
        options = replace(options, duplicates="keep", balance="none")
    built = await stage.build(source, options)
    if path.is_dir() and is_built(path) and not data.heldout:
        heldout_file = checked_file(path, "heldout")
        if heldout_file is not None:
            heldout = await stage.build(replace(source, name=str(heldout_file)), options)
            built = replace(built, heldout=heldout.train)
    return built


def _tokenise(stage: StageData, built: Built, own: "_SampledTokens") -> StageExamples:
    """The tokens of both splits; examples longer than the context are left out."""
    sides = []
    for side in (built.train, built.heldout):
        kept: list[OfflineExample] = []
        for unit in side:
            found = [own.row(example, stage.codec) for example in unit]
            if built.kind == "grpo":
                found = [replace(row, pair=unit[0].id) for row in found]
            if all(row.sample.token_ids.size <= stage.longest for row in found):
                kept += found
            else:
                built.left_out.add(TOO_LONG, unit[0].id, len(unit))
        sides.append(units(kept, built.kind))
    return StageExamples(*sides)


@dataclass(slots=True, kw_only=True)
class _SampledTokens:
    """The examples whose tokens this model sampled itself, collected while the dataset is built.

    They keep their tokens and choices: a token drawn under a constraint must be trained as a
    choice among the allowed tokens, which its text alone does not say.
    """

    model: str
    scores: dict[str, Score] | None = None
    """New scores by trace id, where the stage has its own reward."""
    rows: dict[str, list[OfflineExample]] = field(default_factory=dict)

    def revise(self, episode: Episode) -> Episode:
        """The episode with its new score; keeps its tokens if they are the model's own."""
        if self.scores is not None:
            episode = _with_score(episode, self.scores[episode.trace.id])
        if not episode.trace.is_masked and _is_own(episode.trace, self.model):
            self.rows[episode.trace.id] = offline_examples(episode, None)
        return episode

    def row(self, example: Example, codec: ChatCodec) -> OfflineExample:
        """The sampled tokens of an example where known, else its text tokenised."""
        if example.token_ids and example.tokens_of == self.model:
            paths = self.rows.get(example.id) or self.rows.get(example.id.rpartition("#")[0]) or []
            for path in paths:
                if np.array_equal(path.sample.token_ids, example.token_ids):
                    # Of a corrected conversation only the last turn is learned from.
                    mask = path.sample.loss_mask & np.asarray(example.loss_mask)
                    choices = {at: few for at, few in path.sample.choices.items() if mask[at]}
                    return replace(
                        path,
                        sample=replace(path.sample, loss_mask=mask, choices=choices),
                        label=example.label,
                        pair=example.pair,
                        chosen=example.chosen,
                        weight=example.weight,
                        reward=example.reward,
                    )
        return offline_example(example, tokenise(example, codec, model=self.model))


def _with_score(episode: Episode, score: Score) -> Episode:
    """The episode with a new score, which replaces its outcome as the label of success."""
    outcome = episode.outcome
    if score.value is not None and outcome is not None:
        outcome = replace(outcome, success=None)
    return replace(episode, score=score, outcome=outcome)


def _is_own(trace: Trace, model: str) -> bool:
    """Whether this model, with or without an adapter, sampled the tokens."""
    return trace.has_logprobs and trace.model.partition(" + ")[0] == model


def _why_empty(stage: StageData, built: Built) -> str:
    data = stage.data
    where = f" where {data.where}" if data.where else ""
    reasons = _reasons(built.left_out)
    return (
        f"{data.source} has nothing that {stage.view.algorithm.name} could learn from{where}"
        + (f": {reasons}" if reasons else "")
        + "; look at it with: practicum dataset build "
        f"--kind {built.kind} --from {data.source} --out {built.kind}-data"
        + (f" --env {stage.view.env_name}" if data.source == REFERENCE else "")
        + (f" --where {shlex.quote(data.where)}" if data.where else "")
    )


def _warn(stage: StageData, built: Built, rows: StageExamples) -> None:
    """Warn of examples left out, and of KTO data with one class only."""
    if built.left_out.total:
        stage.warn(
            f"{stage.view.algorithm.name} learns from {len(rows.train)} of "
            f"{stage.data.source}; left out: {_reasons(built.left_out)}"
        )
    assumed = [row for unit in rows.train for row in unit if not row.sample.old_logprobs.any()]
    if built.kind == "grpo" and assumed:
        stage.warn(
            f"{len(assumed)} of the answers have no log-probabilities of this model's recorded; "
            f"{stage.view.algorithm.name} takes them to be sampled by the policy that it starts "
            "from, which nothing checks"
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


def examples_folder(run: Path, stage: int) -> Path:
    """Folder of a stage's examples; stages are counted from 1."""
    return run / "data" / f"stage_{stage}"


def keep_examples(
    folder: Path, rows: StageExamples, built: Built, question: Mapping[str, JSON]
) -> StageExamples:
    """Write the examples; returns them as a resumed run reads them."""
    make_private_folder(folder.parent)
    for left in folder.parent.glob(f".{folder.name}.tmp-*"):  # of a process that was killed
        shutil.rmtree(left)
    temporary = folder.with_name(f".{folder.name}.tmp-{os.getpid()}")
    write_dataset(built, temporary, form="jsonl", question=question)
    with open(temporary / ROWS, "w", encoding="utf-8", opener=owner_only) as file:
        file.writelines(json.dumps(line) + "\n" for line in _lines(rows))
    publish_folder(temporary, folder)
    return read_stage_examples(folder)


def read_stage_examples(folder: Path) -> StageExamples:
    """The examples that `keep_examples` wrote."""
    found: dict[Side, dict[int, list[OfflineExample]]] = {"train": {}, "heldout": {}}
    try:
        with (folder / ROWS).open(encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                side: Side = line["side"]
                found[side].setdefault(line["unit"], []).append(_from_json(line))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder / ROWS} cannot be read ({error.__class__.__name__}: {error}); put back a "
            "copy of it, or start another run"
        ) from None
    train, heldout = ([tuple(unit) for unit in side.values()] for side in found.values())
    return StageExamples(train, heldout)


def learned_rows(run: Path) -> list[tuple[int, ...]]:
    """The tokens of the examples that a run learned from, those it held out first."""
    stages = [read_stage_examples(one) for one in sorted((run / "data").glob("stage_*"))]
    sides = [side for stage in stages for side in (stage.heldout, stage.train)]
    return [tuple(row.sample.token_ids.tolist()) for side in sides for unit in side for row in unit]


def _lines(rows: StageExamples) -> Iterator[dict[str, Any]]:
    for side, examples in (("train", rows.train), ("heldout", rows.heldout)):
        for number, unit in enumerate(examples):
            for row in unit:
                yield {"side": side, "unit": number, **_to_json(row)}


def _to_json(row: OfflineExample) -> dict[str, Any]:
    sample = row.sample
    return {
        "trace": sample.trace_id,
        "walk": sample.path,
        **{name: getattr(row, name) for name in LABELS},
        "token_ids": sample.token_ids.tolist(),
        "loss_mask": sample.loss_mask.astype(int).tolist(),
        # Text of another model or a person has none; then an empty list is stored.
        "logprobs": _unless_constant(sample.old_logprobs, 0.0),
        "temperatures": _unless_constant(sample.temperatures, 1.0),
        "choices": [[place, list(allowed)] for place, allowed in sample.choices.items()],
    }


def _unless_constant(values: "np.typing.NDArray[np.float32]", usual: float) -> list[float]:
    return [] if (values == usual).all() else values.tolist()


def _from_json(line: Mapping[str, Any]) -> OfflineExample:
    length = len(line["token_ids"])
    if len(line["loss_mask"]) != length:
        raise ValueError(f"{length} tokens have a mask for {len(line['loss_mask'])}")
    sample = Sample(
        token_ids=np.asarray(line["token_ids"], np.int64),
        loss_mask=np.asarray(line["loss_mask"], np.bool_),
        old_logprobs=_or_constant(line["logprobs"], 0.0, length),
        advantages=np.zeros(length, np.float32),
        temperatures=_or_constant(line["temperatures"], 1.0, length),
        choices={place: tuple(allowed) for place, allowed in line["choices"]},
        trace_id=line["trace"],
        path=line["walk"],
    )
    return OfflineExample(sample=sample, **{name: line[name] for name in LABELS})


def _or_constant(
    values: Sequence[float], usual: float, length: int
) -> "np.typing.NDArray[np.float32]":
    return np.asarray(values, np.float32) if values else np.full(length, usual, np.float32)
