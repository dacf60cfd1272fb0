"""Attempts weighed one by one, for judges too small to write scores.

Asked whether an attempt does the task, even a small model that could not write down a comparison
finds "Yes" likelier for a good attempt than for a bad one. Its probability is the score.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence

from practicum.core.judging import JudgeUnavailable, Weighed, WeighingModel
from practicum.core.task import Task
from practicum.core.trace import Message
from practicum.rewards.judge.ledger import Judgement
from practicum.rewards.judge.prompt import written_opening

__all__ = ["weigh_attempts", "weighing_messages"]

ANSWERS = ("Yes", "No")

EXAMPLES = (
    ("What is 2 + 2?", "2 + 2 = 4.", "Yes"),
    ("What is 2 + 2?", "Cheese.", "No"),
    ("Name a fruit.", "I won't.", "No"),
    ("Name a fruit.", "An apple is a fruit.", "Yes"),
)
"""What small models need to see before they tell the two apart."""


async def weigh_attempts(
    model: WeighingModel,
    question: tuple[Task, Sequence[Message], str],
    attempts: Mapping[str, str],
    key: str,
) -> Judgement:
    """The probability of "Yes" for each attempt; `question` is task, opening and rubric."""
    started = time.monotonic()

    async def weighed(attempt: str) -> Weighed | str:
        try:
            return await model.weigh(weighing_messages(*question, attempt), ANSWERS)
        except JudgeUnavailable as error:
            return str(error)

    found = await asyncio.gather(*(weighed(text) for text in attempts.values()))
    answers = dict(zip(attempts, found, strict=True))
    heard = {name: one for name, one in answers.items() if isinstance(one, Weighed)}
    return Judgement(
        key=key,
        scores={name: one.probabilities[0] for name, one in heard.items()},
        model=model.name,
        calls=len(answers),
        prompt_tokens=sum(one.prompt_tokens for one in heard.values()),
        completion_tokens=len(heard),
        seconds=time.monotonic() - started,
        faults=tuple(one for one in found if isinstance(one, str)),
    )


def weighing_messages(
    task: Task, opening: Sequence[Message], rubric: str, attempt: str
) -> list[Message]:
    """The question about one attempt, after some that are answered."""
    asked: list[Message] = []
    if rubric.strip():
        asked.append(Message(role="system", content=f"What counts is this:\n{rubric.strip()}"))
    for goal, said, answer in EXAMPLES:
        shown = json.dumps([{"role": "assistant", "content": said}])
        asked += [
            Message(role="user", content=_question(json.dumps(goal), shown)),
            Message(role="assistant", content=answer),
        ]
    return [*asked, Message(role="user", content=_question(_goal(task, opening), attempt))]


def _goal(task: Task, opening: Sequence[Message]) -> str:
    told = [json.dumps(task.instruction, ensure_ascii=False)] if task.instruction else []
    return "\n".join([*told, *([written_opening(opening)] if opening else [])])


def _question(goal: str, attempt: str) -> str:
    return f"Task: {goal}\nAttempt: {attempt}\n\nDoes the attempt do the task? Yes or No."
