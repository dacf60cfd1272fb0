"""`Colleagues`: the people of a company who answer in chat.

By default they are scripted and deterministic: a colleague tells a fact when a message asks for
it, in whatever words (`understanding`), refuses while what it needs has not been said, and
otherwise says who may know. What was said before is read from the room itself, so a reset of
RocketChat resets them. With an endpoint, a model plays those with a goal or a persona; its answers
come when they come.
"""

import json
import threading
import urllib.request
from collections import Counter
from collections.abc import Sequence
from typing import Any

from practicum_envs.office.chat_model import Chat
from practicum_envs.office.company_state import Company, Document
from practicum_envs.office.understanding import (
    ANOTHER,
    BACK_REFERENCE,
    GREETING,
    REFUSED,
    REPEAT,
    REQUEST,
    THANKS,
    asking_parts,
    is_bare,
    known_words,
    list_items,
    matches,
    means,
    states,
    stem,
    words,
)

MODEL_S = 120.0
"""Seconds a model has for an answer."""
MOST_TURNS = 20
"""Answers of one colleague in one room, as in TheAgentCompany."""
MOST_ASKED = 100
"""Questions to a model in one company: a flood of messages must not be why it gives no answer."""
MOST_HEARD = 12_000
"""Characters of the last messages that a model is shown, so that they are within its context."""
UNKNOWN = "I am not sure what you need from me. What exactly would you like to know?"
HELLO = "Hello! What can I do for you?"
NOTED = "All right, thank you for telling me."
WELCOME = "You are welcome."
MOST_OF_A_FOLLOW_UP = 7
"""Words of a message that asks about what was said last, such as "how many of those?"."""
MOST_OF_A_GREETING = 14
"""Words of a message that only greets."""


def _spoken_to(room: Document, message: Document) -> list[str]:
    if room["t"] == "d":
        return list(room["members"])
    return [one["username"] for one in message["mentions"]]


class Colleagues:
    """Answers for all colleagues of a company."""

    def __init__(self, company: Company, endpoint: dict[str, Any] | None = None) -> None:
        self._company = company
        self._endpoint = endpoint
        self._asked = 0

    def on_message(self, room: Document, message: Document) -> None:
        """Let whoever was spoken to answer: the other in direct messages, in channels by name."""
        colleagues: dict[str, Document] = self._company.data["colleagues"]
        if "t" in message:
            return
        sender = message["u"]["username"]
        for username in _spoken_to(room, message):
            if username in colleagues and username != sender:
                self._answer(colleagues[username], room, message)

    def _answer(self, colleague: Document, room: Document, message: Document) -> None:
        chat = Chat(self._company)
        said = chat.messages[room["_id"]]
        own = [one for one in said if one["u"]["username"] == colleague["username"]]
        if colleague["is_silent"] or len(own) >= MOST_TURNS:
            return
        if self._endpoint is not None and (colleague["goal"] or colleague["persona"]):
            self._asked += 1
            if self._asked > MOST_ASKED:
                return
            prompt = model_messages(colleague, said)
            work = (self._endpoint, prompt, colleague["username"], room["_id"])
            threading.Thread(target=self._ask_model, args=work, daemon=True).start()
            return
        scripted = ScriptedColleague(colleague, self._company.data["people"])
        sender, answer = message["u"]["username"], ""
        for one in said:
            if one["u"]["username"] != sender or "t" in one:
                continue
            if colleague["username"] in _spoken_to(room, one):
                answer = scripted.answer(one["msg"])
            else:
                scripted.hear(one["msg"])
        self._say(colleague["username"], room["_id"], answer)

    def _say(self, username: str, room_id: str, text: str) -> None:
        """Post an answer; nobody answers to it."""
        chat = Chat(self._company)
        user, room = chat.user(username), chat.rooms.get(room_id)
        if user is not None and room is not None and text:
            chat.post(room, user, text)

    def _ask_model(
        self, endpoint: dict[str, Any], prompt: list[Document], username: str, room_id: str
    ) -> None:
        """In a thread of its own: let the model answer."""
        try:
            text = complete(endpoint, prompt)
        except Exception as error:  # noqa: BLE001 - whatever a server does, the episode must know
            said = f"{type(error).__name__}: {error}"
            self._company.note_colleague(f"a colleague's model gave no answer: {username}: {said}")
            return
        with self._company.lock:
            if not self._company.is_held:
                self._say(username, room_id, text[:4000])


