"""One episode: a draft grows turn by turn, and each turn pays what it is better by."""

import re
from collections.abc import Mapping
from typing import Any

from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message
from practicum_envs.writing.brief import Brief
from practicum_envs.writing.outline import points_of
from practicum_envs.writing.prose import words_of
from practicum_envs.writing.text_score import TextScore, score_text
from practicum_envs.writing.value_places import stem
from practicum_envs.writing.writing_turns import Turn, read_edit, read_turn

RULES = """\
You write a text for a brief. Reply with one action a turn:
write_paragraph TEXT - adds a paragraph
add_details TEXT - adds sentences to the last paragraph
edit_content OLD => NEW - replaces words of the text; nothing after => takes them out
{more}hand_in - ends the work
Say every fact of the brief in whole sentences, in your own words. Make up no names, dates or \
numbers."""
MORE = """\
create_outline POINT | POINT - one point for each paragraph, naming what it says
brainstorm_ideas WORD | WORD - what is known of these
"""
FOR_PROGRESS = 0.5
"""Paid for all the way from the first draft to one without fault, in parts."""
FOR_SUCCESS = 0.5
"""Paid for handing in a text that meets every demand."""
FOR_FAULTS = -0.1
"""Paid for handing in any other."""
FOR_NOTHING = -0.02
"""Paid for a turn that does nothing."""
WORST = -1.0
"""Of the progress: how far a draft that was given can be spoilt."""
FULL_MARKS = FOR_PROGRESS + FOR_SUCCESS
MOST_PARAGRAPHS = 8
MOST_CHARACTERS = 6000
SHOWN_PROBLEMS = 4
MOST_IDEAS = 10


UNREADABLE = "Begin with an action, such as: write_paragraph It is open on Monday."


class _NothingDone(Exception):
    """A turn that changes nothing, and why."""


