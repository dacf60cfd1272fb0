"""`practicum play`: watch or play one episode, turn by turn."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from practicum.core.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.core.interfaces import Environment, Observation
    from practicum.core.sample import Episode
    from practicum.core.sampling import ActionForm
    from practicum.core.task import Task
    from practicum.core.trace import ToolCall, ToolSpec

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

    from practicum.api import open_policy, policy_config
    from practicum.assemble.environments import choose_task, open_environment
    from practicum.assemble.policies import human_policy, play_once
    from practicum.core.capabilities import TakesTypedBlocks, TakesTypedLines
    from practicum.environments.registry import run_and_close

    named = "random" if policy == HUMAN else policy
    words = [f"eval.temperature={temperature}", *(options or [])]
    config = policy_config(named, env, words)
    environment = open_environment(config.env)
    console = Console(highlight=False)
    chosen = choose_task(config.env, environment, task, seed)
    if policy == HUMAN:
        typed = environment.turn_from_line if isinstance(environment, TakesTypedLines) else str
        goes_on = environment.goes_on if isinstance(environment, TakesTypedBlocks) else None
        handle = human_policy(lambda actions: typed(_ask(console, actions, goes_on)))
    else:
        handle = open_policy(named, config, environment)
    _print_start(console, chosen, environment, handle.name)
    narrated = _Narrated(environment, console, tells_rules=policy == HUMAN)
    work = play_once(handle, narrated, chosen, config, seed)
    _print_end(console, asyncio.run(run_and_close(environment, work)))


def _print_start(console: "Console", task: "Task", environment: "Environment", handle: str) -> None:
    from rich.text import Text

    from practicum.cli.arguments import plain
    from practicum.core.capabilities import sandbox_kind

    kind = sandbox_kind(environment)
    where = f", sandbox {kind}" if kind else ""
    facts = f"  (level {task.level}, {handle}{where})"
    console.print(Text.assemble((plain(task.instruction), "bold"), facts))


def _print_end(console: "Console", episode: "Episode") -> None:
    if episode.trace.failure is not None:
        reason = episode.trace.failure.message
        console.print(f"the episode failed: {reason}", style="red", markup=False)
        raise typer.Exit(1)
    solved = episode.outcome.success if episode.outcome is not None else False
    verdict = "[green]solved[/green]" if solved else "[red]not solved[/red]"
    if solved is None:
        verdict = "nobody can say whether it is solved"
    value = episode.score.value
    total = "not scored" if value is None else f"total reward {value:g}"
    console.print(f"{verdict}, {total}, {episode.trace.stop.value}")
    for problem in _unmet(episode):
        console.print(f"  {problem}", markup=False)


def _unmet(episode: "Episode") -> list[str]:
    """What the checker says is not as it should be, where it says so piece by piece."""
    from practicum.cli.arguments import plain

    evidence = episode.outcome.evidence if episode.outcome is not None else {}
    checks = evidence.get("checks")
    listed = checks if isinstance(checks, list) else []
    return [plain(str(one["why"])) for one in listed if isinstance(one, dict) and not one["ok"]]


def _ask(
    console: "Console",
    actions: "tuple[ActionForm, ...]",
    goes_on: Callable[[str], bool] | None = None,
) -> str:
    names = ", ".join(form.name + (" TERM" if form.argument else "") for form in actions)
    if names:
        console.print(names, style="dim")
    try:
        # An empty line is no turn: it would cost one who pressed the key once too often.
        typed = [next(filter(None, iter(lambda: console.input("> ").strip(), None)))]
        if goes_on is not None and goes_on(typed[0]):
            console.print("type the lines; an empty one ends them", style="dim")
            typed += iter(lambda: console.input(". ").rstrip(), "")
        return "\n".join(typed)
    except EOFError:
        raise UserError(
            "there is nobody to type: standard input is at its end; type it in a terminal, or "
            "choose another --policy"
        ) from None


class _Narrated:
    """An environment that prints every turn as it happens, and to a person the rules first."""

    def __init__(
        self, environment: "Environment", console: "Console", *, tells_rules: bool = False
    ) -> None:
        from practicum.core.capabilities import default_reward, session_kind, shows_data

        self.name = environment.name
        self.session_kind = session_kind(environment)
        self.default_reward = default_reward(environment)
        self.shows_data = shows_data(environment)
        self.tasks = environment.tasks
        self.reference = environment.reference
        self._environment = environment
        self._console = console
        self._tells_rules = tells_rules

    @asynccontextmanager
    async def open(self, task: "Task") -> AsyncIterator[Any]:
        from practicum.cli.arguments import plain
        from practicum.core.interfaces import DiscreteSession

        async with self._environment.open(task) as session:
            for message in session.prompt() if self._tells_rules else ():
                if message.content != task.instruction:
                    self._console.print(plain(message.content), markup=False)
            is_discrete = isinstance(session, DiscreteSession)
            narrated = _NarratedDiscreteSession if is_discrete else _NarratedToolSession
            yield narrated(session, self._console)


class _NarratedSession:
    """What both kinds of session have."""

    def __init__(self, session: Any, console: "Console") -> None:
        self.prompt = session.prompt
        self.outcome = session.outcome
        self._session = session
        self._console = console
        self._turn = 0

    def _print(self, text: str, observation: "Observation") -> None:
        """One line where everything fits on one; otherwise the turn and what came of it apart."""
        from practicum.cli.arguments import indented, plain

        self._turn += 1
        said = plain(observation.message.content)
        paid = "" if observation.reward is None else f"{observation.reward:+.1f}"
        if "\n" in text or "\n" in said:
            turn = f"{self._turn:2d}  {indented(text)}" + (f"   {paid}" if paid else "")
            self._console.print(turn, markup=False, style="cyan", soft_wrap=True)
            self._console.print(f"    {indented(said)}", markup=False, soft_wrap=True)
            return
        self._console.print(f"{self._turn:2d}  {plain(text):<24} {paid:>5}   {said}", markup=False)


class _NarratedDiscreteSession(_NarratedSession):
    def actions(self) -> "tuple[ActionForm, ...]":
        forms: tuple[ActionForm, ...] = self._session.actions()
        return forms

    async def act(self, text: str) -> "Observation":
        observation: Observation = await self._session.act(text)
        self._print(text, observation)
        return observation


class _NarratedToolSession(_NarratedSession):
    def tools(self) -> "list[ToolSpec]":
        offered: list[ToolSpec] = self._session.tools()
        return offered

    async def call(self, call: "ToolCall") -> "Observation":
        observation: Observation = await self._session.call(call)
        given = "\n".join(f"{name}: {value}" for name, value in call.arguments.items())
        self._print(f"{call.name}\n{given}" if given else call.name, observation)
        return observation
