"""`practicum env serve`: an environment behind a server, many episodes at once."""

import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

if TYPE_CHECKING:
    from practicum.cli.serving_keys import ServingKey
    from practicum.core.config.config_sections import EnvConfig
    from practicum.core.interfaces import Environment
    from practicum.environments.serving.served_episodes import ServerSettings

SERVER_WORD = "server."
"""Words that begin with it are options of the server, all others of the environment."""

app = typer.Typer(help="Serve environments to other programs.", no_args_is_help=True)


@app.callback()
def env() -> None:
    """Serve environments to other programs."""


@app.command()
def serve(
    name: Annotated[str, typer.Argument(metavar="ENV", help="Environment, such as math.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value]...",
            help="Options, such as level=2; those of the server as server.idle_s=60.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    key_file: Annotated[
        Path | None,
        typer.Option(help="File with the key; made, with a new key, where there is none."),
    ] = None,
    max_episodes: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 128,
    lifelong: Annotated[
        bool, typer.Option("--lifelong", help="Add the LifelongAgentBench routes.")
    ] = False,
    factory_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of its chat items; 0 serves none.")
    ] = 8001,
) -> None:
    """Serve an environment over HTTP and WebSocket until Ctrl-C.

    practicum env serve math --port 8000                  OpenEnv clients, many at once

    practicum env serve math level=2 server.idle_s=60     options of both

    practicum env serve math --lifelong                   a LifelongAgentBench task server

    Options of the server: idle_s, step_timeout_s, max_turns, samples, names, stop_with_stdin.
    """
    import asyncio

    from practicum.assemble.environments import open_environment
    from practicum.cli.serving_keys import choose_key
    from practicum.core.capabilities import session_kind
    from practicum.core.errors import UserError
    from practicum.environments.serving.served_episodes import KEY_VARIABLE, ServerSettings

    launch = _launcher()
    words = options or []
    with _address_channel() as channel:
        config, more = _env_config(name, words), _server_options(words)
        environment = open_environment(config)
        if lifelong and session_kind(environment) == "tools":
            raise UserError("--lifelong speaks the text protocol; serve with protocol=text")
        stop_with_stdin = more.pop("stop_with_stdin")
        fixed: dict[str, Any] = {"max_episodes": max_episodes, "factory_port": factory_port, **more}
        # What it cannot be is refused before a key is made.
        ServerSettings(key="", host=host, lifelong=lifelong, **fixed)
        key = choose_key(host, key_file, KEY_VARIABLE)
        settings = ServerSettings(key=key.key, host=host, port=port, lifelong=lifelong, **fixed)
        ready = _announcement(environment, settings, _told_key(key, key_file), channel)
        asyncio.run(launch(environment, settings, ready, stop_with_stdin=stop_with_stdin))


def _env_config(name: str, words: list[str]) -> "EnvConfig":
    from practicum.core.config.config_sections import EnvConfig
    from practicum.core.config.parse_config import apply_overrides

    own = [word for word in words if not word.startswith(SERVER_WORD)]
    values = apply_overrides(
        {"env": {"name": name}}, [f"env.{word.removeprefix('env.')}" for word in own]
    )
    return EnvConfig.model_validate(values["env"])


def _server_options(words: list[str]) -> dict[str, Any]:
    """The options of the server among the words, checked."""
    from pydantic import Field, ValidationError, create_model

    from practicum.core.config.config_sections import ConfigModel
    from practicum.core.config.parse_config import apply_overrides, explain
    from practicum.core.errors import ConfigError

    class Options(ConfigModel):
        """What a server can be told besides its address."""

        idle_s: float = Field(default=600.0, gt=0)
        step_timeout_s: float = Field(default=300.0, gt=0)
        max_turns: int = Field(default=0, ge=0)
        samples: int = Field(default=500, ge=1)
        names: tuple[str, ...] = ()
        stop_with_stdin: bool = False

    whole = create_model("Server", server=(Options, Options()))
    own = [word for word in words if word.startswith(SERVER_WORD)]
    try:
        checked = whole.model_validate(apply_overrides({}, own))
    except ValidationError as error:
        raise ConfigError(explain(error, whole)) from None
    found: Options = getattr(checked, "server")  # noqa: B009 - the field is made at run time
    return found.model_dump()


def _launcher() -> Callable[..., Coroutine[Any, Any, None]]:
    """What serves; its packages are looked for before anything is made."""
    from practicum.core.errors import MissingExtra

    try:
        from practicum.environments.serving.env_server import serve as launch
    except ImportError:
        raise MissingExtra.for_extra("serve", "practicum env serve") from None
    return launch


def _told_key(key: "ServingKey", file: Path | None) -> str:
    """What is said of a key that was made here."""
    if not key.is_generated:
        return ""
    return f"key: {key.key}" if file is None else f"the key is in {file}"


@contextmanager
def _address_channel() -> Iterator[TextIO]:
    """Standard output for the address alone: whatever else prints does so on standard error.

    A program that starts this one reads the address there, and then no more. What a user's code
    prints, itself or in processes it starts, would come before it, or fill the pipe and block.
    """
    try:
        number, other = sys.stdout.fileno(), sys.stderr.fileno()
    except OSError:  # not a file, as in tests
        yield sys.stdout
        return
    sys.stdout.flush()
    with os.fdopen(os.dup(number), "w") as channel:
        os.dup2(other, number)
        try:
            yield channel
        finally:
            sys.stdout.flush()
            os.dup2(channel.fileno(), number)


def _announcement(
    environment: "Environment", settings: "ServerSettings", shown_key: str, channel: TextIO
) -> Callable[[str, str], None]:
    """Says where the server is, once it listens."""
    from practicum.core.capabilities import sandbox_kind

    sandbox = sandbox_kind(environment)  # looked at now: there may be none

    def ready(address: str, factory_address: str) -> None:
        print(address, file=channel, flush=True)
        lines = [f"serving {environment.name} at {address}; Ctrl-C stops it", shown_key]
        if sandbox:
            lines.append(f"sandbox: {sandbox}")
        if settings.lifelong:
            lines.append(f"LifelongAgentBench: tasks at {address}/api")
        if factory_address:
            lines.append(f"LifelongAgentBench: chat items at {factory_address}")
        print("\n".join(filter(None, lines)), file=sys.stderr, flush=True)

    return ready
