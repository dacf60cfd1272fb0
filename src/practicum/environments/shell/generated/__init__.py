"""Generated shell tasks: made from a seed, checked by the state they leave."""

from practicum.environments.shell.generated.skills import SKILLS
from practicum.environments.shell.generated.supply import LEVELS, Series, generate, task_from_id
from practicum.environments.shell.generated.verdicts import (
    CHECKER_COMMAND,
    Verdict,
    checker_input,
    read_verdicts,
)

__all__ = [
    "CHECKER_COMMAND",
    "LEVELS",
    "SKILLS",
    "Series",
    "Verdict",
    "checker_input",
    "generate",
    "read_verdicts",
    "task_from_id",
]
