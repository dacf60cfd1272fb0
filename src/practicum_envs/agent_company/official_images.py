"""A task's own image as the machine of an episode, initialised and graded by what is in it.

Two containers of it are open, with the host's network. One runs `init.sh` and keeps `/utils`; the
task's colleagues live on in it. The agent has the other, without `/utils` and `/npc`.
"""

import shlex
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import Sandbox
from practicum.core.task import JSON
from practicum_envs.agent_company.benchmark_machine import HIDDEN
from practicum_envs.agent_company.checkout import BenchmarkTask
from practicum_envs.agent_company.judge_relay import JudgeRelay
from practicum_envs.agent_company.official_grading import (
    UTILS,
    Grade,
    grade,
    run_script,
    unpack,
)
from practicum_envs.office.office_environment import furnish_machine
from practicum_envs.office.office_plan import WORKSPACE
from practicum_envs.shell.machines import Machines

INIT_S = 900.0
"""Seconds for `init.sh`, as the benchmark gives it."""
SCRIPT_S = 60.0
ARCHIVE = "/tmp/archive.tar.gz"
ARCHIVE_BYTES = 256 << 20
PYTHON = "python_default"
"""What the images call the Python that has the graders' packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedImage:
    """What grades an episode in a container of the task's image."""

    utils: bytes
    """An archive of `/utils` as `init.sh` left it."""
    hosts: bytes
    judge: Mapping[str, str]
    """The variables by which graders find their judge."""
    faults: Sequence[str]
    """What went wrong with the model that judges and plays colleagues."""

    async def grade(
        self, box: Sandbox, events: Sequence[Mapping[str, JSON]], key: Mapping[str, str]
    ) -> Grade:
        """What the image's `eval.py` gives."""
        own = {"HOME": "/root", **self.judge, **key}
        return await grade(box, self.utils, events, own, hosts=self.hosts, program=PYTHON)


@asynccontextmanager
async def open_image(
    machines: Machines, task: BenchmarkTask, image: str, address: str, judge: JudgeRelay | None
) -> AsyncIterator[tuple[Sandbox, PlayedImage]]:
    """The agent's container of a task's image, with the servers at an address."""
    if task.scenarios and judge is None:
        raise UserError(
            f"{task.name} has colleagues, whom its image plays with a model; add "
            "env.judge_endpoint=URL env.judge_model=NAME"
        )
    hosts = f"127.0.0.1 localhost sandbox\n{address} the-agent-company.com\n::1 localhost\n"
    async with AsyncExitStack() as stack:
        behind = await stack.enter_async_context(machines.open(image=image, beside_another=True))
        box = await stack.enter_async_context(machines.open(image=image))
        model: dict[str, str] = {}
        faults: Sequence[str] = ()
        if judge is not None:
            listener = socket.create_server(("127.0.0.1", 0))
            model = judge.environment(listener.getsockname()[1])
            faults = stack.enter_context(judge.serving(listener))
        # `init.sh` asks ping for the address, which a container may not be allowed to run.
        await behind.write("/etc/hosts", hosts.encode())
        variables = {"SERVER_HOSTNAME": address, **model}
        await run_script(behind, f"{UTILS}/init.sh", variables, INIT_S)
        for name in task.scenarios:
            # The brackets keep the pattern from finding the process that looks.
            runs = shlex.quote(f'[-]-agent_name="?{name}')
            await _script(behind, f"grep -Eqs {runs} /proc/[0-9]*/cmdline", f"{name} did not start")
        await _script(box, f"rm -rf {shlex.join((*HIDDEN, WORKSPACE))}", "graders are not hidden")
        await unpack(box, await _packed(behind, WORKSPACE))
        await furnish_machine(box, hosts.encode())
        utils = await _packed(behind, UTILS)
        yield box, PlayedImage(utils=utils, hosts=hosts.encode(), judge=model, faults=faults)


async def _packed(box: Sandbox, folder: str) -> bytes:
    """An archive of a folder of a machine."""
    await _script(box, f"tar -czf {ARCHIVE} -C / {shlex.quote(folder.strip('/'))}", f"no {folder}")
    return await box.read(ARCHIVE, ARCHIVE_BYTES)


async def _script(box: Sandbox, script: str, why: str) -> None:
    """Run a script; `EnvironmentFailure` with `why` where it fails."""
    done = await box.run(("bash", "-c", script), timeout_s=SCRIPT_S)
    if done.exit_code != 0:
        raise EnvironmentFailure(f"in the task's image: {why} {done.stderr[-300:]}")