def _level(fact: Document, level: int) -> list[str]:
    """What asks for a fact: its `when` first, then less and less plainly."""
    return list(fact["when"] if level == 0 else fact["also"][level - 1 : level])


def _joined(lines: Sequence[str]) -> str:
    """Several answers as one message, without those that another one has in it."""
    text = ""
    for line in dict.fromkeys(lines):
        if not any(line != other and line.lower() in other.lower() for other in lines):
            text += f"{'' if not text else ' ' if text[-1] in '.!?' else chr(10)}{line}"
    return text


class ScriptedColleague:
    """What one colleague says to one other person; it knows what was said so far, and no more.

    >>> from dataclasses import asdict
    >>> from practicum_envs.office.company_seed import Colleague, Fact
    >>> ann = Colleague(username="ann", facts=(Fact(when=("budget",), say="It is $500."),))
    >>> ScriptedColleague(asdict(ann), {}).answer("What may we spend?")
    'It is $500.'
    """

    def __init__(self, colleague: Document, people: dict[str, Document]) -> None:
        self._colleague = colleague
        self._people = people
        self._facts: list[Document] = colleague["facts"]
        own = " ".join(
            [colleague["username"], people.get(colleague["username"], {}).get("name", "")]
        )
        self._own_name = frozenset(words(own.replace("_", " ")))
        self._levels = 1 + max((len(fact["also"]) for fact in self._facts), default=0)
        self._known = [
            known_words(
                [one for fact in self._facts for n in range(upto + 1) for one in _level(fact, n)]
            )
            for upto in range(self._levels)
        ]
        """The words of its facts down to each level: each of them stands for itself alone."""
        self._heard: list[str] = []
        self._told: Counter[int] = Counter()
        self._wanted: set[int] = set()
        """Facts that were asked for and that need something yet."""
        self._last: int | None = None
        """The fact that was told, or refused, last."""
        self._last_line = ""

    def hear(self, text: str) -> None:
        """Something was said nearby; it needs no answer."""
        self._heard.append(text)

    def answer(self, text: str) -> str:
        """What it says to a message."""
        self.hear(text)
        if self._last_line and REPEAT.search(text) and not REFUSED.search(text):
            return self._last_line
        chosen = [*self._now_met(), *self._asked_for(text)]
        if not chosen and self._goes_on(text) and self._last is not None:
            chosen = [self._last]
        lines = [self._tell(number) for number in dict.fromkeys(chosen)]
        if lines:
            self._last_line = _joined(lines)
            return self._last_line
        return self._small_talk(text)

    def _is_met(self, fact: Document) -> bool:
        own = known_words(fact["needs"])
        return all(any(states(one, text, own) for text in self._heard) for one in fact["needs"])

    def _now_met(self) -> list[int]:
        """Facts that were asked for before, and of which all is there now."""
        return sorted(number for number in self._wanted if self._is_met(self._facts[number]))

    def _asked_for(self, text: str) -> list[int]:
        """The facts that a message asks for: one for each thing it asks."""
        parts = list(asking_parts(text))
        said = [words(part) for part in parts]
        if not said and GREETING.search(text):
            said = [tuple(one for one in words(text) if means(one, stem("greeting")))]
        for level in range(self._levels):
            for number, part in enumerate(said):
                found = self._fitting(part, level)
                if found:
                    asked_in = parts[number] if parts else ""
                    return [*found, *self._also_asked(asked_in, level, found)]
        return []

    def _also_asked(self, text: str, level: int, found: Sequence[int]) -> list[int]:
        """Facts for those things of a list in a question that nothing at its level fits.

        Each is looked for by what a fact says, and a bare word such as `destination` by all that
        the question is about.
        """
        more: list[int] = []
        for item in list_items(text):
            said = words(item)
            if not set(said) - self._own_name or self._fitting(said, level):
                continue
            fits = self._fitting(said, level + 1)[:1] if level + 1 < self._levels else []
            for deeper in range(level + 1, self._levels):
                if not fits and is_bare(item):
                    fits = [n for n in self._fitting(words(text), deeper) if n not in found][:1]
            more += [n for n in fits if n not in found]
        return more

    def _fitting(self, said: tuple[str, ...], level: int) -> list[int]:
        """The facts that words fit: by what they are about, or more vaguely at a higher level."""
        hits: dict[int, frozenset[int]] = {}
        for number, fact in enumerate(self._facts):
            found = matches(_level(fact, level), said, self._known[level])
            own = {n for n in found if said[n] in self._own_name}
            if found - own:
                if not self._is_met(fact) and not fact["otherwise"]:
                    self._wanted.add(number)
                else:
                    hits[number] = found - own
        return self._best(hits)

    def _best(self, hits: dict[int, frozenset[int]]) -> list[int]:
        """Of the facts that words of a message fit, those that fit best; each word counts once."""
        chosen: list[int] = []
        while hits:
            best = max(
                hits, key=lambda one: (bool(self._facts[one]["needs"]), len(hits[one]), -one)
            )
            used = hits[best]
            alike = [one for one in hits if hits[one] == used and self._is_like(one, best)]
            chosen += [best] if self._colleague["is_brief"] else alike
            hits = {one: rest for one in hits if (rest := hits[one] - used)}
        return chosen

    def _is_like(self, one: int, other: int) -> bool:
        return bool(self._facts[one]["needs"]) == bool(self._facts[other]["needs"])

    def _goes_on(self, text: str) -> bool:
        """Whether a message is about what was said last: an answer to a question, or more of it."""
        if self._last is None or THANKS.search(text):
            return False
        fact = self._facts[self._last]
        has_more = self._told[self._last] <= len(fact["again"]) and fact["again"]
        if has_more and (self._last_line.endswith("?") or ANOTHER.search(text)):
            return True
        if self._last in self._wanted:
            return any(asking_parts(text))
        if self._colleague["otherwise"] or self._colleague["sends_to"]:
            return False
        return len(text.split()) <= MOST_OF_A_FOLLOW_UP and bool(BACK_REFERENCE.search(text))

    def _tell(self, number: int) -> str:
        fact = self._facts[number]
        self._last = number
        if not self._is_met(fact):
            self._wanted.add(number)
            return str(fact["otherwise"])
        self._wanted.discard(number)
        lines = [fact["say"], *fact["again"]]
        line = lines[min(self._told[number], len(lines) - 1)]
        self._told[number] += 1
        return str(line)

    def _small_talk(self, text: str) -> str:
        """What is said to a message that asks for nothing it knows."""
        if THANKS.search(text) and not REQUEST.search(text):
            return WELCOME
        greeting = str(self._colleague["greeting"])
        other = self._people.get(self._colleague["sends_to"])
        if other is not None:
            where = f"@{other['username']} ({other['name']}, {other['role'] or 'a colleague'})"
            return f"{greeting} I do not know that. Please ask {where}.".strip()
        if any(asking_parts(text)):
            return str(self._colleague["otherwise"]) or greeting or UNKNOWN
        if greeting:
            return greeting
        return HELLO if GREETING.search(text) and len(text.split()) <= MOST_OF_A_GREETING else NOTED


