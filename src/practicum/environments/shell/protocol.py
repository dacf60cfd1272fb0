r"""What a policy writes in the text protocol, read as an action.

    I look at the folder first.
    Act: bash
    ```bash
    ls /tmp
    ```

The word after `Act:` is `bash`, `finish` or `answer(...)`. LifelongAgentBench reads the first
`Act:` of a turn and knows no answers; AgentBench reads the last one that it knows. Every block
marked `bash` belongs to the action, and several are run one after the other.
"""

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Action", "read_action", "write_answer", "write_bash", "write_finish"]

ACT = re.compile(r"Act:\s*(.+)")
BLOCK = re.compile(r"```bash\n(.*?)\n```", re.DOTALL)

Reading = Literal["first", "last"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What one turn asks for."""

    kind: Literal["bash", "finish", "answer", "invalid"]
    content: str = ""
    """The script, the answer, or why the turn is none of them."""


def read_action(text: str, reading: Reading = "first") -> Action:
    r"""The action a turn asks for; `invalid` where it asks for none.

    >>> read_action("Act: bash\n```bash\nls\n```")
    Action(kind='bash', content='ls')
    >>> read_action("Act: answer(42)", "last")
    Action(kind='answer', content='42')
    >>> read_action("ls -l").content
    'there is no line with Act: in it'
    """
    words = [found.strip() for found in ACT.findall(text)]
    if not words:
        return Action(kind="invalid", content="there is no line with Act: in it")
    if reading == "first":
        action = _action(words[0], text, takes_answers=False)
        wrong = f"Act: {words[0][:80]!r} is neither bash nor finish"
        return action or Action(kind="invalid", content=wrong)
    known = (_action(word, text, takes_answers=True) for word in reversed(words))
    wrong = f"Act: {words[-1][:80]!r} is neither bash nor finish nor answer(...)"
    return next((a for a in known if a is not None), Action(kind="invalid", content=wrong))


def _action(word: str, text: str, *, takes_answers: bool) -> Action | None:
    start = word.lower()
    if start.startswith("bash"):
        return Action(kind="bash", content="\n\n".join(BLOCK.findall(text)))
    if start.startswith("finish"):
        return Action(kind="finish")
    if takes_answers and start.startswith("answer"):
        opening, closing = word.find("("), word.rfind(")")
        if -1 < opening < closing:
            return Action(kind="answer", content=word[opening + 1 : closing])
    return None


def write_bash(script: str) -> str:
    """A turn that runs a script."""
    return f"Act: bash\n```bash\n{script.strip()}\n```"


def write_finish() -> str:
    """A turn that says the task is done."""
    return "Act: finish"


def write_answer(answer: str) -> str:
    """A turn that answers a question; an answer is one line."""
    return f"Act: answer({' '.join(answer.split())})"
