"""The policy behind a URL: a model, its gateway, and a store for what goes through it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from practicum.assemble.policies import PolicyHandle, json_grammars, load_policy
from practicum.core.config.config_sections import ModelConfig, RolloutConfig
from practicum.engine.planning.machine import give_back_heap, use_one_heap
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.key_watch import ControlKey as ControlKey
from practicum.gateway.key_watch import KeySource as KeySource
from practicum.gateway.rollouts import OpenRollouts, RolloutController
from practicum.gateway.standalone import GatewayPlan as GatewayPlan
from practicum.gateway.standalone import Serving as Serving
from practicum.gateway.standalone import build_gateway, serve_rollouts
from practicum.store.closed_rollouts import keeping, put_aside


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
        say: Told what could not be kept at the end, where it is instead, and of the control key.
    """
    model = served.model
    assert model is not None  # scripted policies are not served

    def converse(seed: int) -> CapturedConversation:
        return CapturedConversation(model.sampler, model.codec, model.params, seed)

    with keeping(store, give_back_heap) as kept:

        def control(rollouts: OpenRollouts) -> RolloutController:
            return RolloutController(
                rollouts, converse, kept.add, model=served.name, seed=plan.seed
            )

        grammars = json_grammars(model.tokenizer)
        built = partial(build_gateway, served.name, grammars and grammars(), plan)
        await serve_rollouts(
            built, control, plan, ready, lambda episode, why: say(put_aside(episode, why)), say
        )
        return kept.count
