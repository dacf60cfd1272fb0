"""Tokens and masks of recorded conversations."""

from dataclasses import replace

import pytest

from practicum.core.errors import UserError
from practicum.core.sample import Example
from practicum.core.tool_calls import write_tool_call
from practicum.core.trace import Message, Role, ToolCall, ToolSpec
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.models.tiny import CHAT_TEMPLATE, build_tiny_tokenizer
from practicum.traces.datasets.examples import tokenise

MARKED = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}"
    "{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] + '<|im_end|>' }}"
    "{% endgeneration %}{% else %}{{ m['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}"
    "{% endfor %}"
)
"""The same template with the assistant's part marked as `transformers` knows it."""


def conversation(*turns: tuple[Role, str]) -> tuple[Message, ...]:
    return tuple(Message(role=role, content=content) for role, content in turns)


EXAMPLE = Example(
    id="a",
    task_id="t",
    messages=conversation(
        ("system", "Be brief."),
        ("user", "x + 1 = 3"),
        ("assistant", "add_terms -1"),
        ("user", "x = 2 <|im_end|>"),
        ("assistant", "state_answer <|im_end|>"),
    ),
)


@pytest.fixture(scope="module")
def codec() -> TemplateCodec:
    return TemplateCodec(build_tiny_tokenizer())


def learned(codec: TemplateCodec, example: Example, model: str = "") -> list[str]:
    """The stretches of text that carry loss."""
    row = tokenise(example, codec, model=model)
    texts, stretch = [], list[int]()
    for token, carries in zip([*row.token_ids, 0], [*row.loss_mask, False], strict=True):
        if carries:
            stretch.append(int(token))
        elif stretch:
            texts.append(str(codec._tokenizer.decode(stretch, skip_special_tokens=False)))
            stretch = []
    return texts


def test_every_turn_of_the_assistant_and_its_end_are_learned_from(codec: TemplateCodec) -> None:
    assert learned(codec, EXAMPLE) == [
        "add_terms -1<|im_end|>",
        "state_answer <|im_end|><|im_end|>",
    ]


