"""The policy behind a URL: a model, its gateway, and a store for what goes through it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from practicum.assemble.policies import PolicyHandle, json_grammars, load_policy
from practicum.core.config.config_sections import ModelConfig, RolloutConfig
from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.engine.planning.machine import give_back_heap, use_one_heap
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.rollouts import OpenRollouts, RolloutController
from practicum.gateway.standalone import GatewayPlan as GatewayPlan
from practicum.gateway.standalone import Serving as Serving
from practicum.gateway.standalone import build_gateway, serve_rollouts
from practicum.store.trace_export import put_aside
from practicum.store.trace_store import SqliteTraceStore

GIVING_BACK_S = 5.0
"""How often freed memory is given back, which takes a few milliseconds."""


def load_served(model: ModelConfig, adapter: Path | None, rollouts: RolloutConfig) -> PolicyHandle:
    """A model, or a model with the adapter of a checkpoint folder, to be served."""
    use_one_heap()  # before any other thread has one
    loaded = load_policy(model, adapter, rollouts, rollouts.temperature)
    return replace(loaded, name=model.name)


async def serve_gateway(
    served: PolicyHandle,
    plan: GatewayPlan,
    store: Path | None,
    ready: Callable[[Serving], None],
    say: Callable[[str], None] = print,
) -> int:
    """Serve until a signal comes; says how many rollouts were kept.

    Args:
        served: The model.
        plan: How.
        store: Where traces go when rollouts are closed; None keeps none.
        ready: Told where the gateway is, once it listens.
        say: Told what could not be kept at the end, and where it is instead.
    """
    model = served.model
    assert model is not None  # scripted policies are not served

    def converse(seed: int) -> CapturedConversation:
        return CapturedConversation(model.sampler, model.codec, model.params, seed)

    with _keeping(store) as kept:

        def control(rollouts: OpenRollouts) -> RolloutController:
            return RolloutController(
                rollouts, converse, kept.add, model=served.name, seed=plan.seed
            )

        grammars = json_grammars(model.tokenizer)
        built = partial(build_gateway, served.name, grammars and grammars(), plan)
        await serve_rollouts(
            built, control, plan, ready, lambda one, why: say(put_aside(one, _task_of(one), why))
        )
        return kept.count


class EpisodeKeeper:
    """Puts closed rollouts into a store, if there is one.

    What they leave free between kept pieces of memory is given back to the system now and then.
    """

    def __init__(self, store: SqliteTraceStore | None) -> None:
        self._store = store
        self._gave_back_at = time.monotonic()
        self.count = 0

    def add(self, episode: Episode) -> None:
        """Keep one; a rollout in which nothing was said is left out."""
        if time.monotonic() > self._gave_back_at + GIVING_BACK_S:
            self._gave_back_at = time.monotonic()
            give_back_heap()
        if self._store is None or not episode.trace.nodes:
            return
        self._store.add_imported([episode], tasks=[_task_of(episode)], purpose="gateway")
        self.count += 1


def _task_of(episode: Episode) -> Task:
    trace = episode.trace
    asked = next((m.content for m in trace.messages() if m.role == "user"), "")
    return Task(id=trace.task_id, env=trace.env, split="train", instruction=asked)


@contextmanager
def _keeping(path: Path | None) -> Iterator[EpisodeKeeper]:
    if path is None:
        yield EpisodeKeeper(None)
        return
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} for the store; make it, or name another")
    with SqliteTraceStore(path) as store:
        yield EpisodeKeeper(store)
