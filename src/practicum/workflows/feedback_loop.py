"""The loop closed over production: `learn` from what a served model did and what people said of it.

Recorded traffic and its labels become a dataset; a run goes on from the adapter that is served;
what comes of it is compared with the served version on held-out tasks or on held-out feedback; and
it is served in its place only where the interval of the paired difference is above zero, and where
that stands without any one of the keys whose feedback it is; otherwise it waits for a person.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from practicum import api
from practicum.analysis.evaluations import read_evaluations
from practicum.assemble.driver import Observe, TrainedRun, train_run
from practicum.assemble.environments import open_environment
from practicum.core.checkpoint import EvalReport, Interval, beside_success
from practicum.core.config.config_sections import EnvConfig
from practicum.core.config.parse_config import apply_overrides, build_config, parse_yaml
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.core.private_files import make_private_folder
from practicum.core.task import JSON
from practicum.environments.registry import heldout_tasks
from practicum.evaluation.compare import compare_reports, success_difference
from practicum.evaluation.report import format_interval
from practicum.store.run_dir import check_name, free_path, taken
from practicum.store.served_versions import Change, ServedVersion, ServedVersions, find_served
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.datasets.examples import CORRECTED
from practicum.traces.datasets.sources import DatasetSource, store_path
from practicum.traces.feedback import (
    SAID,
    FeedbackKind,
    Traffic,
    gather_traffic,
    traffic_environments,
)
from practicum.training.heldout_feedback import (
    Preference,
    mean_gain,
    measure_gains,
    preferences,
)
from practicum.training.stage_data import examples_folder, read_stage_examples
from practicum.training.warm_start import fitting_eval

TASKS = 200
"""Held-out tasks that the two are compared on, where there are as many."""
EPOCHS = 3
"""How often each piece of feedback is learned from."""
HELD_OUT = 0.3
"""Share of the feedback that is kept for the comparison where there are no tasks for it."""
METHODS: dict[FeedbackKind, dict[str, JSON]] = {
    "kto": {"lr": 3e-4, "batch": 16, "beta": 0.5},
    "dpo": {"lr": 1e-4, "batch": 16, "beta": 0.1},
}
"""What is learned by unless told; docs/learn-from-traffic.md says how it was chosen."""
CARRIED_OVER = ("env", "model", "rollouts", "agent", "reward", "hardware")
"""Sections that the served version's own run hands on."""
LEARNED_BY = ("algorithm", "data", "lora", "steps")
"""Keys that are set once the feedback is known."""
KEYS = 2
"""Keys that must stand behind what is served without a person's word."""
COPIES = ".traffic"
"""Folder beside the runs with what they are about to learn from."""
TOKENS_AT_ONCE = 4096
"""Of held-out feedback while it is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How a candidate stands to the served version."""

    of: Literal["tasks", "feedback"]
    difference: Interval
    """On tasks: of success. On feedback: preferred conversations that gained more than the others,
    less those that gained less, as a share."""
    before: EvalReport | None = None
    after: EvalReport | None = None
    preferred_gain: float | None = None
    """Change of the mean log-probability of the preferred conversations, on feedback."""
    without_one: Interval | None = None
    """On feedback: the least difference where one key's is left out; None where nothing is left.
    On tasks, whose outcomes no key has a say in, None."""

    @property
    def is_better(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.difference.low > 0

    @property
    def stands_without_one(self) -> bool:
        """Whether it would be whichever one key's feedback were left out."""
        if self.of == "tasks":
            return self.is_better
        return self.without_one is not None and self.without_one.low > 0

    def to_json(self) -> dict[str, JSON]:
        """What is recorded with the promotion."""
        found: dict[str, JSON] = {"of": self.of, "difference": self.difference.to_json()}
        if self.before is not None and self.after is not None:
            found |= {
                "env": self.after.env,
                "seed": self.after.seed,
                "before": self.before.decisive[1].to_json(),
                "after": self.after.decisive[1].to_json(),
                "masked": {"before": self.before.masked, "after": self.after.masked},
            }
        if self.preferred_gain is not None:
            found["preferred_gain"] = self.preferred_gain
        if self.without_one is not None:
            found["without_one_key"] = self.without_one.to_json()
        return found

    def __str__(self) -> str:
        shown = format_interval(self.difference, signed=True)
        if self.before is None or self.after is None:
            return (
                f"the preferred of two held-out conversations gained more, counted against those "
                f"where it gained less: {shown} over {self.difference.n} pairs"
            )
        sides = " to ".join(
            format_interval(side.decisive[1]) + beside_success(side)
            for side in (self.before, self.after)
        )
        return (
            f"{self.after.decisive[0]} {sides} on {self.difference.n} held-out tasks of "
            f"{self.after.env}, paired difference {shown}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What came of learning from traffic."""

    run: api.Run
    served: ServedVersion
    """What was served, and gone on from."""
    kind: FeedbackKind
    traffic: Traffic
    measured: Measured
    promoted: ServedVersion | None
    """The new version that is served; None where nothing was changed."""
    waiting: ServedVersion | None = None
    """The new version that waits for a person."""
    why_not: str = ""
    """Why no new version is served."""

    def __str__(self) -> str:
        stand = "stands" if self.traffic.keys == 1 else "stand"
        return (
            f"{self.measured}; {self.traffic.counted_keys} {stand} behind it; {self._what_came()}"
        )

    def _what_came(self) -> str:
        if self.promoted:
            return f"version {self.promoted.version} is served now (it was {self.served.version})"
        stays = f"version {self.served.version} stays: {self.why_not}"
        if self.waiting is None:
            return stays
        name, version = self.waiting.path.parents[1].name, self.waiting.version
        return (
            f"{stays}; version {version} waits for a person: practicum served promote {name} "
            f"{version}, or practicum served refuse {name} {version}"
        )

    def to_json(self) -> dict[str, JSON]:
        """As JSON."""
        return {
            "run": str(self.run.path),
            "kind": self.kind,
            "served": self.served.version,
            "served_sha256": self.served.sha256,
            "promoted": self.promoted.version if self.promoted else None,
            "promoted_sha256": self.promoted.sha256 if self.promoted else None,
            "waiting": self.waiting.version if self.waiting else None,
            "why_not": self.why_not,
            "keys": self.traffic.keys,
            "labels": {
                "good": self.traffic.good,
                "bad": self.traffic.bad,
                "corrections": self.traffic.corrections,
            },
            "left_out": dict(self.traffic.left_out.counts),
            "redacted": dict(self.traffic.redacted),
            "measured": self.measured.to_json(),
        }


def served_model(model: str | Path) -> ServedVersions:
    """A served model by its folder or its name in `served/`, which need not be there yet."""
    return find_served(model, _identify, must_exist=False)


def _identify(folder: Path, told: str) -> str:
    from practicum.engine.models.lora import identify_adapter

    return identify_adapter(folder, told)


def learn(
    store: str | Path,
    model: str | Path | None = None,
    *,
    kind: Literal["auto", "kto", "dpo"] = "auto",
    env: str | None = None,
    n: int | None = None,
    promote: bool | Literal["ask"] = True,
    observe: Observe | None = None,
    **options: Any,
) -> Learned:
    """Learn from a store of traffic and feedback, and serve what is shown to be better.

    Args:
        store: The trace store that the server has recorded to.
        model: The served model; the only one in `served/` unless given.
        kind: `kto` from thumbs and scores, `dpo` from corrections; by the labels unless given.
        env: Where the two are compared; the environment of the traffic unless given, and held-out
            feedback where it has none.
        n: Held-out tasks that they are compared on; 200, or as many as there are.
        promote: Whether to serve what is better; `ask` lets it wait for a person, and False only
            measures.
        observe: Makes the observer of the run; lines on standard error unless given.
        options: `keys` (how many must stand behind what is served without a person's word; 2),
            `where` (which traces), `name` (of the run), and keys of its config, such as
            `steps=20` or `**{"algorithm.lr": 1e-4}`; `words` are the same as `key=value`.
    """
    least = options.pop("keys", KEYS)
    plan = plan_learning(
        store_path(DatasetSource(name=str(store))),
        find_served(model, _identify),
        kind=kind,
        env=env,
        n=n,
        options=dict(options),
    )
    lines = api.TrainingLines(steps=plan.config.steps)
    trained = train_run(plan.config, observe or lines.observe, name=plan.name)
    if trained.result.interrupted:
        raise UserError(
            f"{trained.run.path} was stopped after {trained.result.state.step} steps; nothing was "
            "changed; learn again"
        )
    remove_copy(plan.traffic.store)  # the run keeps what it has learned from
    measured = measure_candidate(trained, plan.config, plan.traffic.authors)
    learned = Learned(
        run=api.Run(trained.run),
        served=plan.version,
        kind=plan.kind,
        traffic=plan.traffic,
        measured=measured,
        promoted=None,
        why_not=_why_not(measured, plan.traffic.keys, least, promote),
    )
    return (
        _published(learned, plan.served, str(store)) if measured.is_better and promote else learned
    )


def _published(learned: Learned, served: ServedVersions, store: str) -> Learned:
    """With the run as a new version, which is served or waits for a person."""
    measured, keys = learned.measured, learned.traffic.keys
    new = served.publish(
        learned.run.path,
        change=Change(
            "wait" if learned.why_not else "promote",
            f"learned from {store} by {keys} key{'s' * (keys > 1)}: {measured}",
            {**measured.to_json(), "keys": keys},
        ),
        instead_of=learned.served,
    )
    return replace(learned, waiting=new) if learned.why_not else replace(learned, promoted=new)


def _why_not(measured: Measured, keys: int, least: int, promote: bool | Literal["ask"]) -> str:
    """Why a candidate is not served without a person's word; empty where it is."""
    if not measured.is_better:
        return "the interval is not above zero"
    if not promote:
        return "promotion was not asked for"
    if keys < least:
        return f"{keys} key{'s' * (keys > 1)} stood behind it, and {least} are needed (--keys)"
    if least > 1 and not measured.stands_without_one:
        return "it would not stand without one of the keys"
    return "a person was to be asked" if promote == "ask" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPlan:
    """What is to be learned from, by which run."""

    served: ServedVersions
    version: ServedVersion
    traffic: Traffic
    kind: FeedbackKind
    config: RunConfig
    name: str


def plan_learning(
    store: Path,
    model: ServedVersions,
    *,
    kind: Literal["auto", "kto", "dpo"],
    env: str | None,
    n: int | None,
    options: dict[str, Any],
) -> LearningPlan:
    """Gather the traffic, and make the config of the run that learns from it."""
    version = model.current
    where, name = options.pop("where", SAID), options.pop("name", None)
    words = [*options.pop("words", ()), *api.as_words(options)]
    values = _carried_over(version)
    values["env"] = _choose_env(store, where, env, values.get("env"))
    values["eval"] = {"n": TASKS if n is None else n, "seed": _test_seed(store, version)}
    scene = [word for word in words if not word.startswith(LEARNED_BY)]
    config = _configured(values, scene)
    if config.env is not None and not config.eval.before:
        raise UserError("eval.before=false leaves nothing to compare with; take it out")
    environment = open_environment(config.env) if config.env else None
    if environment is not None and n is None:
        values["eval"]["n"] = fitting_eval(config.eval, environment).n
        config = _configured(values, scene)
    run = _run_path(Path(config.runs_dir), name, model.name)
    copy = run.parent / COPIES / f"{run.name}.sqlite"
    make_private_folder(copy.parent)
    remove_copy(copy)  # of a run that was never made
    try:
        traffic = gather_traffic(
            store,
            copy,
            base=version.base,
            fingerprint=version.fingerprint,
            where=where,
            tested=_tested(environment, config),
        )
        chosen = traffic.choose_kind(kind)
        values |= _method(traffic, chosen, version, compares_on_tasks=environment is not None)
        values["data"]["where"] = where
        config = _configured(values, words)
    except UserError:
        remove_copy(copy)
        raise
    return LearningPlan(
        served=model,
        version=version,
        traffic=traffic,
        kind=chosen,
        config=config,
        name=run.name,
    )


def _method(
    traffic: Traffic, kind: FeedbackKind, version: ServedVersion, *, compares_on_tasks: bool
) -> dict[str, Any]:
    """The sections of the config that say how the feedback is learned from."""
    batch = int(str(METHODS[kind]["batch"]))
    held_out = 0.0 if compares_on_tasks else HELD_OUT
    count = traffic.corrections if kind == "dpo" else traffic.labels
    return {
        "algorithm": {"name": kind, "reference": "start", **METHODS[kind]},
        "data": {"source": str(traffic.store), "heldout": held_out},
        "steps": max(1, math.ceil(EPOCHS * count * (1 - held_out) / batch)),
        "lora": _adapter_settings(version),
    }


def remove_copy(store: Path) -> None:
    """Remove a store and what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{store}{suffix}").unlink(missing_ok=True)


def _configured(values: dict[str, Any], words: list[str]) -> RunConfig:
    return build_config(apply_overrides(values, words), "learn")


def _carried_over(version: ServedVersion) -> dict[str, Any]:
    """What the run that made a version was told, as far as it matters for the next one."""
    path = version.config_path
    kept = parse_yaml(path.read_text(encoding="utf-8"), str(path)) if path else {}
    values = {key: kept[key] for key in CARRIED_OVER if kept.get(key) is not None}
    model = values.get("model") or {}
    return {**values, "model": {**model, "name": version.base}}


def _choose_env(store: Path, where: str, asked: str | None, own: Any) -> Any:
    """The environment to compare in: as asked, or that of the traffic; None is held-out feedback.

    The served version's own has the options that it was trained with.
    """
    own = {"name": own} if isinstance(own, str) else own
    if asked is not None:
        return own if own and asked == own["name"] else {"name": asked}
    found = traffic_environments(store, where)
    if not found:
        return None
    # An own class is given by its file, and its episodes have its name.
    if own and {own["name"], open_environment(EnvConfig(**own)).name} & set(found):
        return own
    if len(found) > 1:
        raise UserError(
            f"{store} has traffic of {', '.join(found)}; say where the models are to be compared, "
            f"such as --env {found[0]}"
        )
    return {"name": found[0]}


def _test_seed(store: Path, version: ServedVersion) -> int:
    """Which held-out tasks: others for each version and each state of the feedback.

    A test that is used again and again would be passed by chance in the end.
    """
    with SqliteTraceStore(store, read_only=True) as found:
        state = f"{version.sha256} {sum(1 for _ in found.labels())}"
    return int.from_bytes(hashlib.sha256(state.encode()).digest()[:3], "big")


def _tested(environment: Environment | None, config: RunConfig) -> set[tuple[str, str]]:
    if environment is None:
        return set()
    tasks = heldout_tasks(environment, config.eval.n, config.eval.seed)
    return {(task.env, task.id) for task in tasks}


def _adapter_settings(version: ServedVersion) -> dict[str, Any]:
    saved = json.loads((version.path / "adapter_config.json").read_text(encoding="utf-8"))
    return {
        "r": saved["r"],
        "alpha": saved["lora_alpha"],
        "targets": sorted(saved["target_modules"]),
        "start": str(version.path),
    }


def _run_path(runs_dir: Path, name: str | None, served_name: str) -> Path:
    if name is None:
        return free_path(runs_dir, f"learn_{served_name}")
    path = runs_dir / check_name(name)
    if path.exists():
        raise taken(path)
    return path


def measure_candidate(
    trained: TrainedRun, config: RunConfig, authors: Mapping[str, str]
) -> Measured:
    """The trained policy against the one that it began as.

    `authors` says who labelled each conversation.
    """
    run = trained.run
    if config.env is not None:
        reports = read_evaluations(run)
        if not {0, config.steps} <= reports.keys():
            raise UserError(
                f"{run.path} was not evaluated before and after, so nobody can say whether it is "
                "better; leave out eval.n=0 and eval.before=false"
            )
        before, after = reports[0], reports[config.steps]
        difference = compare_reports(after, before).decisive[1]
        return Measured(of="tasks", difference=difference, before=before, after=after)
    heldout = read_stage_examples(examples_folder(run.path, 1)).heldout
    gains = measure_gains(heldout, trained.policy.learner, TOKENS_AT_ONCE)
    pairs = preferences(heldout, gains, config.seed)
    if not pairs:
        raise UserError(
            f"the held-out feedback of {run.path} has no good and bad conversation to compare; "
            "gather more feedback, or compare on tasks with --env NAME; nothing was changed"
        )
    difference, _ = success_difference([pair.sign for pair in pairs])
    return Measured(
        of="feedback",
        difference=difference,
        preferred_gain=mean_gain(heldout, gains),
        without_one=least_without_one(pairs, authors),
    )


def least_without_one(pairs: Sequence[Preference], authors: Mapping[str, str]) -> Interval | None:
    """The difference that is least where one author's conversations are left out.

    None where that leaves no pair at all.
    """
    by_pair = [{_author(pair.good, authors), _author(pair.bad, authors)} for pair in pairs]
    found: list[Interval] = []
    for left_out in set().union(*by_pair):
        rest = [pair.sign for pair, who in zip(pairs, by_pair, strict=True) if left_out not in who]
        if not rest:
            return None
        found.append(success_difference(rest)[0])
    return min(found, key=lambda interval: interval.low)


def _author(example: str, authors: Mapping[str, str]) -> str:
    """Who labelled the conversation of an example; see `Example.id`."""
    return authors.get(example.removesuffix(CORRECTED).partition("#")[0], "")
