"""`TrafficRecorder`: keeps a share of the answers whose clients agree, and what they say of them.

The store is written by a thread of its own: a commit waits for the disk, and the event loop does
not. An answer whose client agrees but which is not in the share stays in memory for a while, so
that it can still be kept when feedback on it comes.
"""

import asyncio
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from practicum.core.errors import PracticumError
from practicum.core.sample import Episode
from practicum.core.score import Label, Score
from practicum.core.task import Task
from practicum.core.trace import Message, Trace
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.dialects.dialect import Fields, refuse
from practicum.gateway.requests import Refused
from practicum.gateway.serving.serving_metrics import ServingMetrics

ENVIRONMENT = "traffic"
"""The environment's name in traces of conversations."""

AUTHOR = "feedback"
"""Author of the labels that feedback becomes; with keys, `feedback/` and the key's name."""

RECORD_HEADER = "x-practicum-record"
"""`yes` or `no`: whether the client agrees to be recorded."""

RECORDED_HEADER = "x-practicum-recorded"
"""Of an answer: whether its client has agreed, and how to."""

RESPONSE_ID = re.compile(r"(?:chatcmpl-|msg_|resp_)([0-9a-f]{24})")
"""Ids that the dialects give to answers."""

MOST_RECENT = 1000
"""Answers that stay in memory for feedback."""

MOST_CORRECTION = 100_000
"""Characters of a correction or a comment."""

T = TypeVar("T")


class TrafficKeeper(Protocol):
    """Where traffic is kept; see `traces.traffic.TrafficStore`."""

    def keep(self, episode: Episode, task: Task) -> None:
        """Store one episode and its task."""

    def client_of(self, trace_id: str) -> str | None:
        """Whose key asked for a stored episode, empty where nobody knows; None if there is none."""

    def label(self, labels: Sequence[Label]) -> None:
        """Store labels of stored episodes."""

    def close(self) -> None:
        """Store no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRules:
    """What is recorded."""

    share: float = 1.0
    """Of the answers whose clients agree."""
    consent: Literal["required", "assumed"] = "required"
    """Whether a client that says nothing agrees."""

    def agrees(self, header: str | None) -> bool:
        """Whether a client with this header agrees."""
        said = (header or "").strip().lower()
        return said == "yes" or (self.consent == "assumed" and said != "no")

    def told(self, header: str | None) -> str:
        """What the answer to a client with this header says of it."""
        return "yes" if self.agrees(header) else f"no; send {RECORD_HEADER}: yes to agree"

    def is_drawn(self, trace_id: str) -> bool:
        """Whether an answer is in the share: decided by its id alone."""
        digest = hashlib.blake2b(trace_id.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.share * 2**64


class TrafficRecorder:
    """Records answers and feedback.

    Args:
        open_keeper: Opens the store, in the thread that will use it.
        rules: What is recorded.
        metrics: Where records are counted.
        say: Told when something could not be kept.
    """

    def __init__(
        self,
        open_keeper: Callable[[], TrafficKeeper],
        rules: RecordingRules,
        metrics: ServingMetrics,
        say: Callable[[str], None],
    ) -> None:
        self.rules, self._metrics, self._say = rules, metrics, say
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="traffic")
        self._keeper = self._thread.submit(open_keeper).result()
        self._recent: OrderedDict[str, tuple[Episode, Task]] = OrderedDict()
        self._writing: set[asyncio.Task[None]] = set()

    def offer(self, header: str | None, episode: Episode, task: Task) -> bool:
        """Keep an answer if its client agrees and it is in the share; whether it is kept."""
        if not self.rules.agrees(header) or not episode.trace.nodes:
            return False
        if self.rules.is_drawn(episode.trace.id):
            writing = asyncio.ensure_future(self._keep(episode, task))
            self._writing.add(writing)
            writing.add_done_callback(self._writing.discard)
            return True
        self._recent[episode.trace.id] = (episode, task)
        while len(self._recent) > MOST_RECENT:
            self._recent.popitem(last=False)
        return False

    async def feedback(self, body: dict[str, Any], client: str = "") -> Label:
        """Store feedback as a label; `client` is the name of the key that it comes from.

        Raises `Refused` where the answer was not recorded, or was another key's.
        """
        label, kind = read_feedback(body, client)
        recent = self._recent.get(label.episode_id)
        asker = (
            recent[0].trace.client
            if recent is not None
            else await self._in_thread(lambda: self._keeper.client_of(label.episode_id))
        )
        if asker is None:
            raise Refused(
                404,
                f"the answer {body.get('id')!r:.80} was not recorded here, and feedback is kept "
                f"with what was; ask again with the header {RECORD_HEADER}: yes to agree to it",
                "not_found_error",
                "id",
            )
        if asker and asker != client:
            sentence = f"the answer {body.get('id')!r:.80} was given to another key; only that one"
            raise Refused(403, f"{sentence} may say how good it is", "permission_error", "id")
        if recent is not None:
            del self._recent[label.episode_id]
            await self._keep(*recent)
        await self._in_thread(lambda: self._keeper.label([label]))
        self._metrics.feedback[(kind,)] += 1
        return label

    async def close(self) -> None:
        """Wait for what is being written, and close the store."""
        while self._writing:
            await asyncio.wait(self._writing)
        await self._in_thread(self._keeper.close)
        self._thread.shutdown()

    def _keep(self, episode: Episode, task: Task) -> Coroutine[Any, Any, None]:
        """In the thread's order: feedback that comes next finds what was kept before it."""
        return self._kept(self._in_thread(lambda: self._keeper.keep(episode, task)))

    async def _kept(self, keeping: "asyncio.Future[None]") -> None:
        try:
            await keeping
        except (PracticumError, OSError) as error:  # the client has its answer all the same
            self._say(f"an answer could not be recorded: {error}")
        else:
            self._metrics.recorded += 1

    def _in_thread(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._thread, work)


