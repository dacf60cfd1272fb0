"""`practicum serve`: trained models in production, several at once and swapped while they serve."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from practicum.cli.arguments import takes_options

if TYPE_CHECKING:
    from practicum.workflows.served import RecordingRules, ServedModels, ServePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArguments:
    """What the command is told."""

    models: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|CHECKPOINT|MODEL|STUDY|served/NAME ...",
            help="What to serve, all of one base model; NAME=PATH chooses the model's name.",
        ),
    ]
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    server_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name of this machine that clients use; repeatable."),
    ] = None
    keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML file of API keys and their limits.")
    ] = None
    follow: Annotated[
        bool, typer.Option("--follow", help="Serve the best checkpoint of runs while they train.")
    ] = False
    env: Annotated[
        str | None, typer.Option(help="Where POST /solve acts; a run's own unless given.")
    ] = None
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of an answer whose request does not say.")
    ] = 1024
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the model runs.")
    ] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16"], typer.Option(help="Precision of the weights.")
    ] = "auto"
    chat_template: Annotated[
        str, typer.Option(metavar="FILE", help="For a model without one, or in place of its own.")
    ] = ""
    sampler: Annotated[
        bool, typer.Option("--sampler", help="Sample for a run that learns elsewhere; needs a key.")
    ] = False
    at_once: Annotated[
        int, typer.Option(min=1, help="Requests answered at once; others wait their turn.")
    ] = 64
    wait: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Seconds a request may wait.")
    ] = 60.0
    grace: Annotated[
        int, typer.Option(min=1, metavar="S", help="Seconds to finish in, when told to stop.")
    ] = 30
    access_log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A JSON line a request; - is standard error."),
    ] = None
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Trace store to record traffic in.")
    ] = None
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the traffic that is recorded.")
    ] = 1.0
    consent: Annotated[
        Literal["required", "assumed"],
        typer.Option(help="Whether a client that does not say so agrees to be recorded."),
    ] = "required"


@takes_options(ServeArguments)
def serve(options: ServeArguments) -> None:
    """Serve trained models until Ctrl-C. Speaks OpenAI and Anthropic, and has POST /solve.

    practicum serve runs/math-1                              a run, and its base model beside it

    practicum serve good=runs/a fast=runs/b --keys keys.yaml  two adapters over one base, with keys

    practicum serve runs/study                               every seed of a study, by its name

    practicum serve runs/math-1 --follow                     its best checkpoint, while it trains

    practicum serve served/algebra --record traffic.sqlite   what is promoted there; records

    An OpenAI client takes the address and /v1 as its base URL, an Anthropic client the address.
    """
    from practicum.engine.compute_thread import run_attended
    from practicum.workflows.served import ServedSite, ServeOptions, require_server, serve_site

    require_server()
    if options.sampler:
        _serve_sampler(options)
        return
    site = ServedSite(
        ServeOptions(
            words=tuple(options.models),
            follow=options.follow,
            env=options.env,
            max_tokens=options.max_tokens,
            device=options.device,
            dtype=options.dtype,
            chat_template=options.chat_template,
        )
    )
    plan = _plan(options, [one.name for one in site.words])
    run_attended(
        serve_site(
            site,
            plan,
            ready=_announcement(plan, options.record),
            say=_say,
            log=_log(options.access_log),
            record=options.record,
        )
    )
    _say("stopped")


def _serve_sampler(options: ServeArguments) -> None:
    """A replica for `sampler: {kind: practicum, urls: [...]}`."""
    from practicum.assemble.sampled_base import sampler_key
    from practicum.core.config.config_sections import ModelConfig
    from practicum.core.errors import UserError
    from practicum.engine.compute_thread import run_attended
    from practicum.workflows.served import GatewaySettings, ServePlan, serve_replica

    if len(options.models) != 1:
        raise UserError(
            f"--sampler has one base model, and {len(options.models)} words are given; name the "
            "model that is trained"
        )
    key = sampler_key("")
    if not key:
        raise UserError(
            "--sampler needs a key, which the run shows: put one into the variable "
            "PRACTICUM_SAMPLER_KEY here and there"
        )
    model = ModelConfig(
        name=options.models[0],
        device=options.device,
        dtype=options.dtype,
        chat_template=options.chat_template,
    )
    plan = ServePlan(
        settings=GatewaySettings(
            host=options.host, port=options.port, names=tuple(options.server_name or ())
        ),
        at_once=options.at_once,
        grace_s=options.grace,
    )

    def ready(address: str) -> None:
        print(address, flush=True)
        _say(f"{model.name} is sampled at {address} for sampler.urls=[{address}]; Ctrl-C stops it")

    run_attended(serve_replica(model, plan, key, ready))


def _plan(options: ServeArguments, names: list[str]) -> "ServePlan":
    """How to serve, with the keys that there are now."""
    from practicum.cli.key_file import key_file, read_keys
    from practicum.workflows.served import GatewaySettings, RecordingRules, ServePlan

    keys = read_keys(options.keys, names)
    _require_keys(options.host, bool(keys))
    return ServePlan(
        settings=GatewaySettings(
            host=options.host, port=options.port, names=tuple(options.server_name or ())
        ),
        keys=keys,
        key_file=key_file(options.keys, names),
        at_once=options.at_once,
        wait_s=options.wait,
        grace_s=options.grace,
        recording=RecordingRules(share=options.share, consent=options.consent),
    )


def _require_keys(host: str, has_keys: bool) -> None:
    from practicum.core.errors import UserError
    from practicum.core.loopback import is_loopback

    if not has_keys and not is_loopback(host):
        raise UserError(
            f"--host {host} lets other machines reach this server, so it needs keys: set "
            "PRACTICUM_SERVE_KEY, or add --keys FILE with lines such as keys: [{name: alice, "
            "key: ...}]"
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _log(path: Path | None) -> Callable[[str], None] | None:
    """What writes a line of the access log; None for no log."""
    if path is None:
        return None
    if str(path) == "-":
        return _say
    from practicum.core.errors import UserError

    try:
        file = path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise UserError(f"the access log {path} cannot be written ({error})") from None

    def write(line: str) -> None:
        file.write(line + "\n")

    return write


def _announcement(plan: "ServePlan", record: Path | None) -> "Callable[[str, ServedModels], None]":
    """Says where the server is, once it is ready."""
    from practicum.core.loopback import is_loopback

    def ready(address: str, models: "ServedModels") -> None:
        print(f"{address}/v1", flush=True)  # alone on standard output, for scripts
        lines = [f"serving at {address}; Ctrl-C stops it"]
        for model in models.all():
            lines.append(f"model {model.name}: {model.source} ({model.fingerprint})")
        lines.append(f"OPENAI_BASE_URL={address}/v1  ANTHROPIC_BASE_URL={address}")
        if not plan.keys:
            lines.append("no keys: every program on this machine may use it (--keys FILE)")
        if not is_loopback(plan.settings.host):
            lines.append(f"WARNING: {plan.settings.host} is reachable, without encryption")
        if record is not None:
            lines += _recording(record, plan.recording)
        _say("\n".join(lines))

    return ready


def _recording(record: Path, rules: "RecordingRules") -> list[str]:
    """What will be stored, and what clients must send for it."""
    from practicum.core.private_files import others_may_read

    asks = rules.consent == "required"
    which = "with the header X-Practicum-Record: yes" if asks else "but those that say no"
    lines = [
        f"recording to {record}: the messages, the answer and its tokens, without secrets, of "
        f"{rules.share:.0%} of the requests {which}"
    ]
    if asks:
        lines.append(
            "without that header nothing is stored, and feedback has nothing to be kept with"
        )
    else:
        lines.append("a request says no with the header X-Practicum-Record: no")
    if others_may_read(record):
        lines.append(f"WARNING: other users of this machine may read {record}: chmod 600 {record}")
    return lines
