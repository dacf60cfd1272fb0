"""`practicum traces`: list, show, import, record, score and export recorded episodes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from practicum.cli.label import label

if TYPE_CHECKING:
    from practicum.core.sample import Episode
    from practicum.store.trace_store import FoundEpisode, SqliteTraceStore
    from practicum.traces.importing import ImportReport, ScoreReport


def record(
    policy: Annotated[
        str,
        typer.Argument(metavar="RUN|CHECKPOINT|MODEL", help="Who acts; also reference or random."),
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Config values, such as env.level=2."),
    ] = None,
    env: Annotated[str | None, typer.Option(help="Environment; a run's own unless given.")] = None,
    n: Annotated[int, typer.Option(min=1, help="Training tasks.")] = 100,
    k: Annotated[int, typer.Option(min=1, help="Episodes of each task.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest token.")] = 1.0,
    store: Annotated[str, typer.Option(metavar="FILE", help="Where they go.")] = "traces.sqlite",
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Let a policy act on training tasks, and store its episodes.

    practicum traces record smollm2-135m --env math --n 250 --k 2

    practicum traces record runs/demo/step_4 --n 250 --store mediocre.sqlite

    practicum traces record smollm2-135m --env math eval.seed=1         other tasks, other draws

    What is recorded can be learned from:

    practicum train math algorithm=kto data=mediocre.sqlite
    """
    import asyncio
    from pathlib import Path

    from rich.console import Console

    from practicum.api import open_policy, policy_config
    from practicum.assemble.environments import open_environment
    from practicum.assemble.policies import record_episodes
    from practicum.cli.progress import EpisodeBar
    from practicum.environments.registry import run_and_close

    words = [f"eval.n={n}", f"eval.k={k}", f"eval.temperature={temperature}"]
    config = policy_config(policy, env, [*words, *(options or [])])
    environment = open_environment(config.env)
    handle = open_policy(policy, config, environment)
    with EpisodeBar(Console(stderr=True), f"recording {policy}", n * k) as bar:
        work = record_episodes(handle, environment, config, Path(store), bar.episode_done)
        episodes = asyncio.run(run_and_close(environment, work))
    _show(episodes, store, json_output)


def _show(episodes: "list[Episode]", store: str, json_output: bool) -> None:
    import json

    from rich.console import Console

    successes = [e.outcome.success for e in episodes if e.is_usable and e.outcome is not None]
    found = {
        "store": store,
        "episodes": len(episodes),
        "usable": sum(e.is_usable for e in episodes),
        "succeeded": sum(success is True for success in successes),
        "failed": sum(success is False for success in successes),
    }
    if json_output:
        print(json.dumps(found))
        return
    Console().print(
        f"{found['episodes']} episodes are in {store}: {found['succeeded']} succeeded, "
        f"{found['failed']} failed, {len(episodes) - len(successes)} were left out.",
        highlight=False,
    )


FALLS_SHORT = 1
PROBLEMS_SHOWN = 20

