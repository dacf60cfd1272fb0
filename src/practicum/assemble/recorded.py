"""A policy's own episodes on training tasks, kept in a store."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

from practicum.assemble.players import Player
from practicum.core.config import RunConfig
from practicum.core.interfaces import Environment
from practicum.core.sample import Episode
from practicum.rollouts import run_groups
from practicum.store import SqliteTraceStore

__all__ = ["record_episodes"]

TOGETHER = 32
"""Tasks that are acted on at the same time."""


async def record_episodes(
    player: Player,
    environment: Environment,
    config: RunConfig,
    store: Path,
    on_episode: Callable[[Episode], None],
) -> list[Episode]:
    """`eval.k` episodes of each of `eval.n` training tasks; what was made is kept as it goes."""
    tasks = environment.tasks("train", config.eval.seed)
    parts = player.parts(environment, config)
    made: list[Episode] = []
    with SqliteTraceStore(store) as kept:
        for begin in range(0, config.eval.n, TOGETHER):
            some = list(islice(tasks, min(TOGETHER, config.eval.n - begin)))
            groups = await run_groups(
                parts,
                some,
                config.eval.k,
                label=f"record/{player.fingerprint}/{config.eval.seed}/{begin}",
                seed=config.eval.seed,
                on_episode=on_episode,
            )
            episodes = [episode for group in groups for episode in group.episodes]
            kept.add_imported(episodes, tasks=some)
            made += episodes
    return made
