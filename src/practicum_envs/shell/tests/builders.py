"""Shell tasks and machines for the tests beside this file."""

from collections.abc import Callable, Sequence
from typing import Any

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.task import JSON, Task
from practicum.sandboxes.commands import RanCommand
from practicum.sandboxes.fake_sandbox import FakeSandboxes
from practicum_envs.shell.shell_environment import ShellEnvironment, ShellOptions

SETUP, REFERENCE, CHECK = "mkdir /a", "touch /a/b", "test -e /a/b"

SCRIPT_PLAN: dict[str, JSON] = {
    "source": "lifelong",
    "setup": SETUP,
    "reference": REFERENCE,
    "check": {"kind": "script", "script": CHECK},
    "skills": ["touch"],
}


def make_task(**data: JSON) -> Task:
    """A task that is checked by a script unless told otherwise."""
    return Task(
        id="one", env="shell", split="train", instruction="Make /a/b.", data={**SCRIPT_PLAN, **data}
    )


def ok(stdout: str = "", exit_code: int = 0) -> CommandResult:
    return CommandResult(status=CommandStatus.OK, exit_code=exit_code, stdout=stdout)


def ended(status: CommandStatus, stdout: str = "") -> CommandResult:
    return CommandResult(status=status, exit_code=None, stdout=stdout)


def script_in(ran: RanCommand) -> str:
    """The script that a command runs, whatever runs it."""
    return ran.command[-1] if ran.command[0] == "sh" else ran.command[2]


class TouchMachines(FakeSandboxes):
    """Machines on which only the reference has an effect; `instead` answers what it knows."""

    def __init__(self, instead: Callable[[RanCommand], CommandResult | None] = lambda ran: None):
        self.done: set[int] = set()
        super().__init__(lambda ran: instead(ran) or self._plain(ran))

    def _plain(self, ran: RanCommand) -> CommandResult:
        (machine,) = [n for n, (_, box) in enumerate(self.opened) if any(ran is r for r in box.ran)]
        if REFERENCE in script_in(ran) and not ran.is_judge:
            self.done.add(machine)
        if ran.is_judge:
            return ok(exit_code=0 if machine in self.done else 1)
        return ok()


def make_environment(
    machines: FakeSandboxes | None = None, /, **options: Any
) -> tuple[ShellEnvironment, FakeSandboxes]:
    """A shell environment on fake machines."""
    chosen = machines or TouchMachines()
    environment = ShellEnvironment(ShellOptions.model_validate(options))
    environment.use_sandboxes(lambda kind: chosen)
    return environment, chosen


async def play(environment: ShellEnvironment, task: Task, turns: Sequence[str]) -> Any:
    """Take the turns; what was seen and the outcome."""
    seen = []
    async with environment.open(task) as session:
        for turn in turns:
            seen.append(await session.act(turn))  # type: ignore[union-attr]
        return seen, await session.outcome()
