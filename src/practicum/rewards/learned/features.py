"""Features of traces for the labeler: counted facts, hashed n-grams, optional embeddings.

Only the trace is read, never its outcome: imported traces have none, and the labeler should not
repeat what another reward says.

Words and word pairs, together with their speaker, are hashed to a fixed number of signed columns
(the hashing trick: Weinberger et al., 2009, arXiv:0902.2206): with random signs, collisions cancel
out on average instead of adding up.
"""

import functools
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from practicum.core.errors import UserError
from practicum.core.tool_calls import write_tool_call
from practicum.core.trace import Message, StopReason, Trace

ERROR_WORDS = re.compile(
    r"\b(error|errors|exception|traceback|failed|failure|fatal|denied|invalid|refused|timeout"
    r"|timed out|no such|not found|cannot|unknown|missing|undefined|syntax)\b",
    re.IGNORECASE,
)
GIVING_UP = re.compile(
    r"\b(sorry|unable|apologi[sz]e|give up|giving up|can't|cannot|could not|couldn't|impossible"
    r"|not sure|i guess|maybe|perhaps)\b",
    re.IGNORECASE,
)
CLAIMS_DONE = re.compile(
    r"\b(done|finished|complete|completed|success|successfully|fixed|verified|passed|works)\b",
    re.IGNORECASE,
)
WRITTEN_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
TAG = re.compile(r"</?[a-zA-Z_][\w-]*>")
WORD = re.compile(r"\w+")
SHINGLE = 4
"""Length of the word n-grams that repetition is measured with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The texts of a trace's newest path, by speaker."""

    said: tuple[str, ...]
    """The assistant's text of each turn, without tool calls."""
    thought: tuple[str, ...]
    """Its reasoning, where kept apart."""
    calls: tuple[str, ...]
    """Its tool calls, each as JSON."""
    results: tuple[str, ...]
    """Tool results."""
    failed: tuple[bool, ...]
    """Whether each result is marked as an error, or begins with "error:"."""
    replies: tuple[str, ...]
    """User messages after the assistant's first turn."""
    ends_with_call: bool
    """Whether the assistant's last turn has a call."""


def read_transcript(trace: Trace) -> Transcript:
    """Sort the messages of the path to the trace's newest node by speaker."""
    path = trace.path(len(trace.nodes) - 1) if trace.nodes else ()
    messages = [message for index in path for message in trace.nodes[index].messages]
    assistant = [message for message in messages if message.role == "assistant"]
    turns = [_text_and_calls(message) for message in assistant]
    answers = [message for message in messages if message.role == "tool"]
    first = next((i for i, m in enumerate(messages) if m.role == "assistant"), len(messages))
    return Transcript(
        said=tuple(text for text, _ in turns),
        thought=tuple(message.reasoning for message in assistant if message.reasoning),
        calls=tuple(call for _, calls in turns for call in calls),
        results=tuple(message.content for message in answers),
        failed=tuple(m.is_error or m.content.lstrip()[:6].lower() == "error:" for m in answers),
        replies=tuple(m.content for m in messages[first:] if m.role == "user"),
        ends_with_call=bool(turns and turns[-1][1]),
    )


def _text_and_calls(message: Message) -> tuple[str, list[str]]:
    """A turn's text and its calls, including calls written as text."""
    if message.tool_calls:
        bodies = [WRITTEN_CALL.fullmatch(write_tool_call(call)) for call in message.tool_calls]
        return message.content, [body[1] for body in bodies if body is not None]
    return WRITTEN_CALL.sub(" ", message.content), WRITTEN_CALL.findall(message.content)


def count_facts(trace: Trace, transcript: Transcript) -> list[float]:
    """One number for each of `fact_names`: counts as log(1 + n), shares from 0 to 1."""
    facts = {
        **_lengths(transcript),
        **_tool_use(transcript),
        **_wording(transcript),
        **_repetition(transcript),
        **_ending(trace, transcript),
    }
    return [facts[name] for name in fact_names()]


def _lengths(texts: Transcript) -> dict[str, float]:
    written = sum(map(len, texts.said))
    return {
        "turns": math.log1p(len(texts.said)),
        "said_chars": math.log1p(written),
        "chars_per_turn": math.log1p(written / max(1, len(texts.said))),
        "thought_chars": math.log1p(sum(map(len, texts.thought))),
        "call_chars": math.log1p(sum(map(len, texts.calls))),
        "result_chars": math.log1p(sum(map(len, texts.results))),
        "longest_turn": math.log1p(max(map(len, texts.said), default=0)),
        "silent_turn_share": _share(not text.strip() for text in texts.said),
        "user_replies": math.log1p(len(texts.replies)),
    }


