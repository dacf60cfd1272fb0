"""Judges that answer by rule."""

import json
import re
from collections.abc import Callable, Sequence

from practicum.core.score import JudgeReply
from practicum.core.trace import Message


def shown_to(messages: Sequence[Message]) -> dict[str, str]:
    """What the judge was shown, as the JSON text of each attempt by its id."""
    question = messages[1].content.partition("Attempts:\n")[2]
    return dict(re.findall(r'^\{"id": "(\d+)", "messages": (.*)\}$', question, re.MULTILINE))


class RuleJudge:
    """Scores attempts by their text, and remembers what it was asked."""

    def __init__(
        self,
        rule: Callable[[str], float],
        write: Callable[[dict[str, float], int], str] | None = None,
        name: str = "rule",
    ) -> None:
        self._rule = rule
        self._write = write or (lambda scores, call: json.dumps({"scores": scores}))
        self._name = name
        self.asked: list[list[Message]] = []

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        self.asked.append(list(messages))
        scores = {name: self._rule(text) for name, text in shown_to(messages).items()}
        text = self._write(scores, len(self.asked))
        return JudgeReply(text=text, prompt_tokens=100, completion_tokens=10)
