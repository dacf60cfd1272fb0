"""What is trained is what was sampled, whatever the template, the client and the model do.

Clients hold conversations over models of every family: with tools and without, thinking, calling
several tools at once, cut off in the middle, with special tokens as text; they forget thinking,
edit, summarise, go back and ask again. Each sampled token carries a log-probability of its own, by
which it is found again in the training samples.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from tests.unit.engine.chat.families import ALL_FAMILIES, FAMILIES, Family, codec_of, sampled
from tests.unit.engine.chat.scripts import TOOLS, Script

from practicum.core.sample import Credit
from practicum.core.sampling import Completion, SamplingParams, SamplingRequest
from practicum.core.trace import Message, ToolSpec, Trace
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.requests import ChatRequest
from practicum.training.prefix_tree import episode_samples

CASES = 4
REQUESTS = 6


class TurnsOfChance:
    """A sampler that writes the family's turns, in tokenisations of chance, and cuts some off."""

    def __init__(self, family: Family, codec: TemplateCodec, script: Script, dice: random.Random):
        self._family, self._codec = family, codec
        self._script, self._dice = script, dice
        self.calls_tools = False
        self.drawn: dict[float, tuple[tuple[int, ...], int]] = {}
        """By log-probability: what the model saw before a token, and the token."""

    async def sample(self, request: SamplingRequest) -> Completion:
        text = self._family.text(self._script.turn(calls=self.calls_tools))
        ids = sampled(self._codec, text, self._dice)
        ended = self._dice.random() < 0.75
        ids = (*ids, self._codec.turn_end_id) if ended else ids[: self._dice.randint(4, len(ids))]
        logprobs = []
        for at, token in enumerate(ids):
            logprobs.append(-float(len(self.drawn) + 1))
            self.drawn[logprobs[-1]] = ((*request.prompt_ids, *ids[:at]), token)
        return Completion(
            token_ids=ids,
            text=self._codec.decode(ids),
            logprobs=tuple(logprobs),
            loss_mask=(True,) * len(ids),
            log_kept=(),
            choices=(),
            temperature=1.0,
            fingerprint="chance",
            finished=ended,
            ended_turn=ended,
        )

    def fingerprint(self) -> str:
        return "chance"

    def forget(self) -> None:
        """Nothing is cached."""


@dataclass(frozen=True)
class Answered:
    """A turn as the client knows it."""

    sent: tuple[Message, ...]
    message: Message
    node: int
    thought: bool
    """Whether anything of thinking was sampled."""


def same(one: Message, other: Message) -> bool:
    def key(message: Message) -> tuple[object, ...]:
        calls = [(call.name, call.arguments) for call in message.tool_calls]
        return message.role, message.content, calls

    return key(one) == key(other)


def systems(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message.role == "system"]


class Client:
    """Sends whole conversations, and knows which turns ought to be found again."""

    def __init__(self, name: str, tools: tuple[ToolSpec, ...], seed: int) -> None:
        self.family, self.tools, self.dice = ALL_FAMILIES[name], tools, random.Random(seed)
        self.codec = codec_of(name)
        self.script = Script(self.family, self.dice)
        self.sampler = TurnsOfChance(self.family, self.codec, self.script, self.dice)
        self.sampler.calls_tools = bool(tools)
        self.conversation = CapturedConversation(
            self.sampler, self.codec, SamplingParams(max_tokens=1000), seed
        )
        self.answered: list[Answered] = []
        self.keeps_thinking = self.dice.random() < 0.5
        self.rewritten = 0
        self.passed: list[bool] = []

    async def ask(self, messages: Sequence[Message]) -> Message:
        """One request; what the graph makes of it is compared with what it ought to."""
        sent = tuple(messages)
        again = any(sent == turn.sent for turn in self.answered)
        turn = await self.conversation.respond(ChatRequest(messages=sent, tools=self.tools))
        graph = self.conversation.graph
        own = self._last_own(sent)
        if own is not None:
            index, last = own
            passes = self._ought_to_pass(sent, index, last)
            self.passed.append(passes)
            assert (last.node in graph.path(turn.node)) == passes
            # A conversation under another system prompt is another agent's; and a request that is
            # sent once more is not counted once more.
            self.rewritten += not passes and not again and systems(sent) == systems(last.sent)
        assert graph.retokenised == self.rewritten
        text = self.codec._tokenizer.decode(turn.completion.token_ids)
        thought = self.family.opens_thinking or "<think>" in text
        message = turn.message if self.keeps_thinking else replace(turn.message, reasoning="")
        self.answered.append(Answered(sent, turn.message, turn.node, thought))
        return message

    def _last_own(self, sent: tuple[Message, ...]) -> tuple[int, Answered] | None:
        for index in range(len(sent) - 1, -1, -1):
            fitting = [turn for turn in self.answered if same(turn.message, sent[index])]
            exact = [turn for turn in fitting if self._unchanged(sent[:index], turn)]
            if fitting:
                return index, (exact or fitting)[-1]
        return None

    def _unchanged(self, before: tuple[Message, ...], turn: Answered) -> bool:
        return len(before) == len(turn.sent) and all(map(same, before, turn.sent))

    def _ought_to_pass(self, sent: tuple[Message, ...], index: int, last: Answered) -> bool:
        """Whether neither the client nor the template has changed what the turn was sampled in."""
        if not self._unchanged(sent[:index], last) or self.family.thinks == "dropped":
            return False
        asked = [i for i, message in enumerate(sent) if message.role == "user"][-1]
        asks_again = asked > index
        if asks_again and self.family.moves_tools and self.tools:
            return False
        if self.family.thinks != "asked":
            return True
        is_empty = last.thought and not last.message.reasoning
        if is_empty and not self.family.shows_empty_thinking:
            return False
        if not asks_again:
            return True
        asked_then = [i for i, message in enumerate(last.sent) if message.role == "user"][-1]
        since = [m for m in sent[asked_then : index + 1] if m.role == "assistant"]
        return not any(t.thought for t in self.answered for m in since if same(t.message, m))

    def rewrite(self, messages: list[Message]) -> list[Message]:
        """The conversation as a client may have changed it, ending with the user."""
        dice, script = self.dice, self.script
        users = [i for i, message in enumerate(messages) if message.role == "user"]
        kind = dice.choice(["edit", "summarise", "back", "system", "answer"])
        if kind == "edit":
            messages[dice.choice(users)] = script.user()
        elif kind == "summarise":
            messages = [*messages[: users[0]], script.user()]
        elif kind == "back":
            messages = [*messages[: dice.choice(users)], script.user()]
        elif kind == "system":
            messages = [script.system(), *(m for m in messages if m.role != "system")]
        else:
            turns = [i for i, message in enumerate(messages) if message.role == "assistant"]
            for i in turns[:1]:
                messages[i] = Message(role="assistant", content=script.words())
        return messages

    async def talk(self) -> None:
        messages = [self.script.system()] * self.dice.randint(0, 1) + [self.script.user()]
        for _ in range(REQUESTS):
            message = await self.ask(messages)
            if self.dice.random() < 0.15:
                message = await self.ask(messages)  # a client that tries once more
            messages = [*messages, message, *self.script.answers(message)]
            if self.dice.random() < 0.3:
                messages = self.rewrite(messages)


