"""The machine of a task: what its image has, and the benchmark's steps before an agent begins."""

import shlex
from pathlib import Path

from practicum.core.command import CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Sandbox
from practicum_envs.agent_company.checkout import BenchmarkTask, Checkout, init_scripts
from practicum_envs.agent_company.grader_packages import PLACE
from practicum_envs.agent_company.official_grading import (
    UTILS,
    archive,
    run_script,
    unpack,
)
from practicum_envs.office.office_environment import furnish_machine
from practicum_envs.office.office_plan import WORKSPACE

INIT_S = 300.0
"""Seconds for each script that initialises a task."""
RESET_S = 900.0
"""Seconds to reset the services, as the benchmark gives them."""
HIDDEN = (UTILS, "/npc")
"""Folders of the images that an agent must not see."""
SQLITE = """#!/usr/bin/python3 -I
# Does what the tasks need of the program sqlite3: sqlite3 FILE [SQL], SQL from standard input.
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], isolation_level=None)
script = " ".join(sys.argv[2:]) or sys.stdin.read()
statement = ""
for line in (script.strip().rstrip(";") + ";").splitlines(True):
    statement += line
    if sqlite3.complete_statement(statement):
        for row in base.execute(statement):
            print("|".join("" if one is None else str(one) for one in row))
        statement = ""
"""
PREPARE = f"""
mkdir -p /instruction {WORKSPACE}
ln -sf /usr/bin/python3 /usr/local/bin/python_default
chmod 755 /usr/local/bin/sqlite3
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=/usr/local/lib/python$version/dist-packages
mkdir -p "$folder" && echo {PLACE} > "$folder/graders.pth"
"""
SERVER = {"SERVER_HOSTNAME": "the-agent-company.com"}


async def python_version(box: Sandbox) -> str:
    """The version of Python in machines, such as 3.11."""
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = await box.run(("python3", "-c", asked), timeout_s=20)
    if done.exit_code != 0:
        raise EnvironmentFailure(f"the machine has no Python: {done.stderr[:200]}")
    return done.stdout.strip()


async def initialise(box: Sandbox, task: BenchmarkTask, checkout: Checkout) -> None:
    """Make a machine that of the task, and run its scripts in the order of `init.sh`.

    Its colleagues are part of the company. What graders need is gone again before the agent comes.
    """
    await furnish_machine(box)
    await box.write("/usr/local/bin/sqlite3", SQLITE.encode())
    await _run(box, PREPARE, "the machine")
    await box.write("/instruction/task.md", task.instruction.encode())
    for step in task.image:
        for source, place in step.copies(task.folder):
            if not place.startswith(tuple(f"{one}/" for one in HIDDEN)):
                await box.write(place, source.read_bytes())
        if step.command and not any(one in step.command for one in HIDDEN):
            await _run(box, step.command, f"RUN {step.command}")
    await unpack(box, archive(checkout.grading_files(task)))
    if (checkout.base / "reset.sh").is_file():
        await run_script(box, f"{UTILS}/reset.sh", SERVER, RESET_S)
    for script in init_scripts(task.folder):
        await box.write(f"{UTILS}/{script.name}", Path(script).read_bytes())
        await run_script(box, f"{UTILS}/{script.name}", SERVER, INIT_S)
    await _run(box, f"rm -rf {shlex.join(HIDDEN)}", "what graders need")


async def _run(box: Sandbox, script: str, what: str) -> None:
    done = await box.run(("bash", "-c", script), timeout_s=INIT_S, cwd=WORKSPACE)
    if done.status is not CommandStatus.OK or done.exit_code != 0:
        why = (done.stderr or done.stdout).strip()[-300:]
        raise EnvironmentFailure(f"{what} could not be made: {why}")
