"""`practicum play`: watch or play one episode, turn by turn."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.core.interfaces import Environment, Observation
    from practicum.core.sampling import ActionForm
    from practicum.core.task import Split, Task

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
    """
    import asyncio

    from rich.console import Console

    from practicum.assemble import find_task, human_player, open_environment, play_once
    from practicum.cli.policies import open_player, policy_config

    named = "random" if policy == HUMAN else policy
    words = [f"eval.temperature={temperature}", *(options or [])]
    config = policy_config(named, env, words)
    environment = open_environment(config.env)
    console = Console(highlight=False)
    chosen = find_task(environment, task) if task else next(environment.tasks("heldout", seed))
    if policy == HUMAN:
        player = human_player(lambda actions: _ask(console, actions))
    else:
        player = open_player(named, config, environment)
    console.print(f"[bold]{chosen.instruction}[/bold]  (level {chosen.level}, {player.name})")
    narrated = _Narrated(environment, console)
    episode = asyncio.run(play_once(player, narrated, chosen, config.rollouts.max_turns, seed))
    if episode.trace.failure is not None:
        console.print(f"the episode failed: {episode.trace.failure.message}", style="red")
        raise typer.Exit(1)
    solved = episode.outcome is not None and bool(episode.outcome.success)
    verdict = "[green]solved[/green]" if solved else "[red]not solved[/red]"
    console.print(f"{verdict}, total reward {episode.score.value:g}, {episode.trace.stop.value}")


def _ask(console: "Console", actions: "tuple[ActionForm, ...]") -> str:
    names = ", ".join(form.name + (" TERM" if form.argument else "") for form in actions)
    if names:
        console.print(names, style="dim")
    return console.input("> ").strip()


class _Narrated:
    """An environment that prints every turn as it happens."""

    def __init__(self, environment: "Environment", console: "Console") -> None:
        self.name = environment.name
        self._environment = environment
        self._console = console

    def tasks(self, split: "Split", seed: int) -> Iterator["Task"]:
        return self._environment.tasks(split, seed)

    def reference(self, task: "Task") -> Sequence[str]:
        return self._environment.reference(task)

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
        self._turn += 1
        paid = "" if observation.reward is None else f"{observation.reward:+.1f}"
        self._console.print(
            f"{self._turn:2d}  {text:<24} {paid:>5}   {observation.message.content}", markup=False
        )
        return observation
