"""`practicum traces label`: a person says which traces are good, and a labeler learns from it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from practicum.cli.arguments import indented, plain, takes_options
from practicum.core.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.core.trace import Message, Trace
    from practicum.store.trace_store import SqliteTraceStore
    from practicum.traces.labelling import (
        Agreement,
        LabelReport,
        LabelSession,
        Prediction,
        TracePool,
    )

Kind = Literal["good", "bad", "skip", "note", "undo", "quit"]
KEYS: dict[str, Kind] = {
    "g": "good",
    "b": "bad",
    "s": "skip",
    "n": "note",
    "u": "undo",
    "q": "quit",
}
WORDS: dict[str, Kind] = {**KEYS, **{kind: kind for kind in KEYS.values()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer."""

    kind: Kind
    note: str = ""
    episode_id: str = ""
    """Which trace it is about; empty for the one that is shown."""


def read_answer(line: str, where: str) -> Answer:
    """An answer written as a line.

    >>> read_answer("bad wrong folder", "line 1")
    Answer(kind='bad', note='wrong folder', episode_id='')
    >>> read_answer("trace-7 g", "line 2")
    Answer(kind='good', note='', episode_id='trace-7')
    """
    first, _, rest = line.strip().partition(" ")
    if first.lower() in WORDS:
        return Answer(kind=WORDS[first.lower()], note=rest.strip())
    verdict, _, note = rest.strip().partition(" ")
    kind = WORDS.get(verdict.lower())
    if kind in ("good", "bad"):
        return Answer(kind=kind, note=note.strip(), episode_id=first)
    raise UserError(
        f"{where}: {line.strip()!r:.80} is no answer; write good, bad, skip, note TEXT, undo or "
        "quit (or the first letter), or the id of a trace and good or bad"
    )


def from_file(path: Path) -> Iterator[Answer]:
    """The answers in a file, a line each; empty lines and lines after # are left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"--answers {str(path)!r} cannot be read ({error}); give a text file with an answer "
            "on each line, such as good"
        ) from error
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield read_answer(line, f"{path}, line {number}")


def from_lines(read: Callable[[], str], complain: Callable[[str], None]) -> Iterator[Answer]:
    """Answers typed as lines, until there are no more; what is no answer is asked for again."""
    while line := read():
        try:
            yield read_answer(line, "typed")
        except UserError as wrong:
            complain(str(wrong))


def from_keys(press: Callable[[], str], ask_note: Callable[[], str]) -> Iterator[Answer]:
    """Answers typed as single keys; other keys do nothing."""
    while True:
        kind = KEYS.get(press().lower())
        if kind is not None:
            yield Answer(kind=kind, note=ask_note() if kind == "note" else "")


STYLES = {"system": "dim", "user": "cyan", "assistant": "bold", "tool": "yellow"}
SHOWN_LINES = 12
SHOWN_CHARS = 1200
"""Of a message; the middle of a longer one is left out."""


def print_trace(console: "Console", trace: "Trace", left: int, whole: bool) -> None:
    """A trace as a conversation. Its outcome, score and suggested label stay out of sight."""
    from rich.text import Text

    console.rule(style="dim")
    about = f"{trace.env} {trace.task_id}" + (f", from {trace.source}" if trace.source else "")
    console.print(Text.assemble((plain(trace.id), "bold"), f"  {plain(about)}"))
    for message in trace.messages():
        _print_message(console, message, whole)
    failure = f": {plain(trace.failure.message)}" if trace.failure else ""
    turns = len(trace.turns)
    told = f"stopped: {trace.stop.value}{failure}; {turns} turns; {left} traces left"
    console.print(told, style="dim", markup=False)


def _print_message(console: "Console", message: "Message", whole: bool) -> None:
    role = f"{message.role} (failed)" if message.is_error else message.role
    parts = [f"(thinks) {message.reasoning}"] if message.reasoning else []
    parts += [message.content] if message.content else []
    parts += [f"→ {call.name} {_arguments(call.arguments)}" for call in message.tool_calls]
    shown = "\n".join(parts)
    text = indented(shown if whole else _shortened(shown), spaces=2)
    from rich.text import Text

    console.print(Text(f"{role}:", style=STYLES[message.role]))
    console.print(f"  {text}", markup=False, soft_wrap=True)


def _arguments(arguments: object) -> str:
    import json

    return json.dumps(dict(arguments), ensure_ascii=False)  # type: ignore[call-overload]


def _shortened(text: str) -> str:
    """The beginning and the end, with what was left out between them."""
    lines = text.split("\n")
    if len(lines) > SHOWN_LINES:
        half = SHOWN_LINES // 2
        left_out = len(lines) - 2 * half
        text = "\n".join([*lines[:half], f"[… {left_out} lines]", *lines[-half:]])
    if len(text) > SHOWN_CHARS:
        half = SHOWN_CHARS // 2
        text = f"{text[:half]} [… {len(text) - 2 * half} characters] {text[-half:]}"
    return text


def print_suggestion(console: "Console", good: bool, said: "Prediction | None") -> None:
    """What the labeler would have said, now that the person has spoken."""
    told = "good" if good else "bad"
    if said is None:
        console.print(f"{told}; the labeler has too few labels yet to have a view")
        return
    same = "agrees" if said.is_good == good else "would have said otherwise"
    view = f"good with {said.probability:.2f}"
    console.print(f"{told}; the labeler {same}: {view}", markup=False)


def print_report(console: "Console", report: "LabelReport") -> None:
    """Counts, agreement and calibration."""
    labelled = report.good + report.bad
    console.print(
        f"{labelled} episodes labelled by people: {report.good} good, {report.bad} bad; "
        f"{report.unlabelled} not; {report.suggestions} with a suggestion"
    )
    for author, count in report.authors.items():
        console.print(f"  {plain(author)}: {count}", markup=False)
    for who, agreement in report.people.items():
        console.print(f"{plain(who)} {_agreement(agreement)}", markup=False)
    if report.suggested.n:
        told = _agreement(report.suggested)
        console.print(f"suggestions, with what people said after them: {told}", markup=False)
    if report.labeler is None or report.calibration is None:
        console.print("the labeler needs 3 good and 3 bad labels before it can be checked")
        return
    told = _agreement(report.labeler)
    console.print(f"labeler, with labels it had not seen: {told}", markup=False)
    found = report.calibration
    console.print(
        f"calibration error {found.error:.3f} ({found.by_chance:.3f} is to be expected of right "
        f"probabilities with as many labels), Brier score {found.brier:.3f}"
    )
    for probability, share, count in found.bins:
        console.print(f"  said {probability:.2f}: {share:.2f} were good, n = {count}")
    console.print(
        "labels chosen where the labeler is undecided are harder than most: --order random gives "
        "labels to measure with",
        style="dim",
    )


def _agreement(found: "Agreement") -> str:
    if found.agreed is None:
        return "nothing to compare"
    told = f"agree on {found.agreed:.2f}, n = {found.n}"
    if found.kappa is None:
        return f"{told}, kappa undefined (only one verdict was given)"
    return f"{told}, kappa {found.kappa:.2f} [{found.low:.2f}, {found.high:.2f}]"


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
    """Label traces as good or bad, those first that teach most.

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
    from practicum.store.trace_store import SqliteTraceStore

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
    from practicum.assemble.wired_rewards import load_embedder
    from practicum.traces.labelling import read_pool

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
    from practicum.traces.labelling import report_labels

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

    from practicum.traces.labelling import save_labeler, suggest_labels, teach

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
    from practicum.traces.labelling import LabelSession

    session = LabelSession(store, pool, options.author or login(), options.order, options.seed)  # type: ignore[arg-type]  # checked above
    try:
        _ask_until_done(session, _answers(session, options, console), options, console)
    except KeyboardInterrupt:  # as good as q: every answer is kept already
        console.print()
    counts = session.counts
    console.print(
        f"{counts['labelled']} labelled ({counts['good']} good, {counts['bad']} bad), "
        f"{counts['skipped']} skipped, {counts['left']} left"
    )
    return dict(counts)


