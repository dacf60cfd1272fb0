"""`practicum learn`: from recorded traffic and feedback to a better served model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from practicum.cli.arguments import takes_options

if TYPE_CHECKING:
    from practicum.workflows.feedback_loop import Learned


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnOptions:
    """What `practicum learn` is told."""

    source: Annotated[
        str, typer.Option("--from", metavar="STORE", help="Where traffic was recorded to.")
    ]
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Config values, such as steps=20."),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(metavar="served/NAME", help="The served model; the only one unless given."),
    ] = None
    kind: Annotated[
        Literal["auto", "kto", "dpo"],
        typer.Option(help="kto from thumbs and scores, dpo from corrections."),
    ] = "auto"
    env: Annotated[
        str | None,
        typer.Option(help="Where the models are compared; the traffic's own unless given."),
    ] = None
    n: Annotated[int | None, typer.Option(min=2, help="Held-out tasks; 200 unless given.")] = None
    where: Annotated[
        str, typer.Option(help="Which traces; those that people said something of unless given.")
    ] = "label != none"
    name: Annotated[
        str | None, typer.Option(metavar="ID", help="What to call the run's folder.")
    ] = None
    only_measure: Annotated[
        bool, typer.Option("--only-measure", help="Compare, and serve nothing new.")
    ] = False
    ask: Annotated[
        bool, typer.Option("--ask", help="Let what is better wait for a person's word.")
    ] = False
    keys: Annotated[
        int, typer.Option(min=1, help="Keys that must stand behind what is served unasked.")
    ] = 2
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


@takes_options(LearnOptions)
def learn(options: LearnOptions) -> None:
    """Learn from a served model's traffic; serve what proves better.

    practicum learn --from traffic.sqlite --model served/math

    practicum learn --from traffic.sqlite --kind dpo          from corrections

    practicum learn --from traffic.sqlite --env math --n 400  compare on tasks of math

    The new version is served only if the 95 % interval of the paired difference is above zero, and
    two keys or more stand behind it; with one, or with --ask, it waits: practicum served waiting
    """
    from practicum.cli.train import observe
    from practicum.workflows.feedback_loop import learn as learn_from

    learned = learn_from(
        options.source,
        options.model,
        kind=options.kind,
        env=options.env,
        n=options.n,
        promote="ask" if options.ask and not options.only_measure else not options.only_measure,
        keys=options.keys,
        observe=observe,
        where=options.where,
        name=options.name,
        words=options.words or [],
    )
    if options.json_output:
        import json

        print(json.dumps(learned.to_json()))
    else:
        _show(learned)


def _show(learned: "Learned") -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    traffic = learned.traffic
    console.print(
        f"{learned.kind} from {traffic.good} good, {traffic.bad} bad and {traffic.corrections} "
        f"corrected conversations, by {traffic.counted_keys}: {learned.run.path}"
    )
    for reason, count in traffic.left_out.counts.items():
        console.print(f"left out: {count} ({reason})")
    console.print(str(learned), markup=False)
