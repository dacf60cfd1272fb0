"""Requests of clients that send whole conversations find their place in the graph by tokens."""

import random
from collections import Counter

import numpy as np
from tests.unit.gateway.pieces import CharacterCodec, say, talk

from practicum.core.sample import Credit
from practicum.core.sampling import SamplingParams, SamplingRequest
from practicum.core.trace import Message, ToolCall, ToolSpec, Trace
from practicum.gateway.capture import CapturedConversation, turn_seed
from practicum.gateway.requests import ChatRequest
from practicum.training.prefix_tree import episode_samples


async def answer(
    conversation: CapturedConversation, messages: list[Message], **more: object
) -> Message:
    """One request; the answer is appended to the client's messages."""
    request = ChatRequest(
        messages=tuple(messages),
        params=SamplingParams(max_tokens=50),
        **more,  # type: ignore[arg-type]
    )
    turn = await conversation.respond(request)
    messages.append(turn.message)
    return turn.message


def trace_of(conversation: CapturedConversation) -> Trace:
    return Trace(id="t", task_id="t", env="e", nodes=tuple(conversation.nodes))


async def test_a_client_that_only_appends_stays_on_one_path() -> None:
    conversation, sampler = talk()
    messages = [say("system", "s"), say("user", "one")]
    for words in ("two", "three", "four"):
        await answer(conversation, messages)
        messages.append(say("user", words))
    trace = trace_of(conversation)
    assert [n.parent for n in trace.nodes] == [None, 0, 1, 2, 3, 4]
    assert len(trace.leaves()) == 1
    assert trace.token_ids(5) == sampler.requests[2].prompt_ids + sampler.sampled[2]
    assert [len(n.messages) for n in trace.nodes] == [2, 1, 1, 1, 1, 1]
    assert conversation.graph.retokenised == 0


async def test_seeds_are_those_of_the_same_conversation_held_turn_by_turn() -> None:
    conversation, sampler = talk()
    messages = [say("user", "one")]
    for _ in range(3):
        await answer(conversation, messages)
        messages.append(say("user", "on"))
    assert [r.params.seed for r in sampler.requests] == [turn_seed(7, t) for t in (0, 2, 4)]
    await answer(conversation, messages, seed=99)
    assert sampler.requests[-1].params.seed == 99


async def test_a_rewritten_user_message_branches_where_it_was_rewritten() -> None:
    conversation, _ = talk()
    messages = [say("user", "one")]
    await answer(conversation, messages)
    kept = list(messages)
    await answer(conversation, [*kept, say("user", "two")])
    await answer(conversation, [*kept, say("user", "other")])
    trace = trace_of(conversation)
    assert [n.parent for n in trace.nodes] == [None, 0, 1, 2, 1, 4]
    assert [n.messages[0].content for n in trace.nodes[2::2]] == ["two", "other"]
    assert conversation.graph.retokenised == 0  # the turn of ours is passed through all the same


async def test_a_rewritten_turn_of_ours_is_another_message_and_not_counted_as_ours() -> None:
    conversation, _ = talk()
    messages = [say("user", "one")]
    await answer(conversation, messages)
    edited = [messages[0], say("assistant", "edited"), say("user", "two")]
    await answer(conversation, edited)
    trace = trace_of(conversation)
    assert [n.parent for n in trace.nodes] == [None, 0, 0, 2]
    assert [m.content for m in trace.nodes[2].messages] == ["edited", "two"]
    assert trace.nodes[2].sampled is None
    assert conversation.graph.retokenised == 0
    assert conversation.graph.unrecognised == 1
    await answer(conversation, [*edited, say("assistant", "given"), say("user", "three")])
    assert conversation.graph.unrecognised == 2  # what is on the path already is not counted again


async def test_a_turn_that_comes_back_behind_other_words_is_counted() -> None:
    conversation, sampler = talk()
    messages = [say("system", "s"), say("user", "long story"), say("user", "one")]
    said = await answer(conversation, messages)
    shortened = [say("system", "s"), say("user", "one"), said, say("user", "two")]
    await answer(conversation, shortened)
    assert conversation.graph.retokenised == 1
    trace = trace_of(conversation)
    assert [n.parent for n in trace.nodes] == [None, 0, None, 2]
    # The turn keeps the tokens it was sampled as, wherever it stands.
    text = sampler.requests[1].prompt_ids
    turn = sampler.sampled[0]
    assert any(text[i : i + len(turn)] == turn for i in range(len(text)))
    await answer(conversation, [*shortened, say("user", "three")])
    assert conversation.graph.retokenised == 1


async def test_the_same_request_again_is_one_more_turn_of_the_same_prompt() -> None:
    conversation, _ = talk()
    first = [say("user", "one")]
    await answer(conversation, list(first))
    await answer(conversation, list(first))
    assert [n.parent for n in conversation.nodes] == [None, 0, 0]
    assert conversation.graph.retokenised == 0


async def test_a_sub_agent_has_a_root_of_its_own_and_is_not_counted() -> None:
    conversation, _ = talk()
    main = [say("system", "main"), say("user", "one")]
    said = await answer(conversation, main)
    await answer(conversation, [say("system", "judge"), say("user", "one"), said, say("user", "?")])
    assert conversation.nodes[2].parent is None
    assert conversation.graph.retokenised == 0
    await answer(conversation, [*main, say("user", "two")])
    assert conversation.nodes[4].parent == 1


