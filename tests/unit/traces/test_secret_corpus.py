"""The corpus of secrets and harmless texts, over every place of a trace; and hostile texts."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.traces.secret_corpus import harmless, secrets

from practicum.core.sample import Episode
from practicum.core.score import Label, Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Failure, Message, ToolCall, ToolSpec, Trace, recorded_nodes
from practicum.traces.redaction import Redactor, redact_text
from practicum.traces.secret_rules import OWN_RULES, all_rules

SECRETS = secrets()
HARMLESS = harmless()


def episode(*messages: Message, **changes: object) -> Episode:
    trace = Trace(id="a", task_id="t", env="e", nodes=recorded_nodes(messages))
    outcome = Outcome(success=None)
    return Episode(
        trace=replace(trace, **changes),  # type: ignore[arg-type]
        outcome=outcome,
        score=Score(components={"r": 1.0}),
    )


def call(**fields: object) -> Episode:
    made = ToolCall(**{"name": "run", **fields})  # type: ignore[arg-type]
    return episode(Message(role="assistant", content="", tool_calls=(made,)))


def tool(**fields: object) -> Episode:
    made = ToolSpec(**{"name": "login", **fields})  # type: ignore[arg-type]
    return episode(Message(role="user", content="hi"), tools=(made,))


PLACES: dict[str, Callable[[str], Episode]] = {
    "content": lambda text: episode(Message(role="user", content=f"so:\n{text}\nyes")),
    "reasoning": lambda text: episode(Message(role="assistant", content="", reasoning=text)),
    "argument": lambda text: call(arguments={"script": text}),
    "deep argument": lambda text: call(arguments={"a": [{"b": [text]}]}),
    "key of an object": lambda text: call(arguments={"a": {text: 1}}),
    "name of a call": lambda text: call(name=text),
    "id of a call": lambda text: call(id=text),
    "tool result": lambda text: episode(Message(role="tool", content=text, tool_call_id="1")),
    "id of a result": lambda text: episode(Message(role="tool", content="x", tool_call_id=text)),
    "description": lambda text: tool(description=text),
    "default": lambda text: tool(
        parameters={"properties": {"host": {"type": "string", "default": text}}}
    ),
    "failure": lambda text: episode(failure=Failure(kind="x", message=text)),
    "evidence": lambda text: replace(
        episode(), outcome=Outcome(success=None, evidence={"log": [text]})
    ),
    "id of the trace": lambda text: episode(id=text),
}


def core_of(secret: str) -> str:
    """What may not be left of it: an address stays, but for what is secret in it."""
    return secret.rpartition("/")[2] if secret.startswith("https://") else secret


def test_the_corpus_is_of_the_size_it_says() -> None:
    assert (len(SECRETS), len(HARMLESS)) == (200, 200)
    assert len({secret for _, secret, _ in SECRETS}) == 200


@pytest.mark.parametrize("place", PLACES)
def test_at_least_95_of_100_secrets_are_found_wherever_they_are(place: str) -> None:
    missed = []
    for name, secret, text in SECRETS:
        clean = Redactor().episode(PLACES[place](text))
        if core_of(secret) in repr(clean) or core_of(secret) in str(clean):
            missed.append(name)
    assert len(missed) <= 10, missed


def test_at_most_2_of_100_harmless_texts_are_touched() -> None:
    touched = [text for text in HARMLESS if redact_text(text)[0] != text]
    assert len(touched) <= 4, touched


@pytest.mark.parametrize("values", [["hunter2", "swordfish"], {"default": "hunter2"}, 12345678])
def test_all_that_lies_under_a_secret_name_goes(values: object) -> None:
    clean = Redactor().episode(call(arguments={"password": values}))
    assert not any(word in repr(clean) for word in ("hunter2", "swordfish", "12345678"))


def test_the_default_of_a_secret_parameter_goes_and_its_description_stays() -> None:
    schema = {"type": "string", "description": "As you chose it.", "default": "swordfish"}
    clean = Redactor().episode(tool(parameters={"properties": {"password": schema}}))
    shown = repr(clean.trace.tools)
    assert "swordfish" not in shown
    assert "As you chose it." in shown


TOKENS = [(name, secret) for name, secret, _ in SECRETS[:120] if name != "private key"]


@pytest.mark.parametrize("cut", [0.3, 0.5, 0.8])
def test_a_token_that_is_cut_between_two_messages_is_found(cut: float) -> None:
    missed = []
    for name, secret in TOKENS:
        at = int(len(secret) * cut)
        clean = Redactor().episode(
            episode(
                Message(role="user", content=f"the first part is {secret[:at]}"),
                Message(role="user", content=f"{secret[at:]} is the rest"),
            )
        )
        contents = "".join(m.content for m in clean.trace.messages())
        if secret[:at][-6:] in contents and secret[at:][:6] in contents:
            missed.append(name)
    assert len(missed) <= len(TOKENS) // 20, missed


def test_tasks_and_labels_are_looked_through_too() -> None:
    _, secret, text = SECRETS[7]
    task = Task(id=text, env="e", split="train", instruction=text, data={text: [text]})
    label = Label(episode_id="a", value=1.0, author=text, created_at=1.0, note=text)
    assert secret not in repr(Redactor().task(task))
    assert secret not in repr(Redactor().label(label))


@given(
    text=st.text(max_size=200),
    number=st.integers(0, len(SECRETS) - 1),
    after=st.text(max_size=50),
)
def test_redacting_twice_changes_nothing(text: str, number: int, after: str) -> None:
    once, _ = redact_text(f"{text}\n{SECRETS[number][2]}\n{after}")
    twice, found = redact_text(once)
    assert (twice, found) == (once, [])


@given(text=st.text(max_size=400))
def test_any_text_can_be_redacted_and_what_is_not_secret_stays(text: str) -> None:
    clean, found = redact_text(text)
    assert (clean == text) == (not found)


SIZE = 2_000_000
HOSTILE = {
    "hex with an address": "://" + "0123456789abcdef" * 125_000,
    "a key without end": "sk-" + "a" * SIZE,
    "names without values": "password=" * (SIZE // 9),
    "open quotes": 'password="' * (SIZE // 10),
    "tokens": "eyJaaaaaaaaa." * (SIZE // 13),
    "addresses": "http://a:" * (SIZE // 9),
    "every keyword": " ".join(k for rule in all_rules() for k in rule.keywords) * 500,
    "every secret": " ".join(text for _, _, text in SECRETS) * 100,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_time_in_proportion_to_its_length(name: str) -> None:
    """A bound that only a bad expression breaks: it took minutes."""
    before = time.process_time()
    redact_text(HOSTILE[name][:SIZE])
    assert time.process_time() - before < 20


def test_every_rule_has_a_keyword_and_compiles() -> None:
    for rule in all_rules():
        assert all(word == word.lower() and word for word in rule.keywords)
        rule.matches(b"")
    assert len(all_rules()) > len(OWN_RULES) + 200