class WritingSession:
    """One episode of one brief; implements `DiscreteSession`. Turns are free text."""

    def __init__(self, task: Task) -> None:
        data: Mapping[str, Any] = task.data
        self._brief = Brief.of(data["brief"])
        self._paragraphs = self._brief.draft
        self._outline: tuple[str, ...] = ()
        self._start = self._score().value
        self._rewards: list[float] = []
        self._handed_in = False
        self._is_open = True

    def prompt(self) -> list[Message]:
        """The rules, and the brief."""
        plans = self._brief.needs_outline or self._brief.notes_hidden
        rules = RULES.format(more=MORE if plans else "")
        return [
            Message(role="system", content=rules),
            Message(role="user", content="\n".join(self._brief.lines())),
        ]

    def actions(self) -> tuple[ActionForm, ...]:
        """None are listed: turns are free text."""
        return ()

    async def act(self, text: str) -> Observation:
        """Carry out one turn; one that cannot be read costs a little."""
        if not self._is_open or self._handed_in:
            raise RuntimeError("the episode is over; open a new session for another one")
        turn = read_turn(text)
        if turn is None:
            return self._seen(UNREADABLE, FOR_NOTHING)
        before = self._potential()
        try:
            told = self._carry_out(turn)
        except _NothingDone as refusal:
            return self._seen(str(refusal), FOR_NOTHING)
        if turn.name == "hand_in":
            return self._seen(told, FOR_SUCCESS if self._score().passes else FOR_FAULTS)
        return self._seen(told, self._potential() - before)

    async def outcome(self) -> Outcome:
        """Success, the reward of each turn, and the text with the parts of its score."""
        score = self._score()
        parts: dict[str, JSON] = {name: round(value, 4) for name, value in score.parts.items()}
        return Outcome(
            success=self._handed_in and score.passes,
            turn_rewards=tuple(self._rewards),
            evidence={
                "text": "\n\n".join(self._paragraphs),
                "outline": list(self._outline),
                "handed_in": self._handed_in,
                "score": round(score.value, 4),
                "parts": parts,
                "checks": [{"ok": False, "why": problem} for problem in score.problems],
            },
        )

    def close(self) -> None:
        """Refuse further turns."""
        self._is_open = False

    def _score(self) -> TextScore:
        return score_text(self._brief, self._paragraphs, self._outline)

    def _potential(self) -> float:
        """What was paid so far for the draft as it is; turns pay its differences."""
        progress = (self._score().value - self._start) / (1.0 - self._start)
        return FOR_PROGRESS * max(WORST, progress)

    def _seen(self, told: str, pay: float) -> Observation:
        self._rewards.append(pay)
        message = Message(role="user", content=told)
        return Observation(message=message, reward=pay, terminated=self._handed_in)

    def _carry_out(self, turn: Turn) -> str:
        """Do what a turn asks for; what it is answered with."""
        if turn.name == "hand_in":
            return self._hand_in()
        if not turn.text:
            raise _NothingDone(f"Nothing was done: write something after {turn.name}.")
        if turn.name == "brainstorm_ideas":
            return self._ideas(turn.text)
        if turn.name == "create_outline":
            return self._plan(turn.text)
        if turn.name == "edit_content":
            return self._edit(turn.text)
        return self._write(turn)

    def _hand_in(self) -> str:
        if not any(self._paragraphs):
            raise _NothingDone("Nothing was handed in: there is no text yet.")
        self._handed_in = True
        score = self._score()
        if score.passes:
            return "Handed in: it meets every demand of the brief."
        return f"Handed in, with faults. {' '.join(score.problems)}"

    def _write(self, turn: Turn) -> str:
        written = list(self._paragraphs)
        if turn.name == "write_paragraph" or not written:
            written.append(turn.text)
        else:
            written[-1] = f"{written[-1]} {turn.text}"
        self._take(written)
        return self._state()

    def _edit(self, text: str) -> str:
        found = read_edit(text)
        if found is None:
            raise _NothingDone("Nothing was changed: write edit_content OLD => NEW.")
        old, new = found
        at = next((n for n, one in enumerate(self._paragraphs) if old in one), None)
        if at is None:
            raise _NothingDone("Nothing was changed: the text does not have these words.")
        changed = " ".join(self._paragraphs[at].replace(old, new, 1).split())
        every = [*self._paragraphs[:at], changed, *self._paragraphs[at + 1 :]]
        self._take([one for one in every if one])
        return self._state()

    def _take(self, paragraphs: list[str]) -> None:
        if len(paragraphs) > MOST_PARAGRAPHS or sum(map(len, paragraphs)) > MOST_CHARACTERS:
            raise _NothingDone("Nothing was changed: the text would be too long.")
        self._paragraphs = tuple(paragraphs)

    def _plan(self, text: str) -> str:
        self._outline = points_of(text)
        told = f"The outline has {_counted(len(self._outline), 'point')}."
        return f"{told} {self._state()}" if self._paragraphs else told

    def _ideas(self, text: str) -> str:
        """What the brief knows of some words; a word of which it knows nothing is told too."""
        lines, unknown = [], []
        asked = [idea.strip() for idea in re.split(r"[|,]", text) if idea.strip()]
        for idea in asked[:MOST_IDEAS]:
            said = {stem(word) for word in words_of(idea)}
            found = [
                fact
                for fact in self._brief.all_facts
                if {stem(word) for word in words_of(fact.label)} <= said
            ]
            secret = {fact.key for fact in self._brief.private}
            lines += [f"{f.line}{' (do not tell)' if f.key in secret else ''}" for f in found]
            unknown += [] if found else [idea[:40]]
        lines = list(dict.fromkeys(lines))
        told = ["Notes:", *lines] if lines else []
        return "\n".join(
            [*told, *([f"Nothing is known of: {', '.join(unknown)}"] if unknown else [])]
        )

    def _state(self) -> str:
        score = self._score()
        size = f"{_counted(score.words, 'word')}, {_counted(score.paragraphs, 'paragraph')}"
        problems = " ".join(score.problems[:SHOWN_PROBLEMS])
        return f"Text: {size}. {problems or 'It meets the brief: hand_in.'}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
