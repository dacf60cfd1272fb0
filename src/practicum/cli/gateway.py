"""`practicum gateway`: a model behind a URL that any agent can use; what it samples is recorded."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from practicum.cli.arguments import takes_options
from practicum.core.errors import MissingExtra

if TYPE_CHECKING:
    from practicum.assemble.build_gateway import GatewayPlan, KeySource, Serving
    from practicum.core.config.config_sections import ModelConfig, RolloutConfig

KEY_VARIABLE = "PRACTICUM_GATEWAY_KEY"
"""Environment variable that may hold the control key."""
MAX_TOKENS = 1024
"""Longest answer of a model that no config says more about, where a request names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayArguments:
    """What the command is told."""

    policy: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG|MODEL|RUN|reward",
            help="A config file, a model's name, or a run's folder; `reward` rewards a rollout.",
        ),
    ]
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value]...",
            help="Values of the config, such as rollouts.max_tokens=512, the longest answer where "
            "a request names none.",
        ),
    ] = None
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8100
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    key_file: Annotated[
        Path | None,
        typer.Option(help="File with the control key; made, with a new key, where there is none."),
    ] = None
    store: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Trace store for rollouts that are closed.")
    ] = None
    open_count: Annotated[
        int, typer.Option("--open", min=0, metavar="N", help="Rollouts to open at once.")
    ] = 1
    socket: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Control socket of a gateway that runs, for `reward`."),
    ] = None
    export: Annotated[
        bool,
        typer.Option("--export", help="Print the lines that a shell takes to reach the model."),
    ] = False
    max_turns: Annotated[int, typer.Option(min=0, help="Turns of a rollout; 0: no limit.")] = 0
    ignore_unknown: Annotated[
        bool,
        typer.Option(
            "--ignore-unknown", help="Ignore parameters that are not known, and count them."
        ),
    ] = False
    concurrency: Annotated[
        int, typer.Option(min=0, help="Requests of a rollout at once, more wait; 0: no limit.")
    ] = 16


@takes_options(GatewayArguments)
def gateway(options: GatewayArguments) -> None:
    """Serve a model to agents, and record what they do, until Ctrl-C. Speaks OpenAI and Anthropic.

    practicum gateway smollm2-135m --store traces.sqlite     one rollout, its address and key

    practicum gateway runs/math-1 --open 4                   a trained policy, four rollouts

    practicum gateway configs/demo.yaml --port 0             the model and sampling of a config

    practicum gateway reward ROLLOUT 1.0                     reward a rollout of one that runs

    Each rollout has an address and a key of its own. An OpenAI client takes the address and /v1 as
    its base URL, an Anthropic client the address. More rollouts are opened (POST /rollouts),
    rewarded (POST /rollouts/ID/reward) and closed (DELETE /rollouts/ID) on the control socket:

    curl --unix-socket SOCKET --oauth2-bearer KEY http://control/rollouts
    """
    from practicum.assemble.build_gateway import (
        ControlKey,
        GatewayPlan,
        load_served,
        serve_gateway,
    )
    from practicum.cli.serving_keys import choose_key
    from practicum.core.conversation import RolloutLimits
    from practicum.engine.compute_thread import run_attended

    key_file, store = options.key_file, options.store
    if options.policy == "reward":
        from practicum.cli.gateway_reward import control_key, give_reward

        key_of_it = control_key(key_file, KEY_VARIABLE)
        print(give_reward(options.words or [], options.socket, key_of_it))
        return
    MissingExtra.unless("uvicorn", "gateway", "practicum gateway")
    key = choose_key(options.host, key_file, KEY_VARIABLE)
    model, adapter, rollouts = chosen_model(options.policy, options.words or [])
    plan = GatewayPlan(
        host=options.host,
        port=options.port,
        control_key=ControlKey(key.key),
        key_file=_watched(key_file),
        called=run_name(options.policy),
        open_count=options.open_count,
        ignore_unknown=options.ignore_unknown,
        limits=RolloutLimits(max_turns=options.max_turns, concurrency=options.concurrency),
    )
    shown = key.key if key.is_generated and key_file is None else str(key_file or KEY_VARIABLE)
    served = load_served(model, adapter, rollouts)
    ready = _announcement(plan, store, shown, options.export)
    say = partial(print, file=sys.stderr, flush=True)
    kept = run_attended(serve_gateway(served, plan, store, ready, say))
    if store is not None:
        print(f"{kept} rollouts are in {store}; look at them with:", file=sys.stderr)
        print(f"practicum traces list --store {store}", file=sys.stderr)


def _watched(key_file: Path | None) -> "KeySource[str] | None":
    """The control key's file, to be read again when it changes; None where the key is elsewhere."""
    import os

    from practicum.assemble.build_gateway import KeySource
    from practicum.cli.serving_keys import check_key, read_private

    if key_file is None or os.environ.get(KEY_VARIABLE):
        return None
    return KeySource(
        path=key_file, read=lambda: check_key(read_private(key_file).strip(), str(key_file))
    )


def chosen_model(
    policy: str, options: list[str]
) -> "tuple[ModelConfig, Path | None, RolloutConfig]":
    """The model, the folder of its adapter, and how it samples."""
    from practicum.api import find_checkpoint, policy_config
    from practicum.config_files import read_config
    from practicum.store.checkpoints import base_of_adapter

    if Path(policy).suffix in (".yaml", ".yml"):
        config = read_config(policy, options)
        return config.model, None, config.rollouts
    found = find_checkpoint(policy)
    if found is None:
        config = policy_config(policy, "math", [f"rollouts.max_tokens={MAX_TOKENS}", *options])
        return config.model, None, config.rollouts
    env = None if found.run is not None else "math"
    config = policy_config(policy, env, options)
    base = base_of_adapter(found.checkpoint.path)
    model = config.model.model_copy(update={"name": base})
    return model, found.checkpoint.path, config.rollouts


def run_name(policy: str) -> str:
    """What a client may call the model: the run's name; empty where it is no run."""
    from practicum.api import find_checkpoint

    found = find_checkpoint(policy) if Path(policy).suffix not in (".yaml", ".yml") else None
    return found.run.name if found is not None and found.run is not None else ""


def _announcement(
    plan: "GatewayPlan", store: Path | None, shown_key: str, exports: bool
) -> "Callable[[Serving], None]":
    """Says where the gateway is, once it listens; with `exports` as a shell takes it."""
    from practicum.core.loopback import is_loopback

    def ready(serving: "Serving") -> None:
        for _, place in serving.rollouts[:1]:  # alone on standard output, for scripts
            address = f"{place.url}/v1"
            lines = [f"export OPENAI_BASE_URL={address}", f"export OPENAI_API_KEY={place.key}"]
            print("\n".join(lines) if exports else address, flush=True)
        lines = [f"serving at {serving.address}; Ctrl-C stops it"]
        for name, place in serving.rollouts:
            lines.append(f"rollout {name}: OPENAI_BASE_URL={place.url}/v1")
            lines.append(f"{'':8} {'':12} ANTHROPIC_BASE_URL={place.url}")
        if serving.rollouts:
            lines.append(f"keys of these rollouts: {serving.rollouts_file}")
        lines.append(f"control socket: {serving.control_socket}")
        lines.append(f"control key: {shown_key}")
        if not is_loopback(plan.host):
            lines.append(f"WARNING: other machines can reach {plan.host}, without encryption")
        if store is None:
            lines.append("traces are not kept; add --store FILE to keep them")
        print("\n".join(lines), file=sys.stderr, flush=True)

    return ready
