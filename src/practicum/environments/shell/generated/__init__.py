"""Generated shell tasks: made from a seed, checked by the state they leave."""

from practicum.environments.shell.generated.verdicts import (
    CHECKER_COMMAND,
    Verdict,
    checker_input,
    read_verdicts,
)

__all__ = ["CHECKER_COMMAND", "Verdict", "checker_input", "read_verdicts"]
