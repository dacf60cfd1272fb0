"""Turns that are given to a conversation instead of sampled: recorded, and never learned from."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.agents.counting import CountingEnvironment, make_parts, make_task

from practicum.agents.rollout import RolloutParts, jump_started, run_episode
from practicum.core.sample import GIVEN_TURNS, Credit, Episode
from practicum.core.sampling import ActionForm, SamplingParams
from practicum.core.task import Task
from practicum.engine.policy import load_adapted_sampler, load_for_policy
from practicum.environments.reference_policies import Imitator, ReferenceGuide
from practicum.gateway.capture import CapturedConversation
from practicum.training.prefix_tree import episode_samples


class Choosing(CountingEnvironment):
    """Allows two actions, which come to the same."""

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Any]:
        async with super().open(task) as session:
            session.actions = lambda: (ActionForm(name="next"), ActionForm(name="go on"))
            yield session


def parts_of_a_model(environment: CountingEnvironment) -> RolloutParts:
    """The tiny model in the environment, and its reference as the guide."""
    loaded = load_for_policy("tiny", "float32", "cpu")
    sampler = load_adapted_sampler(loaded, None)
    imitator = Imitator("tiny", sampler.spell, loaded.codec)

    def converse(task: Task, seed: int) -> CapturedConversation:
        return CapturedConversation(sampler, loaded.codec, SamplingParams(max_tokens=8), seed)

    return make_parts(
        environment,
        converse=converse,
        guide=lambda task, turns: ReferenceGuide(imitator, environment, task, turns),
    )


async def played(given: int, environment: CountingEnvironment | None = None) -> Episode:
    parts = parts_of_a_model(environment or CountingEnvironment())
    parts = jump_started(parts, {"count": given})
    return await run_episode(parts, make_task(), "one", seed=1)


async def test_given_turns_are_part_of_the_trace_and_not_sampled() -> None:
    alone, helped = await played(0), await played(2)
    assert len(alone.trace.turns) == 3
    assert len(helped.trace.turns) == 1
    said = [[m.role for m in trace.messages()] for trace in (alone.trace, helped.trace)]
    assert said[0] == said[1] == ["user", "assistant"] * 3
    assert helped.trace.path(helped.trace.leaves()[0]) == tuple(range(6))


async def test_given_turns_have_the_tokens_that_the_model_would_have_sampled() -> None:
    alone, helped = await played(0), await played(2)  # the environment allows one action only
    assert alone.trace.token_ids(5) == helped.trace.token_ids(5)


async def test_nothing_is_learned_from_given_turns() -> None:
    helped = await played(2, Choosing())
    (sample,) = episode_samples(helped.trace, Credit(advantages=(1.0,)), 1.0)
    given = sum(len(node.token_ids) for node in helped.trace.nodes[:5])
    assert not sample.loss_mask[:given].any()
    assert sample.loss_mask[given:].any()
    assert not sample.advantages[:given].any()


async def test_the_policy_is_paid_for_its_own_turns_alone() -> None:
    alone, helped = await played(0), await played(2)
    assert alone.score.turn_values == (1.0, 2.0, 3.0)
    assert helped.score.turn_values == (3.0,)
    assert helped.score.value == 3.0
    assert helped.outcome is not None
    assert helped.outcome.evidence == {GIVEN_TURNS: 2}
    assert (alone.given_turns, helped.given_turns) == (0, 2)