def _ask_until_done(
    session: "LabelSession", answers: "Iterator[Answer]", options: LabelOptions, console: "Console"
) -> None:
    shown, note = "", ""
    while options.n is None or session.counts["labelled"] < options.n:
        answer = next(answers, None) if options.answers is not None else None
        if answer is not None and answer.episode_id:
            session.record(answer.episode_id, float(answer.kind == "good"), answer.note)
            continue
        episode = session.next()
        if episode is None:
            console.print("every trace of the pool has been seen")
            return
        if episode.trace.id != shown:
            shown, note = episode.trace.id, ""
            print_trace(console, episode.trace, session.left(), options.whole)
        answer = answer or next(answers, None)
        if answer is None or answer.kind == "quit":
            return
        if answer.kind == "note":
            note = answer.note
            console.print(f"note: {note}", markup=False)
        else:
            _act(session, answer, shown, note, console)
            shown = ""


def _act(
    session: "LabelSession", answer: "Answer", shown: str, note: str, console: "Console"
) -> None:
    """Carry out an answer about the trace that is shown, or about one that is named."""
    if answer.kind == "skip":
        session.skip(shown)
    elif answer.kind == "undo":
        name = session.undo()
        told = "nothing to undo" if name is None else f"taken back: {name}"
        console.print(told, style="dim", markup=False)
    elif answer.episode_id:
        session.record(answer.episode_id, float(answer.kind == "good"), answer.note)
    else:
        is_good = answer.kind == "good"
        said = session.answer(shown, float(is_good), answer.note or note)
        print_suggestion(console, is_good, said)


def _answers(
    session: "LabelSession", options: LabelOptions, console: "Console"
) -> "Iterator[Answer]":
    """From a file, from keys where there is a terminal, else from lines on standard input."""
    import sys

    def press() -> str:
        console.print(PROMPT, end="", style="dim", markup=False)
        key = typer.getchar()
        console.print()
        return key

    def ask_note() -> str:
        return console.input("note: ")

    if options.answers is not None:
        answers = list(from_file(options.answers))
        session.require_known(answer.episode_id for answer in answers if answer.episode_id)
        return iter(answers)
    if sys.stdin.isatty():
        return from_keys(press, ask_note)
    return from_lines(sys.stdin.readline, lambda wrong: console.print(wrong, markup=False))


def login() -> str:
    """The name that the user is logged in with."""
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
