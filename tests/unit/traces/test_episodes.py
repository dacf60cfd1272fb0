from dataclasses import replace

from practicum.core.sample import Episode
from practicum.core.score import Label, Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Failure, Message, SampledSpan, ToolCall, Trace, recorded_nodes
from practicum.traces.redaction import Redactor

KEY = "ghp_" + "aB3dE5fG7h" * 4
MARK = "[redacted:github-token]"


def make_episode(text: str) -> Episode:
    call = ToolCall(name="login", arguments={"password": "sesam", "notes": [text], "n": 3})
    messages = [
        Message(role="user", content=f"use {text}"),
        Message(role="assistant", content="", tool_calls=(call,), reasoning=f"so {text}"),
        Message(role="tool", content=text, tool_call_id="1"),
    ]
    return Episode(
        trace=Trace(
            id="a",
            task_id="t",
            env="e",
            nodes=recorded_nodes(messages),
            failure=Failure(kind="x", message=text),
        ),
        outcome=Outcome(success=None, evidence={"env": {"API_KEY": "0000", "log": text}}),
        score=Score(components={"r": 1.0}),
    )


def test_every_text_of_an_episode_is_looked_through() -> None:
    redactor = Redactor()
    clean = redactor.episode(make_episode(KEY))
    expected = make_episode(MARK)
    first, second, third = expected.trace.nodes
    asked = second.messages[0]
    call = replace(
        asked.tool_calls[0],
        arguments={"password": "[redacted:password]", "notes": [MARK], "n": 3},
    )
    second = replace(second, messages=(replace(asked, tool_calls=(call,)),))
    expected = replace(
        expected,
        trace=replace(expected.trace, nodes=(first, second, third)),
        outcome=Outcome(
            success=None, evidence={"env": {"API_KEY": "[redacted:password]", "log": MARK}}
        ),
    )
    assert clean == expected
    assert redactor.counts == {"github-token": 6, "password": 2}


def test_a_clean_episode_stays_as_it_is_with_its_tokens() -> None:
    episode = with_tokens("nothing secret")
    redactor = Redactor()
    assert redactor.episode(episode) == episode
    assert not redactor.counts


def test_the_tokens_of_a_secret_go_with_it() -> None:
    clean = Redactor().episode(with_tokens(KEY))
    assert all(not node.token_ids for node in clean.trace.nodes)
    assert not clean.trace.has_logprobs
    assert len(clean.trace.turns) == 1


def with_tokens(text: str) -> Episode:
    said = [Message(role="user", content=text), Message(role="assistant", content="done")]
    nodes = tuple(
        replace(
            node,
            token_ids=(1, 2),
            sampled=SampledSpan(logprobs=(-1.0, -2.0), loss_mask=(True, True))
            if node.sampled
            else None,
        )
        for node in recorded_nodes(said)
    )
    trace = Trace(id="a", task_id="t", env="e", nodes=nodes)
    return Episode(trace=trace, outcome=None, score=Score.unscored("no"))


def test_tasks_and_notes_are_looked_through_too() -> None:
    redactor = Redactor()
    task = redactor.task(
        Task(id="t", env="e", split="train", instruction=KEY, data={"secret": KEY, "n": 1})
    )
    assert (task.instruction, task.data) == (MARK, {"secret": "[redacted:password]", "n": 1})
    label = Label(episode_id="a", value=1.0, author="b", created_at=0.0, note=f"saw {KEY}")
    assert redactor.label(label).note == f"saw {MARK}"
