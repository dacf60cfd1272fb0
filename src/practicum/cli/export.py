"""`practicum export`: a trained model as others load it, checked before it has its name."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from practicum.core.checkpoint import Comparison
    from practicum.core.sample import Episode
    from practicum.workflows.exports import Export


def export(
    policy: Annotated[str, typer.Argument(metavar="RUN|CHECKPOINT|MODEL", help="What leaves.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DIR] [key=value]...",
            help="Where to, exports/NAME-KIND if not said; config values, such as env.level=2 or "
            "hardware.profile=ryzen.",
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            help="adapter: for PEFT; merged, the default: transformers and vLLM; gguf: llama.cpp; "
            "ollama: the same with a Modelfile; lora-gguf: llama.cpp on top of the base model. "
            "Again for several, side by side."
        ),
    ] = None,
    quant: Annotated[
        list[str] | None,
        typer.Option(
            help="Type of the .gguf file: Q2_K, Q3_K_M, Q4_K_M, Q5_K_M, Q6_K, Q8_0, F16, BF16 or "
            "all; again for several. One that fits the memory if not said."
        ),
    ] = None,
    env: Annotated[str | None, typer.Option(help="Environment; a run's own unless given.")] = None,
    n: Annotated[int, typer.Option(min=1, help="Held-out tasks to compare on.")] = 100,
    force: Annotated[
        bool, typer.Option("--force", help="Keep what differs more than its type allows.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Export a trained model and check the files. What was written has to be that model.

    practicum export runs/demo --to merged my-model             a folder for transformers, vLLM

    practicum export latest --to gguf --quant all               every type, side by side

    practicum export runs/demo my-model --to ollama             a .gguf file with a Modelfile

    practicum export latest --to adapter --to merged --to gguf  all in one table
    """
    from rich.console import Console

    folder, options = _read_words(words or [])
    _check_policy(policy, to or [])
    from practicum.workflows.exports import export as write

    options |= {"env": env} if env else {}
    with ExportLines(Console(stderr=True)) as watcher:
        asked: dict[str, Any] = {"quants": quant or (), "n": n, "force": force}
        done = write(policy, to or ["merged"], folder, watcher=watcher, **asked, **options)
    if json_output:
        import json

        print(json.dumps(done.to_json()))
    else:
        _show(done)


def _check_policy(policy: str, to: list[str]) -> None:
    """Refuse what names nothing, before what exports is loaded, which takes seconds."""
    from practicum.api import find_checkpoint
    from practicum.core.errors import MissingExtra
    from practicum.engine.models.loading import check_model_name

    MissingExtra.unless("torch", "train", "practicum export")
    if {"gguf", "ollama"} & set(to):
        MissingExtra.unless("sentencepiece", "export", "writing a .gguf file")
    if find_checkpoint(policy) is None:
        check_model_name(policy)


def _read_words(words: list[str]) -> tuple[str | None, dict[str, Any]]:
    """The folder, and the config values by key."""
    from practicum.core.config.parse_config import parse_yaml
    from practicum.core.errors import UserError

    folders = [word for word in words if "=" not in word]
    if len(folders) > 1:
        raise UserError(f"{folders[1]!r} is a second folder; give one, and config as key=value")
    pairs = [word.split("=", 1) for word in words if "=" in word]
    options = {key: parse_yaml(f"value: {value}", key)["value"] for key, value in pairs}
    return (folders[0] if folders else None), options


def _show(done: "Export") -> None:
    from rich.console import Console

    from practicum.delivery.ollama_program import commands

    console = Console()
    console.print(_table(done))
    for file in done.files:
        if file.refused:
            told = f"{file.kind} was not kept: {'; '.join(file.refused)}; --force keeps it"
            console.print(told, highlight=False)
        if file.fallbacks:
            console.print(
                f"{file.kind}: {len(file.fallbacks)} tensors are in an older type, because their "
                "rows do not divide by 256",
                highlight=False,
            )
        if file.outside and not file.refused:
            told = f"{file.kind} was kept by force: {'; '.join(file.outside)}"
            console.print(told, highlight=False)
    console.print(f"written to {done.folder}", highlight=False)
    for folder in sorted({file.parent for file in done.folder.rglob("Modelfile*")}):
        console.print(f"type: practicum ollama create {folder}, or", highlight=False)
        for line in commands(folder, done.folder.name):
            console.print(f"  {line}", highlight=False)


def _table(done: "Export") -> "Table":
    from rich.table import Table

    from practicum.evaluation.report import format_success

    original = done.original
    on = f"{len(original.tasks)} held-out tasks" if original else "on rows of its own data"
    table = Table(
        title=f"{done.lineage.policy}, {on}",
        caption="gap: of log-probabilities, root mean square; same: the likeliest token; "
        "! success differs from the original's by more than chance",
    )
    for name in ("file", "MB", "success", "diff", "gap", "KL", "same", "tok/s"):
        table.add_column(name, justify="left" if name == "file" else "right", no_wrap=True)
    table.add_row("original", "", format_success(original, digits=2) if original else "")
    for file in done.files:
        found = file.agreement
        table.add_row(
            file.kind,
            f"{file.bytes / 1e6:.0f}",
            format_success(file.report, digits=2) if file.report else "",
            _difference(file.comparison) if file.comparison else "",
            f"{found.gap:.3f}" if found else "",
            f"{found.divergence:.3f}" if found else "",
            f"{found.same_likeliest:.0%}" if found else "",
            f"{file.sampling_speed:.0f}" if file.sampling_speed else "",
        )
    return table


def _difference(comparison: "Comparison") -> str:
    from practicum.evaluation.compare import is_difference

    mark = " !" if is_difference(comparison) else ""
    return f"{comparison.decisive[1].value:+.2f}{mark}"


class ExportLines:
    """Shows on standard error what an export is doing."""

    def __init__(self, console: "Console") -> None:
        from practicum.cli.progress import EpisodeBar

        self._console, self._bar_kind = console, EpisodeBar
        self._bar: EpisodeBar | None = None
        self._stage = ""

    def __enter__(self) -> "ExportLines":
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def progress(self, stage: str, done: int, total: int) -> None:
        """One line for each stage."""
        self._close()
        if stage != self._stage:
            self._stage = stage
            self._console.print(stage, highlight=False)

    def evaluating(self, what: str, tasks: int) -> None:
        """A bar for each evaluation."""
        self._close()
        self._bar = self._bar_kind(self._console, f"evaluating {what}", tasks)
        self._bar.__enter__()

    def episode_done(self, episode: "Episode") -> None:
        """One more episode."""
        if self._bar is not None:
            self._bar.episode_done(episode)
