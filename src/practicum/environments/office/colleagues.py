"""`Colleagues`: the people of a company who answer in chat.

By default they are scripted and deterministic: a colleague tells a fact when a message asks for it,
refuses while what it needs has not been said, and otherwise says who may know. What was said before
is read from the room itself, so a reset of RocketChat resets them too. With an endpoint, a model
plays those with a goal or a persona; its answers come when they come.
"""

import json
import re
import threading
import urllib.request
from typing import Any

from practicum.environments.office.chat_model import Chat
from practicum.environments.office.company_state import Company, Document

MODEL_S = 120.0
"""Seconds a model has for an answer."""
MOST_TURNS = 20
"""Answers of one colleague in one room, as in TheAgentCompany."""
MOST_ASKED = 100
"""Questions to a model in one company: a flood of messages must not be why it gives no answer."""
MOST_HEARD = 12_000
"""Characters of the last messages that a model is shown, so that they are within its context."""
UNKNOWN = "I am not sure what you need from me. What exactly would you like to know?"
NOT_YET = "I cannot tell you that yet."


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
        spoken_to = (
            room["members"]
            if room["t"] == "d"
            else [one["username"] for one in message["mentions"]]
        )
        for username in spoken_to:
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
        sender = message["u"]["username"]
        heard = [one["msg"] for one in said if one["u"]["username"] == sender]
        people = self._company.data["people"]
        answer = scripted_answer(colleague, heard, [one["msg"] for one in own], people)
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


def scripted_answer(
    colleague: Document, heard: list[str], own: list[str], people: dict[str, Document]
) -> str:
    """What a colleague says to the last of the messages it heard from someone.

    >>> from dataclasses import asdict
    >>> from practicum.environments.office.company_seed import Colleague, Fact
    >>> ann = Colleague(username="ann", facts=(Fact(when=("budget",), say="It is $500."),))
    >>> scripted_answer(asdict(ann), ["What is the budget?"], [], {})
    'It is $500.'
    """
    answers: list[str] = []
    for fact in sorted(colleague["facts"], key=lambda one: bool(one["is_last"])):
        if not matches(fact["when"], heard[-1]) or (fact["is_last"] and answers):
            continue
        if not all(any(matches([need], text) for text in heard) for need in fact["needs"]):
            answers.append(fact["otherwise"] or NOT_YET)
            continue
        told = [fact["say"], *fact["again"]]
        before = sum(text in one for one in own for text in told)
        answers.append(told[min(before, len(told) - 1)])
    if answers:
        return " ".join(dict.fromkeys(answers))
    other = people.get(colleague["sends_to"])
    if other is not None:
        greeting = f"{colleague['greeting']} " if colleague["greeting"] else ""
        where = f"@{other['username']} ({other['name']}, {other['role'] or 'a colleague'})"
        return f"{greeting}I do not know that. Please ask {where}."
    return str(colleague["greeting"] or UNKNOWN)


def matches(words: list[str], text: str) -> bool:
    """Whether a text has one word of each alternative, whole words only, a plural s aside.

    >>> matches(["budget|money", "total"], "What are the total budgets?")
    True
    >>> matches(["budget"], "How are you?")
    False
    """
    lowered = text.lower()
    return bool(words) and all(
        any(
            re.search(rf"(?<!\w){re.escape(one.strip().lower())}s?(?!\w)", lowered)
            for one in alternatives.split("|")
        )
        for alternatives in words
    )


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
