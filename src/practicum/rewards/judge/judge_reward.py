"""`JudgeReward`: a language model scores the episodes of a group; judgements are cached on disk.

A judge that writes compares all attempts in one prompt. The idea is RULER's (OpenPipe ART); here
scores are matched by id, the order changes with each repeat, repeats are averaged and their spread
is reported, and what could not be judged is unscored rather than 0.

A judge whose probabilities can be read (`WeighingModel`) is asked about each attempt whether it
does the task; the probability of "Yes" is the score. This works with models too small to write a
comparison.

`JudgementLedger` keeps one JSON line per judgement, so that a resumed run does not pay twice.
"""

import asyncio
import hashlib
import json
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from practicum.core.sample import Episode, Group
from practicum.core.score import (
    JudgeModel,
    JudgeReply,
    JudgeUnavailable,
    Score,
    Weighed,
    WeighingModel,
)
from practicum.core.task import Task
from practicum.core.trace import Message
from practicum.rewards.judge.judge_prompt import (
    ReadAnswer,
    judge_messages,
    read_answer,
    shared_opening,
    transcript,
    written_opening,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One round of judging a group."""

    key: str
    """Digest of all it depends on: judge, rubric, task, attempts and their order."""
    scores: dict[str, float] = field(default_factory=dict)
    """By the attempt's digest, without attempts that got no usable score."""
    model: str = ""
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    faults: tuple[str, ...] = ()
    """What was wrong with the last answer."""


class JudgementLedger:
    """A cache of judgements, on disk if a file is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known = {one.key: one for one in _read(path)} if path else {}
        self.made: list[Judgement] = []
        """Those made by this process."""

    def find(self, key: str) -> Judgement | None:
        """The cached judgement, if any."""
        return self._known.get(key)

    def add(self, judgement: Judgement) -> None:
        """Store a judgement. One with faults is stored for its cost but not used again."""
        self.made.append(judgement)
        if not judgement.faults:
            self._known[judgement.key] = judgement
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(judgement)) + "\n")

    @property
    def cost(self) -> dict[str, float]:
        """Total calls, tokens and seconds of this process."""
        fields = ("calls", "prompt_tokens", "completion_tokens", "seconds")
        return {name: sum(getattr(one, name) for one in self.made) for name in fields}


def _read(path: Path) -> Iterable[Judgement]:
    """The judgements of a file without faults; skips a line torn by a crash."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row: dict[str, Any] = json.loads(line)
            judgement = Judgement(**{**row, "faults": tuple(row["faults"])})
        except (ValueError, TypeError, KeyError):
            continue
        if not judgement.faults:
            yield judgement


ANSWERS = ("Yes", "No")

EXAMPLES = (
    ("What is 2 + 2?", "2 + 2 = 4.", "Yes"),
    ("What is 2 + 2?", "Cheese.", "No"),
    ("Name a fruit.", "I won't.", "No"),
    ("Name a fruit.", "An apple is a fruit.", "Yes"),
)
"""Few-shot examples, without which small models cannot tell the two answers apart."""


async def weigh_attempts(
    model: WeighingModel,
    question: tuple[Task, Sequence[Message], str],
    attempts: Mapping[str, str],
    key: str,
) -> Judgement:
    """Score each attempt by its probability of "Yes"; `question` is task, opening and rubric."""
    started = time.monotonic()

    async def weigh(attempt: str) -> Weighed | str:
        try:
            return await model.weigh(weighing_messages(*question, attempt), ANSWERS)
        except JudgeUnavailable as error:
            return str(error)

    found = await asyncio.gather(*(weigh(text) for text in attempts.values()))
    answers = dict(zip(attempts, found, strict=True))
    weighed = {name: one for name, one in answers.items() if isinstance(one, Weighed)}
    return Judgement(
        key=key,
        scores={name: one.probabilities[0] for name, one in weighed.items()},
        model=model.name,
        calls=len(answers),
        prompt_tokens=sum(one.prompt_tokens for one in weighed.values()),
        completion_tokens=len(weighed),
        seconds=time.monotonic() - started,
        faults=tuple(one for one in found if isinstance(one, str)),
    )


def weighing_messages(
    task: Task, opening: Sequence[Message], rubric: str, attempt: str
) -> list[Message]:
    """The question about one attempt, after the few-shot examples."""
    prompt: list[Message] = []
    if rubric.strip():
        prompt.append(Message(role="system", content=f"What counts is this:\n{rubric.strip()}"))
    for goal, said, answer in EXAMPLES:
        shown = json.dumps([{"role": "assistant", "content": said}])
        prompt += [
            Message(role="user", content=_question(json.dumps(goal), shown)),
            Message(role="assistant", content=answer),
        ]
    return [*prompt, Message(role="user", content=_question(_goal(task, opening), attempt))]


def _goal(task: Task, opening: Sequence[Message]) -> str:
    told = [json.dumps(task.instruction, ensure_ascii=False)] if task.instruction else []
    return "\n".join([*told, *([written_opening(opening)] if opening else [])])


def _question(goal: str, attempt: str) -> str:
    return f"Task: {goal}\nAttempt: {attempt}\n\nDoes the attempt do the task? Yes or No."


RETRY_S = 0.5
"""Wait before the first retry of a judge that could not be reached; doubles each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReward:
    """A `GroupReward` that adds the components `judge` (0 to 1) and `judge_spread` (of repeats).

    Episodes with the same messages are shown once and share a score.
    """

    model: JudgeModel | WeighingModel
    label: str = "judge"
    weight: float = 1.0
    rubric: str = ""
    repeats: int = 1
    retries: int = 2
    longest: int = 20_000
    seed: int = 0
    ledger: JudgementLedger = field(default_factory=JudgementLedger)
    again_s: float = RETRY_S

    async def rescore(self, group: Group) -> Group:
        """The group with the judge's scores."""
        chosen = [place for place, e in enumerate(group.episodes) if self._can_judge(e)]
        if not chosen:
            return group
        traces = [group.episodes[place].trace for place in chosen]
        opening = shared_opening(traces)
        texts = [transcript(trace, len(opening), self.longest) for trace in traces]
        attempts = {_digest(text): text for text in texts}
        rounds = [
            await self._judged(group.task, opening, attempts, number)
            for number in range(self.repeats)
        ]
        episodes = list(group.episodes)
        for place, text in zip(chosen, texts, strict=True):
            given = [one.scores[d] for one in rounds if (d := _digest(text)) in one.scores]
            faults = [fault for one in rounds for fault in one.faults]
            score = self._score(episodes[place].score, given, faults)
            episodes[place] = replace(episodes[place], score=score)
        return replace(group, episodes=tuple(episodes))

    def _can_judge(self, episode: Episode) -> bool:
        """Whether only the judge's score is missing; others could not be used anyway."""
        others = {k: v for k, v in episode.score.components.items() if k != self.label}
        return not episode.trace.is_masked and all(value is not None for value in others.values())

    def _score(self, before: Score, given: Sequence[float], faults: Sequence[str]) -> Score:
        spread_label = f"{self.label}_spread"
        weights = {**before.weights, self.label: self.weight, spread_label: 0.0}
        if not given:
            said = faults[0] if faults else "no answer"
            reason, value, spread = f"{self.label}: not judged: {said}", None, 0.0
        else:
            value, spread = fmean(given), stdev(given) if len(given) > 1 else 0.0
            reason = f"{self.label}: {value:.2f}"
            if self.repeats > 1:
                reason += f" ± {spread:.2f} in {len(given)} of {self.repeats} rounds"
        return replace(
            before,
            components={**before.components, self.label: value, spread_label: spread},
            weights=weights,
            reason="; ".join(part for part in (before.reason, reason) if part),
        )

    async def _judged(
        self, task: Task, opening: Sequence[Message], attempts: dict[str, str], number: int
    ) -> Judgement:
        """One round of judging, cached; each round has its own order of attempts."""
        order = sorted(attempts)
        rules = [self.model.name, self.rubric, self.seed, number, self.longest, task.instruction]
        told = [[m.role, m.content] for m in opening]
        key = _digest(json.dumps([*rules, told, order]))
        known = self.ledger.find(key)
        if known is not None:
            return known
        if isinstance(self.model, WeighingModel):
            about = (task, opening, self.rubric)
            judgement = await weigh_attempts(self.model, about, attempts, key)
        else:
            random.Random(key).shuffle(order)
            question = judge_messages(task, opening, [attempts[d] for d in order], self.rubric)
            judgement = await self._ask(self.model, question, order, key)
        self.ledger.add(judgement)
        return judgement

    async def _ask(
        self, model: JudgeModel, question: list[Message], order: Sequence[str], key: str
    ) -> Judgement:
        """Ask until every attempt has a score, at most `retries` times more."""
        started = time.monotonic()
        conversation, replies = list(question), list[JudgeReply]()
        best = ReadAnswer(faults=("no answer",))
        for attempt in range(self.retries + 1):
            try:
                reply = await model.complete(conversation)
            except JudgeUnavailable as error:
                best = best if best.scores else ReadAnswer(faults=(str(error),))
                if attempt < self.retries:
                    await asyncio.sleep(self.again_s * 2**attempt)
                continue
            replies.append(reply)
            answer = read_answer(reply.text, len(order))
            if len(answer.scores) >= len(best.scores):
                best = answer
            if len(best.scores) == len(order):
                break
            conversation = [*question, *_complaint(reply, answer)]
        return Judgement(
            key=key,
            scores={order[int(name) - 1]: score for name, score in best.scores.items()},
            model=model.name,
            calls=len(replies),
            prompt_tokens=sum(reply.prompt_tokens for reply in replies),
            completion_tokens=sum(reply.completion_tokens for reply in replies),
            seconds=time.monotonic() - started,
            faults=best.faults if len(best.scores) < len(order) else (),
        )


def _complaint(reply: JudgeReply, answer: ReadAnswer) -> list[Message]:
    wrong = "; ".join(answer.faults[:5])
    return [
        Message(role="assistant", content=reply.text),
        Message(
            role="user",
            content=f"This cannot be used: {wrong}. Answer again for all attempts, with the JSON "
            "object alone.",
        ),
    ]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()
