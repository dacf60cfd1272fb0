"""What the policy is told about the machine and how to act on it."""

from practicum.core.task import JSON
from practicum.core.trace import ToolSpec

__all__ = ["TOOLS", "text_rules", "tool_rules"]


def text_rules(rounds: int, cwd: str, takes_answers: bool) -> str:
    """The rules of the text protocol."""
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
        "Act: finish\n"
        f"Each turn holds one Act. There are {rounds} turns."
    )


def tool_rules(rounds: int, cwd: str) -> str:
    """The rules when the policy calls tools."""
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
