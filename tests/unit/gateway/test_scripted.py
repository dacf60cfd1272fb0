from practicum.core.sampling import ActionForm
from practicum.core.trace import Message
from practicum.gateway.scripted_conversation import ScriptedConversation


async def test_turns_are_recorded_as_a_models_would_be_but_without_loss() -> None:
    turns = iter(["go", "stop"])
    conversation = ScriptedConversation(lambda actions: next(turns), name="reference")
    texts = []
    for said in ("one", "two"):
        completion = await conversation.complete([Message(role="user", content=said)])
        texts.append(completion.text)
        assert completion.finished
        assert completion.fingerprint == "reference"
    nodes = conversation.nodes
    assert texts == ["go", "stop"]
    assert [n.parent for n in nodes] == [None, 0, 1, 2]
    assert [bytes(n.token_ids).decode() for n in nodes] == ["one", "go", "two", "stop"]
    spans = [n.sampled for n in nodes if n.sampled is not None]
    assert len(spans) == 2
    for node, span in zip(nodes[1::2], spans, strict=True):
        assert len(span.logprobs) == len(span.loss_mask) == len(node.token_ids)
        assert not any(span.loss_mask)
        assert span.fingerprint == "reference"


async def test_the_writer_is_shown_the_actions_of_each_turn() -> None:
    shown = []

    def write(actions: tuple[ActionForm, ...]) -> str:
        shown.append([a.name for a in actions])
        return actions[0].name

    conversation = ScriptedConversation(write, name="first")
    for names in (("a", "b"), ("c",)):
        await conversation.complete([], tuple(ActionForm(name=n) for n in names))
    assert shown == [["a", "b"], ["c"]]