def model_messages(colleague: Document, said: list[Document]) -> list[Document]:
    """The conversation as a model that plays the colleague sees it."""
    system = (
        f"You play a person in a company and answer in its chat. {colleague['persona']}\n"
        f"{colleague['goal']}\nAnswer briefly, as this person, and never say that you are a model. "
        "Tell only what is asked for."
    )
    turns: list[Document] = []
    left = MOST_HEARD
    for one in reversed([one for one in said if "t" not in one]):
        is_own = one["u"]["username"] == colleague["username"]
        turns.insert(0, {"role": "assistant" if is_own else "user", "content": one["msg"][-left:]})
        left -= len(one["msg"])
        if left <= 0:
            break
    return [{"role": "system", "content": system}, *turns]


def complete(endpoint: dict[str, Any], messages: list[Document]) -> str:
    """One answer of an OpenAI-compatible endpoint."""
    body = json.dumps({"model": endpoint["model"], "messages": messages, "max_tokens": 400})
    key = {"Authorization": f"Bearer {endpoint['key']}"} if endpoint.get("key") else {}
    request = urllib.request.Request(
        f"{endpoint['url'].rstrip('/')}/chat/completions",
        body.encode(),
        {"Content-Type": "application/json", **key},
    )
    with urllib.request.urlopen(request, timeout=MODEL_S) as answer:
        found = json.load(answer)
    return str(found["choices"][0]["message"]["content"] or "").strip()
