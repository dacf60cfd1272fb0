"""`practicum play`: watch or play one episode, turn by turn."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.core.interfaces import Environment, Observation
    from practicum.core.sample import Episode
    from practicum.core.sampling import ActionForm
    from practicum.core.task import Task
    from practicum.core.trace import ToolCall

__all__ = ["play"]

HUMAN = "human"


def play(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment, such as math.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Config values, such as env.level=2."),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="MODEL|RUN|reference|random|human", help="Who acts; human is you, typing."
        ),
    ] = "reference",
    task: Annotated[
        str | None, typer.Option(metavar="ID", help='A task\'s id or text, such as "3x + 7 = 16".')
    ] = None,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="0 takes the likeliest action.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Which task, and which way chance falls.")] = 0,
) -> None:
    """Show one episode step by step: action, reward, what came of it.

    practicum play math                                          the reference solution

    practicum play math --policy runs/demo --task "3x + 7 = 16"  a trained model

    practicum play math --policy human                           you

    practicum play shell env.level=3                             commands and what they print
    """
    import asyncio

    from rich.console import Console

    from practicum.assemble import (
        find_task,
        human_player,
        open_environment,
        play_once,
        run_and_close,
    )
    from practicum.cli.policies import open_player, policy_config

    named = "random" if policy == HUMAN else policy
    words = [f"eval.temperature={temperature}", *(options or [])]
    config = policy_config(named, env, words)
    environment = open_environment(config.env)
    console = Console(highlight=False)
    chosen = find_task(environment, task) if task else next(environment.tasks("heldout", seed))
    if policy == HUMAN:
        typed = getattr(environment, "turn_from_line", str)
        player = human_player(lambda actions: typed(_ask(console, actions)))
    else:
        player = open_player(named, config, environment)
    _print_start(console, chosen, environment, player.name)
    narrated: Any = _Narrated(environment, console)
    work = play_once(player, narrated, chosen, config, seed)
    _print_end(console, asyncio.run(run_and_close(environment, work)))


def _print_start(console: "Console", task: "Task", environment: "Environment", player: str) -> None:
    from rich.text import Text

    from practicum.assemble import sandbox_kind
    from practicum.cli.plain_text import plain

    kind = sandbox_kind(environment)
    where = f", sandbox {kind}" if kind else ""
    facts = f"  (level {task.level}, {player}{where})"
    console.print(Text.assemble((plain(task.instruction), "bold"), facts))


def _print_end(console: "Console", episode: "Episode") -> None:
    if episode.trace.failure is not None:
        reason = episode.trace.failure.message
        console.print(f"the episode failed: {reason}", style="red", markup=False)
        raise typer.Exit(1)
    solved = episode.outcome is not None and bool(episode.outcome.success)
    verdict = "[green]solved[/green]" if solved else "[red]not solved[/red]"
    value = episode.score.value
    total = "not scored" if value is None else f"total reward {value:g}"
    console.print(f"{verdict}, {total}, {episode.trace.stop.value}")
    for problem in _unmet(episode):
        console.print(f"  {problem}", markup=False)


def _unmet(episode: "Episode") -> list[str]:
    """What the checker says is not as it should be, where it says so piece by piece."""
    from practicum.cli.plain_text import plain

    evidence = episode.outcome.evidence if episode.outcome is not None else {}
    checks = evidence.get("checks")
    listed = checks if isinstance(checks, list) else []
    return [plain(str(one["why"])) for one in listed if isinstance(one, dict) and not one["ok"]]


def _ask(console: "Console", actions: "tuple[ActionForm, ...]") -> str:
    names = ", ".join(form.name + (" TERM" if form.argument else "") for form in actions)
    if names:
        console.print(names, style="dim")
    return console.input("> ").strip()


class _Narrated:
    """An environment that prints every turn as it happens."""

    def __init__(self, environment: "Environment", console: "Console") -> None:
        self._environment = environment
        self._console = console

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    @asynccontextmanager
    async def open(self, task: "Task") -> AsyncIterator[Any]:
        async with self._environment.open(task) as session:
            yield _NarratedSession(session, self._console)


class _NarratedSession:
    def __init__(self, session: Any, console: "Console") -> None:
        self._session = session
        self._console = console
        self._turn = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def act(self, text: str) -> "Observation":
        observation: Observation = await self._session.act(text)
        self._print(text, observation)
        return observation

    async def call(self, call: "ToolCall") -> "Observation":
        observation: Observation = await self._session.call(call)
        given = "\n".join(f"{name}: {value}" for name, value in call.arguments.items())
        self._print(f"{call.name}\n{given}" if given else call.name, observation)
        return observation

    def _print(self, text: str, observation: "Observation") -> None:
        """One line where everything fits on one; otherwise the turn and what came of it apart."""
        from practicum.cli.plain_text import indented, plain

        self._turn += 1
        said = plain(observation.message.content)
        if "\n" in text or "\n" in said:
            turn = f"{self._turn:2d}  {indented(text)}"
            self._console.print(turn, markup=False, style="cyan", soft_wrap=True)
            self._console.print(f"    {indented(said)}", markup=False, soft_wrap=True)
            return
        paid = "" if observation.reward is None else f"{observation.reward:+.1f}"
        self._console.print(f"{self._turn:2d}  {plain(text):<24} {paid:>5}   {said}", markup=False)