def conversation_episode(
    answer_id: str,
    model: str,
    conversation: CapturedConversation,
    started_at: float,
    client: str = "",
) -> tuple[Episode, Task]:
    """What was said and sampled to answer one request, as an episode that nobody has scored."""
    asked = conversation.nodes[0].messages if conversation.nodes else ()
    task_id = f"conversation-{_digest(asked)}"
    trace = Trace(
        id=f"{ENVIRONMENT}/{answer_id}",
        task_id=task_id,
        env=ENVIRONMENT,
        nodes=tuple(conversation.nodes),
        model=model,
        started_at=started_at,
        duration_s=time.time() - started_at,
        tools=conversation.tools,
        client=client,
    )
    instruction = next((m.content for m in reversed(asked) if m.role == "user"), "")
    task = Task(id=task_id, env=ENVIRONMENT, split="train", instruction=instruction)
    return Episode(trace=trace, outcome=None, score=Score.unscored("served")), task


def _digest(messages: Sequence[Message]) -> str:
    """Equal for equal conversations, so that their answers can be compared."""
    said = repr([(m.role, m.content, m.tool_calls) for m in messages])
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def read_feedback(body: dict[str, Any], client: str = "") -> tuple[Label, str]:
    """The label that a key's feedback stands for, and the kind of feedback.

    >>> read_feedback({"id": "solve/1", "thumbs": "up"})[0].value
    1.0
    """
    fields = Fields(body)
    fields.allow({"id", "thumbs", "score", "correction", "comment"})
    given = [name for name in ("thumbs", "score", "correction") if fields.has(name)]
    if not given or given[:2] == ["thumbs", "score"]:
        raise refuse(
            'feedback is {"id": ..., "thumbs": "up" or "down"}, or "score": 0 to 1 in place of '
            'thumbs, or "correction": the better answer'
        )
    value, correction = 0.0, fields.text("correction", "")
    if fields.has("thumbs"):
        value = float(fields.choice("thumbs", ("up", "down"), "") == "up")
    elif fields.has("score"):
        value = fields.number("score", 0, 1) or 0.0
    comment = fields.text("comment", "")
    if fields.has("correction") and not correction.strip():
        raise refuse("correction is empty; write what the answer should have been", "correction")
    if max(len(correction), len(comment)) > MOST_CORRECTION:
        raise refuse(f"a correction or comment has more than {MOST_CORRECTION} characters")
    answered = RESPONSE_ID.fullmatch(fields.text("id"))
    label = Label(
        episode_id=f"{ENVIRONMENT}/{answered[1]}" if answered else fields.text("id"),
        value=value,
        author=f"{AUTHOR}/{client}" if client else AUTHOR,
        created_at=time.time(),
        note=comment,
        correction=correction,
    )
    return label, "correction" if correction else given[0]