def test_the_mask_is_that_of_a_template_that_marks_what_is_generated(codec: TemplateCodec) -> None:
    harmless = replace(EXAMPLE, messages=conversation(*HARMLESS))
    tokenizer = build_tiny_tokenizer()
    tokenizer.chat_template = MARKED
    known = tokenizer.apply_chat_template(
        [{"role": role, "content": text} for role, text in HARMLESS],
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    row = tokenise(harmless, codec)
    length = len(row.token_ids)
    assert list(row.token_ids) == known["input_ids"][:length]
    assert [int(m) for m in row.loss_mask] == known["assistant_masks"][:length]
    assert not any(known["assistant_masks"][length:])


HARMLESS: tuple[tuple[Role, str], ...] = (
    ("user", "x + 1 = 3"),
    ("assistant", "add_terms -1"),
    ("user", "x = 2"),
    ("assistant", "state_answer"),
)


def test_given_is_where_learning_begins(codec: TemplateCodec) -> None:
    row = tokenise(EXAMPLE, codec)
    assert row.given == len(codec.open(EXAMPLE.messages[:2]))
    assert not row.loss_mask[: row.given].any()
    assert row.loss_mask[row.given]


def test_turns_shown_as_part_of_the_prompt_are_not_learned_from(codec: TemplateCodec) -> None:
    shown = replace(EXAMPLE, given=3)
    assert learned(codec, shown) == ["state_answer <|im_end|><|im_end|>"]
    assert shown.prompt == EXAMPLE.messages[:4]
    assert shown.completion == EXAMPLE.messages[4:]


def test_a_turn_that_someone_else_wrote_is_shown_and_not_learned_from(codec: TemplateCodec) -> None:
    three = conversation(
        ("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "b"), ("assistant", "c")
    )
    example = replace(EXAMPLE, messages=three, shown=(3,))
    assert learned(codec, example) == ["a<|im_end|>", "c<|im_end|>"]
    whole, all_learned = tokenise(example, codec), tokenise(replace(example, shown=()), codec)
    assert whole.token_ids.tolist() == all_learned.token_ids.tolist()


def test_calls_in_a_prompt_are_not_lost_where_the_template_knows_none(codec: TemplateCodec) -> None:
    call = ToolCall(name="bash", arguments={"script": "ls"})
    called = Message(role="assistant", content="", tool_calls=(call,))
    messages = (EXAMPLE.messages[1], called, Message(role="tool", content="a b"))
    example = replace(EXAMPLE, messages=(*messages, EXAMPLE.messages[2]), given=3)
    row = tokenise(example, codec)
    assert write_tool_call(call) in codec.decode([int(t) for t in row.token_ids[: row.given]])
    assert learned(codec, example) == ["add_terms -1<|im_end|>"]


def test_a_greeting_may_open_the_conversation(codec: TemplateCodec) -> None:
    greeting = Message(role="assistant", content="Hello.")
    example = replace(EXAMPLE, messages=(greeting, *EXAMPLE.messages[1:3]), given=2)
    assert learned(codec, example) == ["add_terms -1<|im_end|>"]
    assert tokenise(example, codec).given == len(codec.open(example.messages[:2]))


def test_what_follows_the_last_turn_is_left_out(codec: TemplateCodec) -> None:
    answered = replace(
        EXAMPLE, messages=(*EXAMPLE.messages, Message(role="user", content="Solved."))
    )
    assert list(tokenise(answered, codec).token_ids) == list(tokenise(EXAMPLE, codec).token_ids)


def test_tools_are_shown_where_the_conversation_opens(codec: TemplateCodec) -> None:
    row = tokenise(replace(EXAMPLE, tools=(ToolSpec(name="bash"),)), codec)
    assert '"name": "bash"' in codec.decode([int(t) for t in row.token_ids[: row.given]])


def test_tokens_that_the_model_sampled_itself_are_used_as_they_are(codec: TemplateCodec) -> None:
    sampled = replace(
        EXAMPLE, token_ids=(5, 6, 7), loss_mask=(False, True, False), tokens_of="tiny"
    )
    row = tokenise(sampled, codec, model="tiny")
    assert (row.token_ids.tolist(), row.loss_mask.tolist()) == ([5, 6, 7], [False, True, False])
    assert row.given == 1


@pytest.mark.parametrize("model", ["", "smollm2-135m"])
def test_tokens_of_another_model_are_not_used(codec: TemplateCodec, model: str) -> None:
    sampled = replace(
        EXAMPLE, token_ids=(5, 6, 7), loss_mask=(False, True, False), tokens_of="tiny"
    )
    assert learned(codec, sampled, model) == learned(codec, EXAMPLE)


@pytest.mark.parametrize(
    "broken",
    [
        replace(EXAMPLE, messages=EXAMPLE.messages[:2]),
        replace(EXAMPLE, given=5),
        replace(EXAMPLE, token_ids=(1, 2), loss_mask=(False, False), tokens_of="tiny"),
    ],
    ids=["no-turn", "all-given", "no-loss"],
)
def test_an_example_without_anything_to_learn_is_refused(
    codec: TemplateCodec, broken: Example
) -> None:
    with pytest.raises(UserError, match="no assistant turn to learn from"):
        tokenise(broken, codec, model="tiny")


def test_a_mask_of_another_length_is_refused(codec: TemplateCodec) -> None:
    broken = replace(EXAMPLE, token_ids=(1, 2), loss_mask=(True,), tokens_of="tiny")
    with pytest.raises(UserError, match="2 tokens and a mask for 1"):
        tokenise(broken, codec, model="tiny")


def test_the_template_is_the_one_that_the_marked_one_copies() -> None:
    assert build_tiny_tokenizer().chat_template == CHAT_TEMPLATE
