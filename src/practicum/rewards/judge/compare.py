"""The judge as a reward: one relative judgement of a whole group.

The idea of letting a model rank the attempts at one task beside each other is RULER's (OpenPipe
ART). Here scores are matched by id, the order changes with each repeat, repeats are averaged and
their spread is reported, and what could not be judged is unscored rather than 0.
"""

import asyncio
import hashlib
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev

from practicum.core.judging import JudgeModel, JudgeReply, JudgeUnavailable, WeighingModel
from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.core.trace import Message
from practicum.rewards.judge.answers import ReadAnswer, read_answer
from practicum.rewards.judge.ledger import Judgement, JudgementLedger
from practicum.rewards.judge.prompt import judge_messages, shared_opening, transcript
from practicum.rewards.judge.weigh import weigh_attempts

__all__ = ["JudgeReward"]

AGAIN_S = 0.5
"""Before the judge is asked again that could not be reached; doubled each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReward:
    """Adds a component from 0 to 1 to each episode, and how far repeats differ as another.

    Implements `GroupReward`. Episodes with the same messages are shown once and share a score.
    """

    model: JudgeModel | WeighingModel
    """One that can be asked for probabilities weighs each attempt by itself."""
    label: str = "judge"
    weight: float = 1.0
    rubric: str = ""
    repeats: int = 1
    retries: int = 2
    longest: int = 20_000
    seed: int = 0
    ledger: JudgementLedger = field(default_factory=JudgementLedger)
    again_s: float = AGAIN_S

    async def rescore(self, group: Group) -> Group:
        """The group with what the judge says of each episode that can be judged."""
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
        """Whether all that it lacks is the judge's word."""
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
        """One round: the attempts in an order of their own."""
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
        """Ask until every attempt has its score, or as often as is allowed."""
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
            if best.is_whole or len(best.scores) == len(order):
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
