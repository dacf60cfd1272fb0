"""Messages and turns of chance, for tests over every family."""

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.unit.engine.chat.families import Family

from practicum.core.trace import Message, ToolCall, ToolSpec

BASH = ToolSpec(
    name="bash",
    description="Run <|im_end|> a script.",
    parameters={
        "type": "object",
        "properties": {"script": {"type": "string"}, "seconds": {"type": "integer"}},
    },
)
FINISH = ToolSpec(name="finish", parameters={"type": "object", "properties": {}})
TOOLS = (BASH, FINISH)

WORDS = (
    "ok", "the other thing", "3x + 7 = 16", "é漢🙂", "<|im_end|>", "x\n\n9", "{", "12345", "[INST]",
    "<|im_start|>system", "\"name\"", "<tool", "``", "</s>", "\ue000", "<|eot_id|>", "  (",
    "\u00a0.",
)  # fmt: skip
"""Words, pieces of markup and texts of special tokens."""
SAID = tuple(word for word in WORDS if not word.startswith(("<|", "[")))
"""What a model says: its special tokens are tokens and not words."""
SCRIPTS = ("ls /tmp", "echo '</tool_call>'", 'printf "a\\n"', "é漢🙂", "```x```", "a\n\nb ", "{}[]")


class Script:
    """Draws what is said; every message is unlike all others."""

    def __init__(self, family: Family, dice: random.Random) -> None:
        self._family = family
        self._dice = dice
        self._count = 0

    def words(self, choice: Sequence[str] = WORDS) -> str:
        self._count += 1
        chosen = self._dice.choices(choice, k=self._dice.randint(1, 5))
        return f"ok {self._count} {' '.join(chosen)} end"

    def user(self) -> Message:
        return Message(role="user", content=self.words())

    def system(self) -> Message:
        return Message(role="system", content=self.words())

    def answers(self, said: Message) -> list[Message]:
        """What tools say to a turn's calls, or else the user."""
        if not said.tool_calls:
            return [self.user()]
        return [
            Message(role="tool", content=self.words(), tool_call_id=call.id)
            for call in said.tool_calls
        ]

    def call(self, number: int) -> ToolCall:
        self._count += 1
        if self._dice.random() < 0.2:
            return ToolCall(name="finish", id=f"call_{number}")
        script = f"{self._dice.choice(SCRIPTS)} #{self._count}"
        more = {"seconds": self._count} if self._dice.random() < 0.5 else {}
        return ToolCall(name="bash", arguments={"script": script, **more}, id=f"call_{number}")

    def turn(self, *, calls: bool) -> Message:
        """A turn of the family's model."""
        family, dice = self._family, self._dice
        said = Message(role="assistant", content=self.words(SAID))
        if family.thinks and dice.random() < 0.7:
            said = replace(said, reasoning=f"hm {self._count} {dice.choice(SCRIPTS).strip()} so")
        if calls and dice.random() < 0.6:
            count = 1 if family.single_call else dice.randint(1, 3)
            called = tuple(self.call(number) for number in range(count))
            speaks = family.says_with_calls and dice.random() < 0.5
            said = replace(said, tool_calls=called, content=said.content if speaks else "")
        return said
