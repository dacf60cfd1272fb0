"""`practicum traces record`: let a policy act on training tasks and keep what it did."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from practicum.core.sample import Episode

__all__ = ["record"]


def record(
    policy: Annotated[
        str,
        typer.Argument(metavar="RUN|CHECKPOINT|MODEL", help="Who acts; also reference or random."),
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Config values, such as env.level=2."),
    ] = None,
    env: Annotated[str | None, typer.Option(help="Environment; a run's own unless given.")] = None,
    n: Annotated[int, typer.Option(min=1, help="Training tasks.")] = 100,
    k: Annotated[int, typer.Option(min=1, help="Episodes of each task.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest token.")] = 1.0,
    store: Annotated[str, typer.Option(metavar="FILE", help="Where they go.")] = "traces.sqlite",
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Let a policy act on training tasks and keep its episodes in a store.

    practicum traces record smollm2-135m --env math --n 250 --k 2

    practicum traces record runs/demo/step_4 --n 250 --k 2 --store mediocre.sqlite

    practicum traces record smollm2-135m --env math eval.seed=1         other tasks, other draws

    What is recorded can be learned from:  practicum train math algorithm=kto data=mediocre.sqlite
    """
    import asyncio
    from pathlib import Path

    from rich.console import Console

    from practicum.assemble import open_environment, record_episodes, run_and_close
    from practicum.cli.policies import open_player, policy_config
    from practicum.cli.progress import EpisodeBar

    words = [f"eval.n={n}", f"eval.k={k}", f"eval.temperature={temperature}"]
    config = policy_config(policy, env, [*words, *(options or [])])
    environment = open_environment(config.env)
    player = open_player(policy, config, environment)
    with EpisodeBar(Console(stderr=True), f"recording {policy}", n * k) as bar:
        work = record_episodes(player, environment, config, Path(store), bar.episode_done)
        episodes = asyncio.run(run_and_close(environment, work))
    _show(episodes, store, json_output)


def _show(episodes: "list[Episode]", store: str, json_output: bool) -> None:
    import json

    from rich.console import Console

    successes = [e.outcome.success for e in episodes if e.is_usable and e.outcome is not None]
    found = {
        "store": store,
        "episodes": len(episodes),
        "usable": sum(e.is_usable for e in episodes),
        "succeeded": sum(success is True for success in successes),
        "failed": sum(success is False for success in successes),
    }
    if json_output:
        print(json.dumps(found))
        return
    Console().print(
        f"{found['episodes']} episodes are in {store}: {found['succeeded']} succeeded, "
        f"{found['failed']} failed, {len(episodes) - len(successes)} were left out.",
        highlight=False,
    )
