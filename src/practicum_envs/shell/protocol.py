"""Prompts and turns of shell tasks in both protocols, `text` and `tools`; solutions as turns.

A turn of the text protocol:

    I look at the folder first.
    Act: bash
    ```bash
    ls /tmp
    ```

After `Act:` comes `bash`, `finish` or, where a task asks something, `answer(...)`. The first `Act:`
of a turn counts, as in LifelongAgentBench; in AgentBench's tasks the last valid one, as there. So a
turn that runs commands and says at once that it is done runs them and sees what they print. All
blocks marked `bash` are run, one after the other. The rules say so.
"""

import re
from dataclasses import dataclass
from typing import Literal

from practicum.core.task import JSON
from practicum.core.tool_calls import write_tool_call
from practicum.core.trace import Message, Role, ToolCall, ToolSpec
from practicum_envs.shell.plan_of_task import Plan, Reading, Script


def one_act(rounds: int, reading: Reading) -> str:
    """What the rules say of turns: how many there are, and which `Act:` of one counts."""
    return f"Each turn holds one Act: of several the {reading} counts. There are {rounds} turns."


def text_rules(rounds: int, cwd: str, takes_answers: bool, reading: Reading) -> str:
    """The system prompt of the text protocol."""
    answers = (
        "When the task asks a question, answer it, and write nothing but the answer between the "
        "brackets:\nAct: answer(42)\n"
        if takes_answers
        else ""
    )
    return (
        "You are root on a Linux machine and do one task there with bash commands.\n"
        "To run commands, write:\n"
        "Act: bash\n"
        "```bash\n"
        "ls -l /tmp\n"
        "```\n"
        "You are then shown what they print. "
        f"{_shell_facts(cwd)}\n"
        f"{answers}"
        "When the task is done, write:\n"
        f"Act: finish\n{one_act(rounds, reading)}"
    )


def tool_rules(rounds: int, cwd: str) -> str:
    """The system prompt of the tools protocol."""
    return (
        "You are root on a Linux machine and do one task there. Call one tool a turn: bash runs "
        "commands and shows what they print, answer gives the answer where the task asks a "
        f"question, finish says that the task is done. {_shell_facts(cwd)} "
        f"There are {rounds} turns."
    )


def _shell_facts(cwd: str) -> str:
    return (
        f"Each turn's commands run in a new shell that starts in {cwd}, and nothing can be typed "
        "while they run."
    )


def _schema(name: str, description: str, *, required: bool) -> dict[str, JSON]:
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": {name: {"type": "string", "description": description}},
    }
    return {**schema, "required": [name]} if required else schema


TOOLS = (
    ToolSpec(
        name="bash",
        description="Run commands in bash and see what they print.",
        parameters=_schema("script", "The commands.", required=True),
    ),
    ToolSpec(
        name="finish",
        description="Say that the task is done.",
        parameters=_schema("thought", "Why it is done.", required=False),
    ),
    ToolSpec(
        name="answer",
        description="Answer the question that the task asks, and end it.",
        parameters=_schema("answer", "The answer and nothing else.", required=True),
    ),
)
"""The tools of every shell task."""


ACT = re.compile(r"Act:\s*(.+)")
BLOCK = re.compile(r"```bash\n(.*?)\n```", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What one turn asks for."""

    kind: Literal["bash", "finish", "answer", "invalid"]
    content: str = ""
    """The script, the answer, or why the turn is invalid."""


def read_action(text: str, reading: Reading = "first", *, takes_answers: bool = True) -> Action:
    r"""The action a turn asks for; `invalid` where it asks for none.

    >>> read_action("Act: bash\n```bash\nls\n```\nAct: finish")
    Action(kind='bash', content='ls')
    >>> read_action("Act: answer(42)")
    Action(kind='answer', content='42')
    >>> read_action("ls -l").content
    'there is no line with Act: in it'
    """
    words = [found.strip() for found in ACT.findall(text)]
    if not words:
        return Action(kind="invalid", content="there is no line with Act: in it")
    tried = words[:1] if reading == "first" else words[::-1]
    known = "bash, finish or answer(...)" if takes_answers else "bash or finish"
    wrong = Action(kind="invalid", content=f"Act: {tried[0][:80]!r} is not {known}")
    found = (_action(word, text, takes_answers=takes_answers) for word in tried)
    return next((action for action in found if action is not None), wrong)


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


Protocol = Literal["text", "tools"]


def bash_turn(script: str, protocol: Protocol) -> str:
    """A turn that runs a script."""
    if protocol == "text":
        return f"Act: bash\n```bash\n{script.strip()}\n```"
    return write_tool_call(ToolCall(name="bash", arguments={"script": script}))


def finish_turn(protocol: Protocol) -> str:
    """A turn that says the task is done."""
    return "Act: finish" if protocol == "text" else write_tool_call(ToolCall(name="finish"))


def answer_turn(answer: str, protocol: Protocol) -> str:
    """A turn that answers the task's question; on one line in the text protocol."""
    if protocol == "text":
        return f"Act: answer({' '.join(answer.split())})"
    return write_tool_call(ToolCall(name="answer", arguments={"answer": answer}))


def answers_what_it_prints(plan: Plan) -> bool:
    """Whether the right answer is what the reference prints when it is run."""
    return plan.check["kind"] == "chain" and plan.reference is not None


def reference_turns(plan: Plan, protocol: Protocol) -> list[str]:
    """The turns of a solution; empty where none is known."""
    if plan.check["kind"] == "match":
        wanted = plan.check.get("answer")
        return [] if wanted is None else [answer_turn(str(wanted), protocol)]
    return [] if plan.reference is None else turns_of(plan.reference, protocol)


def turns_of(script: Script, protocol: Protocol) -> list[str]:
    """Two turns: run a script, then finish."""
    code = script.code
    if script.language == "python":
        code = f"python3 - <<'END_OF_PROGRAM'\n{code}\nEND_OF_PROGRAM"
    return [bash_turn(code, protocol), finish_turn(protocol)]


def example_messages(protocol: Protocol) -> list[Message]:
    """A small task and its solution: a one-shot example before the real task."""
    answers: Role = "user" if protocol == "text" else "tool"
    script = "mkdir -p /srv/example && echo hello > /srv/example/greeting.txt"
    return [
        Message(
            role="user",
            content="Create the file /srv/example/greeting.txt with the single line: hello",
        ),
        Message(role="assistant", content=bash_turn(script, protocol)),
        Message(role=answers, content="The output of the OS is empty."),
        Message(role="assistant", content=finish_turn(protocol)),
    ]


def turn_from_line(line: str, protocol: Protocol) -> str:
    """A line that a person typed, as a turn: `finish`, `answer TEXT` or a command.

    >>> turn_from_line("finish", "text")
    'Act: finish'
    """
    word, _, rest = line.strip().partition(" ")
    if word == "finish" and not rest:
        return finish_turn(protocol)
    if word == "answer" and rest:
        return answer_turn(rest, protocol)
    return bash_turn(line, protocol)
