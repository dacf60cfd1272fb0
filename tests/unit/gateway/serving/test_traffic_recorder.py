"""What is recorded: a share of what clients agree to, without secrets; and feedback as labels."""

from pathlib import Path
from typing import Any

import pytest

from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.core.trace import Message, Node, SampledSpan
from practicum.gateway.requests import Refused
from practicum.gateway.serving.serving_metrics import ServingMetrics
from practicum.gateway.serving.traffic_recorder import (
    RecordingRules,
    TrafficRecorder,
    conversation_episode,
    read_feedback,
)
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.traffic import TrafficStore

ID = "0123456789abcdef01234567"


class Conversation:
    """One turn as the gateway captures it."""

    tools = ()

    def __init__(self, asked: str, answered: str) -> None:
        span = SampledSpan(logprobs=(-0.5,), loss_mask=(True,), fingerprint="base+1")
        self.nodes = [
            Node(parent=None, messages=(Message(role="user", content=asked),), token_ids=(1, 2)),
            Node(
                parent=0,
                messages=(Message(role="assistant", content=answered),),
                token_ids=(3,),
                sampled=span,
            ),
        ]


def answer(
    answer_id: str = ID, asked: str = "hi", answered: str = "ho", client: str = ""
) -> tuple[Episode, Task]:
    conversation: Any = Conversation(asked, answered)
    return conversation_episode(answer_id, "a", conversation, 100.0, client)


def recorder(path: Path, **rules: Any) -> tuple[TrafficRecorder, list[str]]:
    said: list[str] = []
    opened = TrafficRecorder(
        lambda: TrafficStore(path), RecordingRules(**rules), ServingMetrics(), said.append
    )
    return opened, said


@pytest.mark.parametrize(
    ("consent", "header", "agrees"),
    [
        ("required", None, False),
        ("required", "yes", True),
        ("required", "maybe", False),
        ("assumed", None, True),
        ("assumed", "no", False),
        ("assumed", " NO ", False),
    ],
)
def test_consent(consent: Any, header: str | None, agrees: bool) -> None:
    assert RecordingRules(consent=consent).agrees(header) is agrees


def test_the_share_is_about_what_was_asked_for() -> None:
    rules = RecordingRules(share=0.1)
    drawn = sum(rules.is_drawn(f"traffic/{number}") for number in range(10_000))
    assert 900 < drawn < 1100
    assert not any(RecordingRules(share=0.0).is_drawn(str(n)) for n in range(1000))
    assert all(RecordingRules(share=1.0).is_drawn(str(n)) for n in range(1000))


