"""`practicum traces label`: a person says which traces are good, and a labeler learns from it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from practicum.cli.option_record import takes_options

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.assemble.labels import LabelDesk, TracePool
    from practicum.cli.label_answers import Answer
    from practicum.store import SqliteTraceStore

__all__ = ["label"]

DEFAULT_STORE = Path("traces.sqlite")
ORDERS = ("uncertain", "random", "oldest")
LEAST_SURE = 0.5
PROMPT = "[g]ood  [b]ad  [s]kip  [n]ote  [u]ndo  [q]uit "


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions:
    """The options of the command."""

    store: Annotated[
        Path, typer.Option(metavar="FILE|RUN", help="The trace store, or the folder of a run.")
    ] = DEFAULT_STORE
    where: Annotated[
        str, typer.Option(metavar="CONDITION", help='Which traces, such as "env = shell".')
    ] = ""
    author: Annotated[
        str, typer.Option(metavar="NAME", help="Who labels; the name you are logged in with.")
    ] = ""
    order: Annotated[
        str,
        typer.Option(
            metavar="|".join(ORDERS),
            help="What comes first: where a label teaches most, chance, or the oldest.",
        ),
    ] = "uncertain"
    n: Annotated[int | None, typer.Option(min=1, help="Stop after so many labels.")] = None
    answers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take the answers from a file, a line each."),
    ] = None
    whole: Annotated[bool, typer.Option("--whole", help="Show long messages whole.")] = False
    auto: Annotated[
        bool, typer.Option("--auto", help="Write suggested labels, marked as such, and stop.")
    ] = False
    min_confidence: Annotated[
        float, typer.Option(min=0.5, max=1.0, help="With --auto: suggest only what is as sure.")
    ] = LEAST_SURE
    report: Annotated[
        bool, typer.Option("--report", help="Print agreement and calibration, and stop.")
    ] = False
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Save the labeler for the reward 'learned'; stop."),
    ] = None
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="Read traces with this local model too.")
    ] = ""
    pool: Annotated[
        int, typer.Option(min=10, help="Unlabelled traces to choose from, drawn by chance.")
    ] = 2000
    seed: Annotated[int, typer.Option(help="Which way chance falls.")] = 0
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False


@takes_options(LabelOptions)
def label(options: LabelOptions) -> None:
    """Label traces as good or bad, one after the other, where a label teaches most.

    Each trace is shown without its score; what the labeler thinks is said after you have answered.
    Every answer is kept at once: quit when you like, and go on later.

    practicum traces label                               review

    practicum traces label --report                      agreement, calibration

    practicum traces label --auto --min-confidence 0.9   suggest the rest

    practicum traces label --save labeler                for the reward 'learned'

    practicum traces label --order random --n 50         labels to measure with
    """
    from rich.console import Console

    from practicum.core.errors import UserError
    from practicum.store import SqliteTraceStore

    if options.order not in ORDERS:
        raise UserError(f"--order {options.order!r} is no order; write one of {', '.join(ORDERS)}")
    file = options.store / DEFAULT_STORE if options.store.is_dir() else options.store
    if not file.is_file():
        raise UserError(
            f"there is no trace store {file}; make one with practicum traces import FILE, or name "
            "another with --store"
        )
    console = Console(highlight=False, stderr=options.json_output)
    with SqliteTraceStore(file) as store:
        found = _work(store, options, console)
    if options.json_output:
        import json

        print(json.dumps(found))


def _work(
    store: "SqliteTraceStore", options: LabelOptions, console: "Console"
) -> dict[str, object]:
    """Do what the options ask for; returns what came of it."""
    from practicum.assemble.labels import load_embedder, read_pool

    embedder = load_embedder(options.model) if options.model else None
    with _bar("reading traces", None) as advance:
        pool = read_pool(
            store,
            where=options.where,
            size=options.pool,
            seed=options.seed,
            embedder=embedder,
            on_trace=advance,
        )
    if options.report:
        return _report(store, pool, options, console)
    if options.auto or options.save is not None:
        return _teach(store, pool, options, console, embedder)
    return _review(store, pool, options, console)


def _report(
    store: "SqliteTraceStore", pool: "TracePool", options: LabelOptions, console: "Console"
) -> dict[str, object]:
    from practicum.assemble.labels import report_labels
    from practicum.cli.label_view import print_report

    report = report_labels(store, pool, options.seed)
    if not options.json_output:
        print_report(console, report)
    return report.as_json()


def _teach(
    store: "SqliteTraceStore",
    pool: "TracePool",
    options: LabelOptions,
    console: "Console",
    embedder: Any,
) -> dict[str, object]:
    """Teach a labeler, save it, and let it suggest labels, as asked."""
    from dataclasses import asdict

    from practicum.assemble.labels import save_labeler, suggest_labels, teach

    labeler, _ = teach(store, pool, options.seed)
    found: dict[str, object] = {"labels": labeler.labels}
    console.print(f"the labeler has learned from {labeler.labels} labels")
    if options.save is not None:
        save_labeler(labeler, options.save)
        found["saved"] = str(options.save)
        console.print(
            f"saved in {options.save}; as a reward: "
            f"reward.components=[{{name: learned, labeler: {options.save}}}]",
            markup=False,
        )
    if options.auto:
        with _bar("suggesting labels", store.count_where(options.where)) as advance:
            suggested = suggest_labels(
                store,
                labeler,
                where=options.where,
                minimum_confidence=options.min_confidence,
                embedder=embedder,
                on_trace=advance,
            )
        found["suggested"] = asdict(suggested)
        console.print(
            f"suggested: {suggested.good} good, {suggested.bad} bad; {suggested.unsure} less sure "
            f"than {options.min_confidence:.2f} and left alone"
        )
    return found


def _review(
    store: "SqliteTraceStore", pool: "TracePool", options: LabelOptions, console: "Console"
) -> dict[str, object]:
    from practicum.assemble.labels import LabelDesk

    desk = LabelDesk(store, pool, options.author or _login(), options.order, options.seed)  # type: ignore[arg-type]  # checked above
    try:
        _ask_until_done(desk, _answers(options, console), options, console)
    except KeyboardInterrupt:  # as good as q: every answer is kept already
        console.print()
    counts = desk.counts
    console.print(
        f"{counts['labelled']} labelled ({counts['good']} good, {counts['bad']} bad), "
        f"{counts['skipped']} skipped, {counts['left']} left"
    )
    return dict(counts)


def _ask_until_done(
    desk: "LabelDesk", answers: "Iterator[Answer]", options: LabelOptions, console: "Console"
) -> None:
    from practicum.cli.label_view import print_trace

    shown, note = "", ""
    while options.n is None or desk.counts["labelled"] < options.n:
        answer = next(answers, None) if options.answers is not None else None
        if answer is not None and answer.episode_id:
            desk.record(answer.episode_id, float(answer.kind == "good"), answer.note)
            continue
        episode = desk.next()
        if episode is None:
            console.print("every trace of the pool has been seen")
            return
        if episode.trace.id != shown:
            shown, note = episode.trace.id, ""
            print_trace(console, episode.trace, desk.left(), options.whole)
        answer = answer or next(answers, None)
        if answer is None or answer.kind == "quit":
            return
        if answer.kind == "note":
            note = answer.note
            console.print(f"note: {note}", markup=False)
        else:
            _act(desk, answer, shown, note, console)
            shown = ""


def _act(desk: "LabelDesk", answer: "Answer", shown: str, note: str, console: "Console") -> None:
    """Carry out an answer about the trace that is shown, or about one that is named."""
    from practicum.cli.label_view import print_suggestion

    if answer.kind == "skip":
        desk.skip(shown)
    elif answer.kind == "undo":
        name = desk.undo()
        told = "nothing to undo" if name is None else f"taken back: {name}"
        console.print(told, style="dim", markup=False)
    elif answer.episode_id:
        desk.record(answer.episode_id, float(answer.kind == "good"), answer.note)
    else:
        is_good = answer.kind == "good"
        said = desk.answer(shown, float(is_good), answer.note or note)
        print_suggestion(console, is_good, said)


def _answers(options: LabelOptions, console: "Console") -> "Iterator[Answer]":
    """From a file, from keys where there is a terminal, else from lines on standard input."""
    import sys

    from practicum.cli.label_answers import from_file, from_keys, from_lines

    def press() -> str:
        console.print(PROMPT, end="", style="dim", markup=False)
        key = typer.getchar()
        console.print()
        return key

    def ask_note() -> str:
        return console.input("note: ")

    if options.answers is not None:
        return from_file(options.answers)
    if sys.stdin.isatty():
        return from_keys(press, ask_note)
    return from_lines(sys.stdin.readline, lambda wrong: console.print(wrong, markup=False))


def _login() -> str:
    import getpass

    from practicum.core.errors import UserError

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        raise UserError("who labels is not known here; give --author NAME") from None


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Callable[[], None]]:
    """A bar on standard error; yields what advances it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=total)
        yield lambda: bars.advance(task)