async def test_branches_with_equal_words_go_on_where_their_own_next_turn_is() -> None:
    texts = iter(["same", "same", "left", "right", "end"])
    conversation, sampler = talk(lambda request: next(texts))
    one = [say("user", "one")]
    for _ in range(2):
        await answer(conversation, list(one))
    said = say("assistant", "same")
    left = [*one, said, say("user", "l")]
    await answer(conversation, left)
    parent = conversation.nodes[conversation.nodes[-1].parent or 0].parent
    await answer(conversation, [*left, say("user", "more")])
    path = conversation.graph.path(len(conversation.nodes) - 1)
    assert parent in path
    assert len(sampler.sampled) == 4
    assert conversation.graph.retokenised == 0


async def test_tools_of_any_request_are_noted_once() -> None:
    conversation, _ = talk()
    tools = (ToolSpec(name="a"), ToolSpec(name="b"))
    await answer(conversation, [say("user", "x")], tools=tools[:1])
    await answer(conversation, [say("user", "x")], tools=tools)
    assert conversation.tools == tools
    assert [n.parent for n in conversation.nodes] == [None, 0, None, 2]


async def test_calls_are_known_by_name_and_arguments_and_not_by_id() -> None:
    conversation, _ = talk()
    graph = conversation.graph
    call = ToolCall(name="f", arguments={"b": 1, "a": [2]}, id="call_0")
    asked = [say("user", "x")]
    _, sampler = talk(lambda request: "call")
    turn = await sampler.sample(request_of(asked))
    parent = graph.place(CharacterCodec().prompt(asked), asked)
    node = graph.add_turn(parent, say("assistant", "", tool_calls=(call,)), turn)
    graph.remember(node, asked)
    again = ToolCall(name="f", arguments={"a": [2], "b": 1}, id="other")
    back = [*asked, say("assistant", "  ", tool_calls=(again,))]
    assert list(graph.turns(back)) == [1]
    by_value = ToolCall(name="f", arguments={"a": [2.0], "b": 1.0})
    assert list(graph.turns([*asked, say("assistant", "", tool_calls=(by_value,))])) == [1]
    other = ToolCall(name="f", arguments={"a": [3], "b": 1})
    assert graph.turns([*asked, say("assistant", "", tool_calls=(other,))]) == {}


async def test_reasoning_counts_only_where_it_is_sent() -> None:
    conversation, _ = talk()
    graph = conversation.graph
    asked = [say("user", "x")]
    _, sampler = talk(lambda request: "y")
    turn = await sampler.sample(request_of(asked))
    parent = graph.place(CharacterCodec().prompt(asked), asked)
    node = graph.add_turn(parent, say("assistant", "y", reasoning="because"), turn)
    graph.remember(node, asked)
    for sent, known in (("", True), ("because", True), ("why", False)):
        assert bool(graph.turns([*asked, say("assistant", "y", reasoning=sent)])) is known


def request_of(messages: list[Message]) -> SamplingRequest:
    prompt = CharacterCodec().prompt(messages)
    return SamplingRequest(prompt_ids=prompt, params=SamplingParams(max_tokens=50))


async def test_every_sampled_token_of_any_history_is_trained_exactly_once() -> None:
    """Clients that append, rewrite, retry, cut off and begin anew, as the dice say."""
    for seed in range(40):
        dice = random.Random(seed)
        conversation, sampler = talk(lambda request: f"a{request.params.seed % 3}" * 2)
        histories: list[list[Message]] = [[say("user", "start")]]
        for step in range(12):
            messages = list(dice.choice(histories))
            if messages[-1].role == "assistant" and dice.random() < 0.8:
                messages.append(say("user", dice.choice("xy") + str(dice.randrange(3))))
            if len(messages) > 3 and dice.random() < 0.3:
                del messages[1:3]
            if dice.random() < 0.2:
                messages[0] = say("system", f"agent {dice.randrange(2)}")
            limit = dice.choice([2, 50])
            request = ChatRequest(messages=tuple(messages), params=SamplingParams(max_tokens=limit))
            turn = await conversation.respond(request)
            histories.append([*messages, turn.message])
            assert sampler.sampled[step] == conversation.nodes[turn.node].token_ids
            path = trace_of(conversation).token_ids(turn.node)
            assert path == sampler.requests[step].prompt_ids + sampler.sampled[step]
        check_trained_once(trace_of(conversation), sampler.sampled)


def check_trained_once(trace: Trace, sampled: list[tuple[int, ...]]) -> None:
    """Each turn is credited with a number of its own, which says where its tokens are trained."""
    credit = Credit(advantages=tuple(float(i + 1) for i in range(len(trace.turns))))
    counts: Counter[int] = Counter()
    for sample in episode_samples(trace, credit, 1.0):
        for number in np.unique(sample.advantages[sample.loss_mask]):
            own = sample.loss_mask & (sample.advantages == number)
            turn = trace.nodes[trace.turns[int(number) - 1]]
            assert tuple(sample.token_ids[own]) == turn.token_ids
            counts[int(number)] += int(own.sum())
    assert sum(counts.values()) == sum(map(len, sampled))
    for number, turn_node in enumerate(trace.turns):
        assert counts[number + 1] == len(trace.nodes[turn_node].token_ids)
