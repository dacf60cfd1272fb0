"""Conversations on which a chat template must do what its form says.

They have contents that templates are known to change, system messages, tools, calls, results and
thinking. Arguments and parameters come in the order in which Ollama hands them to a template, which
is that of the alphabet, and tools have the keys that Ollama keeps.
"""

import random
from collections.abc import Iterator
from typing import Any

from practicum.delivery.turn_form import ASSISTANT, SYSTEM, TOOL, USER, Messages, Tools

COUNT = 660
"""How many; a third of them without tools."""
CONTENTS = (
    "Solve 3x + 7 = 16.",
    "  space around  ",
    "two\nlines\n",
    "",
    'quotes " and \\ and {{ braces }} and {% signs %}',
    "ünïcödé 漢字 🙂",
    '<tool_call>\n{"name": "bash"}\n</tool_call>',
    "<think>\nI wonder.\n</think>\n\nYes.",
)
"""Contents that templates are known to change: they trim, drop thinking, or read calls."""
VALUES: tuple[Any, ...] = (
    "ls -l | grep '<a>' && echo \"done\"",
    "two\nlines\tand a tab",
    "ünïcödé 漢字 🙂",
    "a\u00a0narrow\u200dspace",
    "",
    3,
    -2.5,
    True,
    None,
    [],
    {},
    ["a", 1, None],
    {"deep": {"er": [1, {"x": "<y>"}]}, "z": False},
)
TOOLS: Tools = tuple(
    {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }
    for name, description, parameters in (
        (
            "bash",
            'Runs a command, such as `a && b > "c"`.',
            {
                "type": "object",
                "properties": {"command": {"type": "string", "description": "Shell <command>."}},
                "required": ["command"],
            },
        ),
        (
            "weather",
            "Tells the weather of a city.\nIn one unit.",
            {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Größe zählt nicht 🙂"},
                    "days": {"type": "integer"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city", "unit"],
            },
        ),
        ("now", "", {"type": "object", "properties": {}}),
        (
            "plot",
            "Draws.",
            {
                "type": "object",
                "properties": {
                    "at": {
                        "type": "object",
                        "properties": {"x": {"type": "number"}, "y": {"type": ["number", "null"]}},
                        "required": ["x"],
                    },
                    "points": {"type": "array", "items": {"type": "number"}},
                },
            },
        ),
    )
)


def sample_conversations(seed: int = 0) -> Iterator[tuple[Messages, Tools]]:
    """Conversations that the assistant goes on with, the same ones for the same seed."""
    chance = random.Random(seed)
    for number in range(COUNT):
        tools = () if number % 3 == 0 else tuple(chance.sample(TOOLS, chance.randint(1, 3)))
        yield _conversation(chance, tools, turns=1 + number % 6), tools


def _conversation(chance: random.Random, tools: Tools, turns: int) -> Messages:
    """Roles take turns as Ollama hands them on: it joins neighbours of one role but results."""
    found: list[dict[str, Any]] = []
    if chance.random() < 0.5:
        found.append({"role": SYSTEM, "content": chance.choice(CONTENTS)})
    for turn in range(turns):
        found.append({"role": USER, "content": chance.choice(CONTENTS)})
        if turn == turns - 1 and (not tools or chance.random() < 0.5):
            break
        if tools and chance.random() < 0.7:
            found += _calls(chance)
            if turn == turns - 1:
                break
        found.append({"role": ASSISTANT, "content": chance.choice(CONTENTS)})
        if chance.random() < 0.3:
            found[-1]["reasoning_content"] = "I wonder."
        if turn < turns - 1 and chance.random() < 0.1:
            found.append({"role": SYSTEM, "content": chance.choice(CONTENTS)})
    return found


def _calls(chance: random.Random) -> list[dict[str, Any]]:
    """One or two calls, and their results."""
    calls = []
    for at in range(chance.choice((1, 1, 2))):
        values = chance.sample(VALUES, chance.randint(0, 3))
        names = sorted(chance.sample(("city", "command", "n", "zone"), len(values)))
        function = {"name": "bash", "arguments": dict(zip(names, values, strict=True))}
        calls.append({"id": f"call0000{at}", "type": "function", "function": function})
    asked = {"role": ASSISTANT, "content": chance.choice(CONTENTS), "tool_calls": calls}
    results = [
        {
            "role": TOOL,
            "content": chance.choice(CONTENTS),
            "name": "bash",
            "tool_call_id": call["id"],
        }
        for call in calls
    ]
    return [asked, *results]