async def test_an_answer_is_kept_with_its_tokens_and_found_by_its_id(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    opened, said = recorder(path)
    assert opened.offer("yes", *answer())
    assert not opened.offer(None, *answer("1" * 24))
    await opened.close()
    with SqliteTraceStore(path, read_only=True) as store:
        [kept] = store.query("purpose = traffic")
        assert kept.trace.id == f"traffic/{ID}"
        assert (kept.trace.env, kept.trace.model) == ("traffic", "a")
        assert kept.trace.token_ids(1) == (1, 2, 3)
        assert kept.trace.fingerprints == {"base+1"}
        task = store.task("traffic", kept.trace.task_id)
    assert task is not None
    assert task.instruction == "hi"
    assert not said


async def test_equal_answers_to_equal_questions_are_both_kept_under_one_task(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.sqlite"
    opened, _ = recorder(path)
    for number in "12":
        opened.offer("yes", *answer(number * 24))
    await opened.close()
    with SqliteTraceStore(path, read_only=True) as store:
        kept = list(store.query())
    assert len(kept) == 2
    assert len({one.trace.task_id for one in kept}) == 1


async def test_secrets_are_not_kept(tmp_path: Path) -> None:
    secret = "sk-proj-" + "aB3dE9fG2hJ7kL4mN8pQ1rS6tU0vW5xY3zA7bC9dE2fG4hJ6"
    path = tmp_path / "t.sqlite"
    opened, _ = recorder(path)
    opened.offer("yes", *answer(asked=f"my key is {secret}", answered=f"{secret} is it"))
    await opened.feedback({"id": f"chatcmpl-{ID}", "thumbs": "up", "comment": f"keep {secret}"})
    await opened.close()
    with SqliteTraceStore(path, read_only=True) as store:
        [kept] = store.query()
        [label] = store.labels()
        task = store.task("traffic", kept.trace.task_id)
    said = [m.content for m in kept.trace.messages()] + [
        label.note,
        task.instruction if task else "",
    ]
    assert len(said) == 4
    assert all("redacted" in text and secret not in text for text in said)


@pytest.mark.parametrize(
    ("given", "value", "correction"),
    [
        ({"thumbs": "up"}, 1.0, ""),
        ({"thumbs": "down"}, 0.0, ""),
        ({"score": 0.75}, 0.75, ""),
        ({"score": 0}, 0.0, ""),
        ({"correction": "x = 3"}, 0.0, "x = 3"),
        ({"score": 0.4, "correction": "x = 3"}, 0.4, "x = 3"),
    ],
)
@pytest.mark.parametrize("prefix", ["chatcmpl-", "msg_", "resp_", "traffic/"])
async def test_feedback_becomes_a_label(
    prefix: str, given: dict[str, Any], value: float, correction: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.sqlite"
    opened, _ = recorder(path)
    opened.offer("yes", *answer())
    label = await opened.feedback({"id": prefix + ID, "comment": "so", **given})
    await opened.close()
    assert (label.value, label.correction) == (value, correction)
    with SqliteTraceStore(path, read_only=True) as store:
        [kept] = store.labels(f"traffic/{ID}")
    assert (kept.value, kept.author, kept.note) == (value, "feedback", "so")
    assert kept.correction == correction


@pytest.mark.parametrize("share", [1.0, 0.0])
async def test_only_the_key_that_asked_says_how_good_an_answer_is(
    share: float, tmp_path: Path
) -> None:
    path, body = tmp_path / "t.sqlite", {"id": f"msg_{ID}", "thumbs": "down"}
    opened, _ = recorder(path, share=share)
    opened.offer("yes", *answer(client="alice"))
    opened.offer("yes", *answer("2" * 24))  # recorded before there were keys
    for other in ("bob", ""):
        with pytest.raises(Refused, match="given to another key") as refused:
            await opened.feedback(body, other)
        assert refused.value.status == 403
    await opened.feedback(body, "alice")
    await opened.feedback({**body, "id": f"msg_{'2' * 24}"}, "bob")
    await opened.close()
    opened, _ = recorder(path)  # what it knows does not end with the server
    with pytest.raises(Refused, match="given to another key"):
        await opened.feedback(body, "bob")
    await opened.close()
    with SqliteTraceStore(path, read_only=True) as store:
        assert [one.author for one in store.labels()] == ["feedback/alice", "feedback/bob"]
        found = store.get(f"traffic/{ID}")
    assert found is not None
    assert found.trace.client == "alice"


async def test_an_answer_outside_the_share_is_kept_when_feedback_comes(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    opened, _ = recorder(path, share=0.0)
    assert not opened.offer("yes", *answer())
    assert not opened.offer("no", *answer("1" * 24))
    await opened.feedback({"id": f"msg_{ID}", "thumbs": "up"})
    with pytest.raises(Refused, match="was not recorded") as refused:
        await opened.feedback({"id": f"msg_{'1' * 24}", "thumbs": "up"})
    assert refused.value.status == 404
    await opened.close()
    with SqliteTraceStore(path, read_only=True) as store:
        assert store.count() == 1


@pytest.mark.parametrize(
    "body",
    [
        {"id": "x"},
        {"id": "x", "thumbs": "sideways"},
        {"id": "x", "score": 2},
        {"id": "x", "score": "good"},
        {"id": "x", "thumbs": "up", "score": 1},
        {"id": "x", "correction": " "},
        {"id": "x", "correction": "a" * 100_001},
        {"thumbs": "up"},
        {"id": "x", "thumbs": "up", "stars": 5},
    ],
)
def test_feedback_that_says_nothing_clear_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        read_feedback(body)
    assert refused.value.status == 400


async def test_a_full_store_is_said_and_the_answer_is_not_lost_to_its_client(
    tmp_path: Path,
) -> None:
    said: list[str] = []

    def full_store() -> TrafficStore:
        store = TrafficStore(tmp_path / "t.sqlite")
        store._store._db.execute("PRAGMA max_page_count = 1")  # not below what it has already
        return store

    opened = TrafficRecorder(full_store, RecordingRules(), ServingMetrics(), said.append)
    words = " ".join(str(number) for number in range(50_000))
    assert opened.offer("yes", *answer(answered=words))
    await opened.close()
    assert len(said) == 1
    assert "could not be recorded" in said[0]