Store = Annotated[
    Path,
    typer.Option("--store", metavar="FILE|RUN", help="The trace store, or the folder of a run."),
]
Where = Annotated[
    str,
    typer.Option(
        "--where", metavar="CONDITION", help='Which episodes, such as "success and score > 0.5".'
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
DEFAULT_STORE = Path("traces.sqlite")

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def traces() -> None:
    """Work with recorded episodes: of runs and of other agents.

    practicum traces import logs.jsonl                    into traces.sqlite

    practicum traces list --where "success = false"       which there are

    practicum traces show ID                              one of them, whole

    practicum traces record smollm2-135m --env math       let a policy act, and keep it

    practicum traces label                                say which are good

    practicum traces score --reward tool_success          score them again

    practicum traces export good.jsonl --where "label = 1"

    A condition compares success, score, label, suggested, env, source, model, task, id, purpose,
    stop, turns, tokens, step or created with a value (= != < <= > >=, ~ for contains, = none for
    what is not known), joined by and, or, not and brackets.
    """


@app.command(name="list")
def list_traces(
    store: Store = DEFAULT_STORE,
    where: Where = "",
    n: Annotated[int, typer.Option(min=1, max=10_000, help="How many to list.")] = 20,
    after: Annotated[int, typer.Option(min=0, help="Begin after this row.")] = 0,
    count_by: Annotated[
        str, typer.Option(metavar="FIELD", help="Count by source, model, env, success, ...")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List episodes, oldest first, a page at a time.

    practicum traces list                                         the first twenty

    practicum traces list --where "source = art and score >= 1"   some of them

    practicum traces list --count-by source                       how many of each

    practicum traces list --store runs/math-1                     those of a run
    """
    with _open(store, read_only=True) as opened:
        if count_by:
            counts = opened.counts_by(count_by, where)
            _print_counts(count_by, counts, as_json)
            return
        found = opened.find(where, limit=n, after=after)
        total = opened.count_where(where)
        prompts = {} if as_json else {one.summary.id: _asked(opened, one) for one in found}
    rest = found[-1].row if len(found) == n else None
    if as_json:
        rows = [_row_as_json(one) for one in found]
        print(json.dumps({"count": total, "episodes": rows, "next_after": rest}))
    else:
        _print_table(found, prompts, total, rest)


@app.command()
def show(
    episode_id: Annotated[str, typer.Argument(metavar="ID", help="As traces list shows it.")],
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Show one episode: what was said and called, score and labels.

    practicum traces show chat-1
    """
    from dataclasses import asdict

    from practicum.core.errors import UserError
    from practicum.store.episode_codec import episode_to_json

    with _open(store, read_only=True) as opened:
        episode = opened.get(episode_id)
        labels = list(opened.labels(episode_id))
        if episode is None:
            raise UserError(
                f"{opened.path} has no episode {episode_id!r}; "
                f"practicum traces list --store {opened.path} shows those it has"
            )
    if as_json:
        values = {**episode_to_json(episode), "labels": [asdict(label) for label in labels]}
        print(json.dumps(values))
        return
    from practicum.cli.trace_view import print_episode

    print_episode(episode, labels)


@app.command(name="import")
def import_files(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER...", help="What to import.")],
    store: Store = DEFAULT_STORE,
    format: Annotated[
        str, typer.Option(metavar="NAME", help="Of all files; else seen from their content.")
    ] = "",
    env: Annotated[
        str, typer.Option(metavar="NAME", help="File the episodes under this environment.")
    ] = "",
    keep_secrets: Annotated[
        bool, typer.Option("--keep-secrets", help="Store keys, tokens and passwords as they are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import traces of other agents. Each episode is kept once, however often it is imported.

    practicum traces import chats.jsonl                       OpenAI chats, one a line

    practicum traces import spans.jsonl --format otel         OpenTelemetry spans

    practicum traces import ~/.openhands/conversations        a folder, formats recognised

    Formats: openai-chat, otel, openhands-v0, openhands-v1, lifelong, art, toolbox, practicum.
    What cannot be read is named with its line, the rest is kept, and the exit code is 1.
    An import that was killed goes on where it was.
    """
    from practicum.cli.progress import ImportBar
    from practicum.traces.importing import find_importable, import_traces

    find_importable(paths, format)  # no store is made for a mistake
    with _open(store, create=True) as opened, ImportBar(quiet=as_json) as bar:
        report = import_traces(paths, opened, bar, format=format, env=env, redact=not keep_secrets)
    if as_json:
        print(json.dumps(_import_as_json(report)))
    else:
        _print_import(report, store)
    raise typer.Exit(FALLS_SHORT if report.refused else 0)


@app.command()
def score(
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Options of the reward, as in a config."),
    ] = None,
    reward: Annotated[
        str,
        typer.Option(metavar="NAME|FILE", help="os, turns, components, or a config with reward:."),
    ] = "os",
    store: Store = DEFAULT_STORE,
    where: Where = "",
    as_json: AsJson = False,
) -> None:
    """Score stored episodes again. The new scores take the place of the old.

    practicum traces score                                      by outcome: +1, -0.5, 0

    practicum traces score correct=2 incorrect=0                the same with other values

    practicum traces score --reward tool_success,repetition     components, each with weight 1

    practicum traces score --reward configs/mine.yaml           the reward of a config

    The exit code is 1 when an episode could not be scored.
    """
    import asyncio

    from practicum.assemble.wired_rewards import REWARDS
    from practicum.cli.named_reward import named_reward
    from practicum.cli.progress import EpisodesBar
    from practicum.traces.importing import score_traces

    built = REWARDS.for_traces(named_reward(reward, options or []))
    with _open(store) as opened:
        total = opened.count_where(where)
        with EpisodesBar("scoring", total) as bar:
            report = asyncio.run(score_traces(opened, built, bar, where=where))
    if as_json:
        print(json.dumps(_score_as_json(report)))
    else:
        _print_score(report)
    raise typer.Exit(FALLS_SHORT if report.unscored else 0)


@app.command()
def export(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="A .jsonl, .json or .parquet file, or a folder.")
    ],
    store: Store = DEFAULT_STORE,
    where: Where = "",
    to: Annotated[
        str, typer.Option(metavar="jsonl|json|parquet|hf", help="What OUT is; else by its name.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Write episodes to a file, or a folder for `datasets` to load.

    practicum traces export all.jsonl                               everything, one a line

    practicum traces export good.parquet --where "label = 1"        needs the extra parquet

    practicum traces export my-dataset                              a folder with a card

    Each record is whole: practicum traces import reads it back.
    """
    from practicum.cli.progress import EpisodesBar
    from practicum.store.trace_export import export_kind, export_traces
    from practicum.store.where import not_evaluated

    kind = export_kind(out, to)
    with _open(store, read_only=True) as opened:
        total = opened.count_where(where)
        evaluated = total - opened.count_where(not_evaluated(where))
        with EpisodesBar("writing", total) as bar:
            count = export_traces(opened, out, kind, where=where, on_episode=bar.one)
    if as_json:
        found = {"out": str(out), "kind": kind, "episodes": count, "evaluated": evaluated}
        print(json.dumps(found))
        return
    print(f"{count} episodes written to {out}")
    if evaluated:
        print(
            f"{evaluated} of them are evaluations on held-out tasks, not to be trained on; "
            'leave them out with --where "purpose != eval"'
        )


app.command()(label)
app.command()(record)


def _open(path: Path, *, read_only: bool = False, create: bool = False) -> "SqliteTraceStore":
    """The store at a path, or that of the run whose folder it is."""
    from practicum.core.errors import UserError
    from practicum.store.trace_store import SqliteTraceStore

    file = path / DEFAULT_STORE.name if path.is_dir() else path
    if not create and not file.is_file():
        raise UserError(
            f"there is no trace store {file}; make one with practicum traces import FILE, "
            "or name another with --store"
        )
    return SqliteTraceStore(file, read_only=read_only)


def _row_as_json(one: "FoundEpisode") -> dict[str, Any]:
    from dataclasses import asdict

    return {"row": one.row, **asdict(one.summary), "label": one.label}


def _asked(store: "SqliteTraceStore", one: "FoundEpisode") -> str:
    """What an episode was asked for; before it, why it has no score."""
    task = store.task(one.summary.env, one.summary.task_id)
    asked = task.instruction if task is not None else ""
    episode = store.get(one.summary.id) if one.summary.score is None or not asked else None
    if episode is None:
        return asked
    said = (message.content for message in episode.trace.messages() if message.role == "user")
    why = episode.score.reason if episode.score.value is None else ""
    return ": ".join(filter(None, (why, asked or next(said, ""))))


def _print_table(
    found: "list[FoundEpisode]", prompts: dict[str, str], total: int, rest: int | None
) -> None:
    from rich.console import Console

    from practicum.cli.trace_view import episode_table

    console = Console(highlight=False)
    console.print(episode_table(found, prompts, console.width))
    more = f"; the next page: --after {rest}" if rest is not None else ""
    console.print(f"{len(found)} of {total} episodes{more}", style="dim", soft_wrap=True)


def _print_counts(field: str, counts: "dict[str | bool | None, int]", as_json: bool) -> None:
    from practicum.cli.arguments import plain

    if as_json:
        rows = [{"value": value, "count": count} for value, count in counts.items()]
        print(json.dumps({"field": field, "counts": rows}))
        return
    for value, count in counts.items():
        shown = "not known" if value is None else plain(str(value)) or "(this program's own)"
        print(f"{count:10d}  {shown}")


def _import_as_json(report: "ImportReport") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "kept": report.kept,
        "already_there": report.doubled,
        "refused": report.refused,
        "redacted": dict(report.redacted),
        "files": [asdict(file) for file in report.files],
        "problems": [asdict(problem) for problem in report.problems],
    }


def _print_import(report: "ImportReport", store: Path) -> None:
    import sys

    from practicum.cli.arguments import plain

    for problem in report.problems[:PROBLEMS_SHOWN]:
        print(plain(str(problem)), file=sys.stderr)
    if report.refused > PROBLEMS_SHOWN:
        print(f"and {report.refused - PROBLEMS_SHOWN} more", file=sys.stderr)
    taken = ", ".join(f"{n} {kind}" for kind, n in sorted(report.redacted.items()))
    parts = [
        f"{report.kept} episodes imported into {store}",
        f"{report.doubled} were there already" if report.doubled else "",
        f"{report.refused} could not be read" if report.refused else "",
        f"secrets taken out: {taken}" if taken else "",
    ]
    print("; ".join(filter(None, parts)))


def _score_as_json(report: "ScoreReport") -> dict[str, Any]:
    return {
        "scored": report.scored,
        "unscored": report.unscored,
        "mean": report.mean,
        "components": report.means,
        "reasons": dict(report.reasons),
    }


def _print_score(report: "ScoreReport") -> None:
    mean = "" if report.mean is None else f", mean {report.mean:.3f}"
    print(f"{report.scored} episodes scored{mean}")
    if len(report.components) > 1:
        for name, value in report.means.items():
            print(f"  {name}: {value:.3f}")
    for reason, count in report.reasons.most_common():
        print(f"{count} could not be scored: {reason}")