def _tool_use(texts: Transcript) -> dict[str, float]:
    answers = zip(texts.failed, texts.results, strict=True)
    errors = [failed or ERROR_WORDS.search(text) is not None for failed, text in answers]
    return {
        "calls": math.log1p(len(texts.calls)),
        "calls_per_turn": len(texts.calls) / max(1, len(texts.said)),
        "answers": math.log1p(len(texts.results)),
        "failures": math.log1p(sum(texts.failed)),
        "failed_share": _share(texts.failed),
        "error_answers": math.log1p(sum(errors)),
        "error_answer_share": _share(errors),
        "last_answer_failed": float(bool(errors) and errors[-1]),
        "failures_in_a_row": math.log1p(_longest_run(errors)),
        "empty_answer_share": _share(not text.strip() for text in texts.results),
    }


def _wording(texts: Transcript) -> dict[str, float]:
    text = "\n".join(texts.said)
    words = max(1, len(WORD.findall(text)))
    last = texts.said[-1] if texts.said else ""
    return {
        "giving_up": math.log1p(len(GIVING_UP.findall(text))),
        "claims_done": math.log1p(len(CLAIMS_DONE.findall(text))),
        "error_words_per_word": len(ERROR_WORDS.findall(text)) / words,
        "tags": math.log1p(len(TAG.findall(text))),
        "code_blocks": math.log1p(text.count("```") // 2),
        "questions": math.log1p(text.count("?")),
        "last_claims_done": float(CLAIMS_DONE.search(last) is not None),
        "last_gives_up": float(GIVING_UP.search(last) is not None),
        "last_has_number": float(any(letter.isdigit() for letter in last)),
        "last_asks": float(last.rstrip().endswith("?")),
        "last_is_finished": float(last.rstrip().endswith((".", "!", "?", "`", ")", "}", '"'))),
        "last_chars": math.log1p(len(last.strip())),
    }


def _repetition(texts: Transcript) -> dict[str, float]:
    words = [word.lower() for text in texts.said for word in WORD.findall(text)]
    shingles = [tuple(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)]
    same_as_before = [a == b for a, b in zip(texts.calls, texts.calls[1:], strict=False)]
    return {
        "repeated_phrase_share": _repeated_share(shingles),
        "distinct_word_share": len(set(words)) / max(1, len(words)),
        "repeated_call_share": _repeated_share(texts.calls),
        "same_call_in_a_row": math.log1p(_longest_run(same_as_before)),
        "repeated_answer_share": _repeated_share(texts.results),
        "repeated_turn_share": _repeated_share([text for text in texts.said if text.strip()]),
    }


def _ending(trace: Trace, texts: Transcript) -> dict[str, float]:
    stops = {f"stop_{stop.value}": float(trace.stop == stop) for stop in StopReason}
    return {
        **stops,
        "broke_off": float(trace.failure is not None),
        "ends_with_call": float(texts.ends_with_call),
        "ends_unanswered": float(bool(texts.said) and not texts.said[-1].strip()),
        "branches": math.log1p(max(0, len(trace.leaves()) - 1)),
    }


def _share(marks: Iterable[bool]) -> float:
    found = list(marks)
    return sum(found) / len(found) if found else 0.0


def _repeated_share(things: Sequence[object]) -> float:
    return 1 - len(set(things)) / len(things) if things else 0.0


def _longest_run(marks: Sequence[bool]) -> int:
    longest = run = 0
    for mark in marks:
        run = run + 1 if mark else 0
        longest = max(longest, run)
    return longest


@functools.cache
def fact_names() -> tuple[str, ...]:
    """Names of the facts, in order; a saved labeler is refused where they have changed."""
    nothing = Trace(id="", task_id="", env="")
    texts = read_transcript(nothing)
    groups = (_lengths(texts), _tool_use(texts), _wording(texts), _repetition(texts))
    return tuple(name for group in (*groups, _ending(nothing, texts)) for name in group)


PLACES = 1024
"""Columns that n-grams are hashed to."""

KEPT_CHARS = 6000
"""Read of each speaker's texts: half from the beginning, half from the end."""

NGRAM_WORD = re.compile(r"[a-z]+|\d+|[^\w\s]")
SIGN_BIT = 1 << 31


def hash_words(transcript: Transcript) -> npt.NDArray[np.float64]:
    """Signed log-counts of words and word pairs, (PLACES,); without the prompt."""
    kinds = {
        "said": "\n".join((*transcript.thought, *transcript.said)),
        "last": transcript.said[-1] if transcript.said else "",
        "call": "\n".join(transcript.calls),
        "result": "\n".join(transcript.results),
        "reply": "\n".join(transcript.replies),
    }
    counts = Counter(term for kind, text in kinds.items() for term in _terms(kind, text))
    vector = np.zeros(PLACES)
    for term, count in counts.items():
        code = zlib.crc32(term.encode())
        # The low bits choose the column, the top bit the sign, so that they are independent.
        vector[code % PLACES] += math.copysign(math.log1p(count), (code & SIGN_BIT) - 1)
    return vector


def _terms(kind: str, text: str) -> Iterator[str]:
    words = [_plain(word) for word in NGRAM_WORD.findall(_ends_of(text).lower())]
    for index, word in enumerate(words):
        yield f"{kind} {word}"
        if index:
            yield f"{kind} {words[index - 1]} {word}"


def _ends_of(text: str) -> str:
    if len(text) <= KEPT_CHARS:
        return text
    half = KEPT_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"


def _plain(word: str) -> str:
    """Replace digits by 0: most numbers occur only once."""
    return "0" * len(word) if word.isdigit() else word


Array = npt.NDArray[np.float64]

MAX_SIGMAS = 5.0
"""Standardised facts are clipped to this, so that outliers do not dominate."""

READ_AT_ONCE = 32
"""Traces that an embedder is given at once."""


class Embedder(Protocol):
    """An embedding model; usually the local language model."""

    @property
    def name(self) -> str:
        """The model's name, then weights and settings in brackets.

        Vectors of different names are not comparable.
        """

    def embed(self, texts: Sequence[str]) -> Array:
        """One vector for each text, (n, E)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFeatures:
    """Unscaled features of n traces, one row each."""

    facts: Array  # (n, F)
    words: Array  # (n, W)
    embeddings: Array  # (n, E); E is 0 without an embedder

    def __len__(self) -> int:
        return int(self.facts.shape[0])

    def take(self, rows: Sequence[int]) -> "RawFeatures":
        """A selection of rows."""
        kept = list(rows)
        return RawFeatures(
            facts=self.facts[kept], words=self.words[kept], embeddings=self.embeddings[kept]
        )


def read_features(
    traces: Sequence[Trace],
    embedder: Embedder | None = None,
    on_trace: Callable[[], None] = lambda: None,
) -> RawFeatures:
    """The features of traces; `on_trace` is called after each one (progress)."""
    n = len(traces)
    facts, words = np.zeros((n, len(fact_names()))), np.zeros((n, PLACES))
    embedded: list[Array] = []
    for start in range(0, n, READ_AT_ONCE):
        part = traces[start : start + READ_AT_ONCE]
        for row, trace in enumerate(part, start):
            texts = read_transcript(trace)
            facts[row], words[row] = count_facts(trace, texts), hash_words(texts)
        if embedder is not None:
            embedded.append(embedder.embed([trace_text(trace) for trace in part]))
        for _ in part:
            on_trace()
    return RawFeatures(
        facts=facts,
        words=words,
        embeddings=np.concatenate(embedded) if embedded else np.zeros((n, 0)),
    )


def trace_text(trace: Trace) -> str:
    """A trace as one text, for the embedder."""
    return "\n\n".join(_message_text(message) for message in trace.messages())


def _message_text(message: Message) -> str:
    calls = [f"[call {call.name} {dict(call.arguments)}]" for call in message.tool_calls]
    said = [part for part in (message.reasoning, message.content, *calls) if part]
    return f"{message.role}: " + "\n".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSpace:
    """Scaling of raw features, fitted to traces without their labels.

    Facts, words and embeddings are each scaled to a mean squared norm of about 1, so that none
    outweighs the others by its number of columns.
    """

    fact_mean: Array
    fact_scale: Array
    """Standard deviations; infinite for a constant fact, which then becomes 0."""
    word_rarity: Array
    """Inverse document frequencies (smoothed)."""
    embedding_mean: Array
    embedding_scale: Array

    @classmethod
    def fit(cls, raw: RawFeatures) -> "FeatureSpace":
        """Fit to these traces."""
        if not len(raw):
            raise UserError("there are no traces to learn from; practicum traces import adds some")
        seen = (raw.words != 0).sum(axis=0)
        return cls(
            fact_mean=raw.facts.mean(axis=0),
            fact_scale=_scale(raw.facts),
            word_rarity=np.log((1 + len(raw)) / (1 + seen)) + 1,
            embedding_mean=raw.embeddings.mean(axis=0),
            embedding_scale=_scale(raw.embeddings),
        )

    @property
    def width(self) -> int:
        """Number of columns that `transform` returns."""
        return self.fact_mean.size + self.word_rarity.size + self.embedding_mean.size

    def transform(self, raw: RawFeatures) -> Array:
        """Scaled features, (n, width)."""
        facts = np.clip((raw.facts - self.fact_mean) / self.fact_scale, -MAX_SIGMAS, MAX_SIGMAS)
        words = raw.words * self.word_rarity
        lengths = np.sqrt((words**2).sum(axis=1, keepdims=True))
        embedded = (raw.embeddings - self.embedding_mean) / self.embedding_scale
        return np.hstack(
            [
                facts / _root_count(self.fact_scale),
                words / np.where(lengths > 0, lengths, 1.0),
                embedded / _root_count(self.embedding_scale),
            ]
        )


def _scale(columns: Array) -> Array:
    spread = columns.std(axis=0)
    return np.where(spread > 1e-9, spread, np.inf)


def _root_count(scale: Array) -> float:
    return math.sqrt(max(1, int(np.isfinite(scale).sum())))
