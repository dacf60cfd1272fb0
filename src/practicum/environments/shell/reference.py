"""Solutions as turns of an episode, in either protocol."""

from typing import Literal

from practicum.core.tool_calls import write_tool_call
from practicum.core.trace import Message, Role, ToolCall
from practicum.environments.shell.plan import Plan, Script
from practicum.environments.shell.protocol import write_answer, write_bash, write_finish

__all__ = [
    "answer_turn",
    "answers_what_it_prints",
    "example_messages",
    "reference_turns",
    "turn_of_line",
    "turns_of",
]

Protocol = Literal["text", "tools"]


def answers_what_it_prints(plan: Plan) -> bool:
    """Whether the right answer is what the reference prints when it is run."""
    return plan.check["kind"] == "chain" and plan.reference is not None


def reference_turns(plan: Plan, protocol: Protocol) -> list[str]:
    """The turns of a solution; none where it is not known."""
    if plan.check["kind"] == "match":
        wanted = plan.check.get("answer")
        return [] if wanted is None else [answer_turn(str(wanted), protocol)]
    return [] if plan.reference is None else turns_of(plan.reference, protocol)


def turns_of(script: Script, protocol: Protocol) -> list[str]:
    """Run a script, then finish."""
    code = script.code if script.language == "bash" else _python_in_bash(script.code)
    return [_bash(code, protocol), _finish(protocol)]


def example_messages(protocol: Protocol) -> list[Message]:
    """A small task and its solution, as a conversation."""
    answers: Role = "user" if protocol == "text" else "tool"
    script = "mkdir -p /srv/example && echo hello > /srv/example/greeting.txt"
    return [
        Message(
            role="user",
            content="Create the file /srv/example/greeting.txt with the single line: hello",
        ),
        Message(role="assistant", content=_bash(script, protocol)),
        Message(role=answers, content="The output of the OS is empty."),
        Message(role="assistant", content=_finish(protocol)),
    ]


def turn_of_line(line: str, protocol: Protocol) -> str:
    """What a person typed as a turn.

    >>> turn_of_line("finish", "text")
    'Act: finish'
    """
    word, _, rest = line.strip().partition(" ")
    if word == "finish" and not rest:
        return _finish(protocol)
    if word == "answer" and rest:
        return answer_turn(rest, protocol)
    return _bash(line, protocol)


def _bash(script: str, protocol: Protocol) -> str:
    if protocol == "text":
        return write_bash(script)
    return write_tool_call(ToolCall(name="bash", arguments={"script": script}))


def _finish(protocol: Protocol) -> str:
    return write_finish() if protocol == "text" else write_tool_call(ToolCall(name="finish"))


def answer_turn(answer: str, protocol: Protocol) -> str:
    """A turn that answers."""
    if protocol == "text":
        return write_answer(answer)
    return write_tool_call(ToolCall(name="answer", arguments={"answer": answer}))


def _python_in_bash(code: str) -> str:
    return f"python3 - <<'END_OF_PROGRAM'\n{code}\nEND_OF_PROGRAM"
