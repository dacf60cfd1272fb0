"""Solutions as turns of an episode, in either protocol."""

from typing import Literal

from practicum.core.tool_calls import write_tool_call
from practicum.core.trace import ToolCall
from practicum.environments.shell.plan import Plan, Script
from practicum.environments.shell.protocol import write_answer, write_bash, write_finish

__all__ = ["answers_by_looking", "reference_turns", "turn_of_line", "turns_of"]

Protocol = Literal["text", "tools"]


def answers_by_looking(plan: Plan) -> bool:
    """Whether the right answer is what the reference prints."""
    return plan.check["kind"] == "chain" and plan.reference is not None


def reference_turns(plan: Plan, protocol: Protocol) -> list[str]:
    """The turns of a solution; none where it is not known or its answer must be looked up."""
    if plan.check["kind"] == "match":
        wanted = plan.check.get("answer")
        return [] if wanted is None else [_answer(str(wanted), protocol)]
    if plan.reference is None or answers_by_looking(plan):
        return []
    return turns_of(plan.reference, None, protocol)


def turns_of(script: Script, answer: str | None, protocol: Protocol) -> list[str]:
    """Run a script, then finish or answer."""
    code = script.code if script.language == "bash" else _python_in_bash(script.code)
    last = _finish(protocol) if answer is None else _answer(answer, protocol)
    return [_bash(code, protocol), last]


def turn_of_line(line: str, protocol: Protocol) -> str:
    """What a person typed as a turn.

    >>> turn_of_line("finish", "text")
    'Act: finish'
    """
    word, _, rest = line.strip().partition(" ")
    if word == "finish" and not rest:
        return _finish(protocol)
    if word == "answer" and rest:
        return _answer(rest, protocol)
    return _bash(line, protocol)


def _bash(script: str, protocol: Protocol) -> str:
    if protocol == "text":
        return write_bash(script)
    return write_tool_call(ToolCall(name="bash", arguments={"script": script}))


def _finish(protocol: Protocol) -> str:
    return write_finish() if protocol == "text" else write_tool_call(ToolCall(name="finish"))


def _answer(answer: str, protocol: Protocol) -> str:
    if protocol == "text":
        return write_answer(answer)
    return write_tool_call(ToolCall(name="answer", arguments={"answer": answer}))


def _python_in_bash(code: str) -> str:
    return f"python3 - <<'END_OF_PROGRAM'\n{code}\nEND_OF_PROGRAM"
