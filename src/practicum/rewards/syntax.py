"""Whether the code that was written can be parsed. Nothing of it is run."""

import ast
import json
import warnings
from dataclasses import dataclass

from practicum.core.command import CommandStatus, SandboxSpec
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace
from practicum.rewards.borrowed import BorrowedSandboxes
from practicum.rewards.written import CodeBlock, Turns, code_blocks, turns_written

__all__ = ["SyntaxCheck", "parses"]

LONGEST = 100_000
"""Characters of a block; parsers of longer ones could be made to use up memory."""
CHECK_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxCheck:
    """The share of blocks that parse: Python by its syntax tree, JSON, and shell by `bash -n`.

    Shell scripts are looked at by a program, so only where sandboxes are given.
    """

    turns: Turns = "all"
    without: float = 0.0
    """What an episode without a block that can be checked is worth."""
    sandboxes: BorrowedSandboxes | None = None

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """Between 0 and 1, unless there is nothing to check."""
        blocks = code_blocks(turns_written(trace, self.turns))
        here = [parses(block) for block in blocks if block.language in ("python", "json")]
        scripts = [block.code for block in blocks if block.language == "bash"]
        if scripts and self.sandboxes is not None:
            here += await _check_scripts(scripts, self.sandboxes)
        if not here:
            return Score(components={"syntax": self.without}, reason="no code to check")
        reason = f"{sum(here)} of {len(here)} blocks parse"
        return Score(components={"syntax": sum(here) / len(here)}, reason=reason)


def parses(block: CodeBlock) -> bool:
    r"""Whether a block of Python or JSON can be read as such.

    >>> [parses(CodeBlock("python", code)) for code in ("x = 1\n", "x = \n")]
    [True, False]
    """
    if len(block.code) > LONGEST:
        return False
    try:
        if block.language == "json":
            json.loads(block.code)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a newer Python will refuse is still Python
                ast.parse(block.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


async def _check_scripts(scripts: list[str], sandboxes: BorrowedSandboxes) -> list[bool]:
    async with sandboxes.box(SandboxSpec(profile="code")) as box:
        found = []
        for script in scripts:
            checked = await box.run(["bash", "-n"], timeout_s=CHECK_S, stdin=script.encode())
            found.append(checked.status is CommandStatus.OK and checked.exit_code == 0)
        return found
