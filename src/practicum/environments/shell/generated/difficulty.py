"""How hard a task looks, measured on the task itself before anybody has tried it."""

import re
from collections.abc import Sequence

from practicum.core.task import JSON
from practicum.environments.shell.generated.assertions import Assertion

__all__ = ["measure_difficulty"]

COMMAND_ENDS = re.compile(r"\n|;|&&|\|\|?|(?<![>&0-9])&(?!>)")
OPTION = re.compile(r"(?<=\s)--?[A-Za-z]")


def measure_difficulty(
    *,
    reference: str,
    assertions: Sequence[Assertion],
    skills: Sequence[str],
    instruction: str,
) -> dict[str, JSON]:
    """Counts of what has to be done, and a score that sums them up.

    The score is an estimate and no measurement of success: one for each command, assertion about
    another object, skill, and half for each option. Its use is to order tasks within a level.
    """
    commands = len([part for part in COMMAND_ENDS.split(reference) if part.strip()])
    options = len(OPTION.findall(reference))
    objects = {_object(assertion) for assertion in assertions}
    return {
        "commands": commands,
        "options": options,
        "assertions": len(assertions),
        "objects": len(objects),
        "skills": len(skills),
        "words": len(instruction.split()),
        "score": round(commands + len(objects) + len(skills) + options / 2, 1),
    }


def _object(assertion: Assertion) -> str:
    """The path or account that an assertion is about."""
    record = assertion.to_json()
    return str(record.get("path") or record.get("name") or record.get("pidfile") or record)
