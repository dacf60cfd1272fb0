"""Several roles in one episode: a conversation for each, and which tokens are learned from."""

from dataclasses import replace
from typing import Any

from tests.unit.agents.counting import CountingEnvironment, make_parts, make_task

from practicum.agents.loops import ContextBudget, DiscreteAgent
from practicum.agents.rollout import run_episode
from practicum.core.interfaces import Observation
from practicum.core.sample import Credit, Episode
from practicum.core.sampling import ActionForm, SamplingParams
from practicum.core.task import Outcome
from practicum.core.trace import Message
from practicum.engine.policy import load_adapted_sampler, load_for_policy
from practicum.gateway.capture import CapturedConversation
from practicum.training.prefix_tree import episode_samples


class PingPong:
    """Two who each see the other's last word; the second speaks in a new conversation each time."""

    def __init__(self, goal: int = 5) -> None:
        self.goal, self.asked, self.said = goal, 0, []

    def role(self) -> str:
        at = len(self.said)
        return "ping" if at % 2 == 0 else f"pong/{at}"

    def prompt(self) -> list[Message]:
        self.asked += 1
        return [Message(role="user", content=f"{self.role()} begins")]

    def actions(self) -> tuple[ActionForm, ...]:
        return (ActionForm(name=f"word {len(self.said)}"), ActionForm(name="nothing"))

    async def act(self, text: str) -> Observation:
        self.said.append(text)
        said = Message(role="user", content=f"heard {text}")
        return Observation(message=said, reward=1.0, terminated=len(self.said) == self.goal)

    async def outcome(self) -> Outcome:
        return Outcome(success=True, turn_rewards=(1.0,) * len(self.said))


class Table(CountingEnvironment):
    """Opens the two."""

    def open(self, task: Any) -> Any:
        from contextlib import nullcontext

        return nullcontext(PingPong())


async def played(agent: DiscreteAgent) -> Episode:
    loaded = load_for_policy("tiny", "float32", "cpu")
    sampler = load_adapted_sampler(loaded, None)

    def converse(task: Any, seed: int) -> CapturedConversation:
        return CapturedConversation(sampler, loaded.codec, SamplingParams(max_tokens=8), seed)

    parts = replace(make_parts(Table(), converse=converse), agent=agent)
    return await run_episode(parts, make_task(), "t", 3)


def content(episode: Episode, leaf: int) -> list[str]:
    nodes = episode.trace.nodes
    return [m.content for i in episode.trace.path(leaf) for m in nodes[i].messages]


async def test_each_role_has_a_path_of_its_own_and_the_turns_say_whose_they_are() -> None:
    episode = await played(DiscreteAgent(max_turns=9))
    assert episode.turn_roles == ("ping", "pong", "ping", "pong", "ping")
    words = [episode.trace.nodes[t].messages[0].content for t in episode.trace.turns]
    assert [content(episode, leaf) for leaf in episode.trace.leaves()] == [
        ["pong/1 begins", words[1]],
        ["pong/3 begins", words[3]],
        ["ping begins", words[0], f"heard {words[1]}", words[2], f"heard {words[3]}", words[4]],
    ]


async def test_every_turn_is_learned_from_once_with_its_own_advantage() -> None:
    episode = await played(DiscreteAgent(max_turns=9))
    advantages = tuple(float(at + 1) for at in range(5))
    samples = episode_samples(episode.trace, Credit(advantages=advantages), 1.0)
    learned = sorted(
        {a for s in samples for a, m in zip(s.advantages, s.loss_mask, strict=True) if m}
    )
    assert learned == list(advantages)
    tokens = sum(int(sample.loss_mask.sum()) for sample in samples)
    spans = [episode.trace.nodes[turn].sampled for turn in episode.trace.turns]
    assert tokens == sum(sum(span.loss_mask) for span in spans if span is not None)


async def test_a_frozen_role_acts_as_it_would_and_is_not_learned_from() -> None:
    free = await played(DiscreteAgent(max_turns=9))
    frozen = await played(DiscreteAgent(max_turns=9, frozen=("pong",)))
    assert [n.token_ids for n in free.trace.nodes] == [n.token_ids for n in frozen.trace.nodes]
    for turn, role in zip(frozen.trace.turns, frozen.turn_roles, strict=True):
        span = frozen.trace.nodes[turn].sampled
        assert span is not None
        assert any(span.loss_mask) == (role == "ping")


async def test_a_budget_is_each_conversations_own() -> None:
    """Together they have more tokens than fit, each alone has fewer."""
    loaded = load_for_policy("tiny", "float32", "cpu")
    whole = await played(DiscreteAgent(max_turns=9))
    longest = max(len(whole.trace.token_ids(leaf)) for leaf in whole.trace.leaves())
    most = longest + 40
    assert most < sum(len(node.token_ids) for node in whole.trace.nodes)
    budget = ContextBudget(codec=loaded.codec, tokens=most, turn_tokens=8)
    episode = await played(DiscreteAgent(max_turns=9, budget=budget))
    assert episode.turn_roles == whole.turn_roles


async def test_one_conversation_has_no_roles() -> None:
    loaded = load_for_policy("tiny", "float32", "cpu")
    sampler = load_adapted_sampler(loaded, None)
    parts = make_parts(
        CountingEnvironment(),
        converse=lambda task, seed: CapturedConversation(
            sampler, loaded.codec, SamplingParams(max_tokens=8), seed
        ),
    )
    episode = await run_episode(parts, make_task(), "t", 3)
    assert episode.turn_roles == ()