def check_training(client: Client) -> None:
    """Every sampled token is trained once, after exactly what the model saw before it."""
    trace = Trace(id="t", task_id="t", env="e", nodes=tuple(client.conversation.nodes))
    credit = Credit(advantages=(1.0,) * len(trace.turns))
    trained: list[float] = []
    for sample in episode_samples(trace, credit, 1.0):
        ids = tuple(int(token) for token in sample.token_ids)
        for at in sample.loss_mask.nonzero()[0]:
            drawn = float(sample.old_logprobs[at])
            trained.append(drawn)
            assert client.sampler.drawn[drawn] == (ids[:at], ids[at])
    assert sorted(trained) == sorted(client.sampler.drawn)


@pytest.mark.parametrize("tools", [(), TOOLS], ids=["talking", "tools"])
@pytest.mark.parametrize("name", ALL_FAMILIES)
async def test_no_sampled_token_is_trained_as_another(
    name: str, tools: tuple[ToolSpec, ...]
) -> None:
    passed: list[bool] = []
    for seed in range(CASES):
        client = Client(name, tools, seed)
        await client.talk()
        check_training(client)
        passed += client.passed
    # Both happened, so that the comparison above says something.
    assert False in passed
    family = ALL_FAMILIES[name]
    always_dropped = family.thinks == "asked" and family.opens_thinking and not tools
    assert (True in passed) != (family.thinks == "dropped" or always_dropped)


class Scripted(TurnsOfChance):
    """Says "ok" each time, in another tokenisation."""

    def __init__(self, codec: TemplateCodec, ways: Sequence[Sequence[str]]) -> None:
        super().__init__(FAMILIES["chatml"], codec, Script(FAMILIES["chatml"], DICE), DICE)
        self._ways = iter(ways)

    async def sample(self, request: SamplingRequest) -> Completion:
        drawn = await super().sample(request)
        vocabulary = self._codec._tokenizer.get_vocab()
        ids = (*(vocabulary[piece] for piece in next(self._ways)), self._codec.turn_end_id)
        nothing = (0.0,) * len(ids)
        return replace(
            drawn,
            token_ids=ids,
            logprobs=nothing,
            loss_mask=(True,) * len(ids),
            ended_turn=True,
        )


DICE = random.Random(0)


async def test_turns_that_say_the_same_keep_their_own_tokens_where_history_was_rewritten() -> None:
    codec = codec_of("chatml")
    sampler = Scripted(codec, [["o", "k"], ["ok"], ["o", "k"]])
    conversation = CapturedConversation(sampler, codec, SamplingParams(), 0)
    first, second, third, edited = (Message(role="user", content=c) for c in "abcd")
    ok = Message(role="assistant", content="ok")

    async def ask(*messages: Message) -> list[int]:
        turn = await conversation.respond(ChatRequest(messages=messages))
        return conversation.graph.path(turn.node)

    await ask(first)
    rewritten = await ask(edited, ok, second)
    assert (await ask(edited, ok, second, ok, third))[: len(rewritten)] == rewritten
    assert conversation.graph.retokenised == 1
