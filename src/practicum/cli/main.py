"""The `practicum` command: one verb a file, heavy imports inside the verbs."""

import errno
import sys
from typing import Annotated

import typer

from practicum.cli.agents import app as agents
from practicum.cli.arguments import ConfigWords, arrange_examples
from practicum.cli.cluster import app as cluster
from practicum.cli.compare_studies import compare
from practicum.cli.dataset import app as dataset
from practicum.cli.doctor import doctor
from practicum.cli.env import app as env
from practicum.cli.eval import evaluate
from practicum.cli.export import export
from practicum.cli.gateway import gateway
from practicum.cli.learn import learn
from practicum.cli.models import app as models
from practicum.cli.monitor import monitor
from practicum.cli.new import new
from practicum.cli.ollama_models import app as ollama
from practicum.cli.plan import plan
from practicum.cli.play import play
from practicum.cli.push import push
from practicum.cli.runs import runs
from practicum.cli.sandbox import app as sandbox
from practicum.cli.serve import serve
from practicum.cli.sweep import sweep
from practicum.cli.tasks import tasks
from practicum.cli.traces import app as traces
from practicum.cli.train import train
from practicum.cli.trust import trust
from practicum.cli.versions import app as served
from practicum.cli.watch import watch
from practicum.cli.write_report import report
from practicum.core.errors import MissingExtra, PracticumError, UserError, user_line
from practicum.core.interrupted import interruptible

USER_MISTAKE = 2
STORAGE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})
"""Errors of a disk that is full, may only be read, or is not the user's."""

app = typer.Typer(
    name="practicum",
    help="Train the model that does the work, by doing the work.",
    epilog="Start with practicum doctor, then practicum train configs/tiny.yaml.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # loading rich would double the time of --help
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(doctor)
app.command()(plan)
app.add_typer(models, name="models")
app.command()(new)
app.command()(tasks)
app.command()(play)
app.command(cls=ConfigWords)(train)
app.command(name="eval", cls=ConfigWords)(evaluate)
app.command()(export)
app.command()(learn)
app.add_typer(served, name="served")
app.add_typer(ollama, name="ollama")
app.command()(push)
app.command()(compare)
app.command(cls=ConfigWords)(sweep)
app.command()(runs)
app.command()(watch)
app.command()(report)
app.command()(monitor)
app.add_typer(traces, name="traces")
app.add_typer(dataset, name="dataset")
app.add_typer(agents, name="agents")
app.add_typer(env, name="env")
app.command()(gateway)
app.command()(serve)
app.add_typer(sandbox, name="sandbox")
app.add_typer(cluster, name="cluster")
app.command()(trust)


def _arrange(of: typer.Typer) -> None:
    """Let the examples in every verb's help be as wide as they are."""
    for command in of.registered_commands:
        command.help = arrange_examples(command.help or (command.callback.__doc__ or ""))
    for group in of.registered_groups:
        inner = group.typer_instance
        if inner is not None:
            about = inner.registered_callback
            if about is not None and about.callback is not None:
                about.help = arrange_examples(about.callback.__doc__ or "")
            _arrange(inner)


_arrange(app)


def _print_version(asked: bool) -> None:
    if asked:
        from practicum import __version__

        print(f"practicum {__version__}")
        raise typer.Exit


@app.callback()
def practicum(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print it and stop."
        ),
    ] = False,
) -> None:
    """Train the model that does the work, by doing the work."""


def _verbs() -> list[str]:
    groups = [group.name for group in app.registered_groups]
    commands = [c.name or getattr(c.callback, "__name__", "") for c in app.registered_commands]
    return [name for name in (*groups, *commands) if name]


def main() -> None:
    """Run the command line. A user's mistake is one sentence and exit code 2, never a traceback."""
    interruptible(_run)


def _run() -> None:
    try:
        from practicum.cli.in_our_words import in_our_words
        from practicum.cli.typed_code import trust_typed

        trust_typed(sys.argv[1:])
        app(in_our_words(sys.argv[1:], _verbs()))
    except SystemExit as leave:
        if _is_interrupted(leave):  # typer has made an exit of it
            raise KeyboardInterrupt from None
        raise
    except BrokenPipeError:  # the reader of our output, such as head, has had enough
        sys.stderr.close()
    except Exception as error:
        told = _as_sentence(error)
        if told is None:
            raise
        print(f"practicum: {told}", file=sys.stderr)
        sys.exit(USER_MISTAKE if isinstance(told, UserError) else 1)


def _as_sentence(error: Exception) -> PracticumError | None:
    """What a user is told of an error; None for one of Practicum's own, which is a traceback."""
    if isinstance(error, PracticumError):
        return error
    missing = MissingExtra.of(error) if isinstance(error, ImportError) else None
    if missing is not None:
        return missing
    if isinstance(error, OSError) and error.errno in STORAGE:
        place = error.filename or "a file"
        return UserError(
            f"{place} cannot be read or written: {error.strerror}; free some space there, give "
            "yourself the permission, or name another folder"
        )
    line = user_line(error)
    return UserError(f"{type(error).__name__}: {error}{line}; mend that") if line else None


def _is_interrupted(leave: SystemExit) -> bool:
    at: BaseException | None = leave
    while at is not None:
        if isinstance(at, KeyboardInterrupt):
            return True
        at = at.__cause__ or at.__context__
    return False


if __name__ == "__main__":
    main()
