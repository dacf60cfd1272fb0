"""Runs the benchmark's own `eval.py` in the machine of an episode, over what the agent left.

`/utils` is filled again for it, with the encrypted grader that the images have, and its packages
are those that every machine shows. It runs as a checker: nothing that the agent put in the place of
programs or libraries is used, and the agent's processes are held meanwhile.
"""

import io
import json
import secrets
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.core.command import CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Sandbox
from practicum.core.task import JSON
from practicum_envs.agent_company.grader_packages import PLACE
from practicum_envs.office.office_plan import WORKSPACE
from practicum_envs.office.office_session import HOSTS

UTILS = "/utils"
PYTHONPATH = f"{UTILS}:{PLACE}"
GRADING_S = 600.0
"""Seconds for a grader, as the benchmark gives it."""
SHOWN_OF_LOG = 400
"""Characters of a grader's log in a message."""
RUNNER = r"""
import io, json, os, shutil, subprocess, sys, tarfile
head = json.loads(sys.stdin.buffer.readline())
if os.path.islink("/utils") or os.path.isfile("/utils"):
    os.unlink("/utils")
shutil.rmtree("/utils", ignore_errors=True)
tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read())).extractall("/")
with open("/utils/trajectory", "w", encoding="utf-8", errors="replace") as file:
    file.write(head["trajectory"])
os.makedirs("/workspace", exist_ok=True)
env = {**os.environ, **head["environment"]}
def run(*words):
    return subprocess.run([sys.executable, *words], env=env, cwd="/workspace", stdout=-1, stderr=-2)
done = None
if os.path.exists("/utils/evaluator.py"):
    done = run("/utils/encrypt.py")
    os.remove("/utils/evaluator.py")
    os.remove("/utils/encrypt.py")
if done is None or done.returncode == 0:
    paths = ("--trajectory_path", "/utils/trajectory", "--result_path", "/utils/result")
    done = run("/utils/eval.py", *paths)
log = done.stdout.decode(errors="replace")
result = open("/utils/result").read() if done.returncode == 0 else ""
shutil.rmtree("/utils", ignore_errors=True)
print(head["nonce"] + json.dumps({"result": result, "log": log[-8000:]}))
"""


class GraderFailed(EnvironmentFailure):
    """The benchmark's grader came to no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What `eval.py` gave."""

    checkpoints: tuple[tuple[int, int], ...]
    """Points to be had and points given, of each."""
    total: int
    result: int
    """With the bonus of the task's scoring strategy."""
    log: str = ""

    @property
    def is_full(self) -> bool:
        """Whether the task is done."""
        return self.result == self.total

    @property
    def score(self) -> float:
        """S, as the leaderboard counts it."""
        return 0.5 * self.result / self.total + 0.5 * self.is_full if self.total else 0.0

    def as_json(self) -> dict[str, JSON]:
        """What the benchmark writes into `eval_TASK.json`."""
        return {
            "checkpoints": [
                {"total": total, "result": result} for total, result in self.checkpoints
            ],
            "final_score": {"total": self.total, "result": self.result},
        }


def archive(files: Mapping[str, Path]) -> bytes:
    """A tar archive of files of the checkout, by their places under `/utils`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for name, path in files.items():
            tar.add(path, f"utils/{name}", recursive=False, filter=_as_root)
    return buffer.getvalue()


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


async def grade(
    box: Sandbox,
    utils: bytes,
    events: Sequence[Mapping[str, JSON]],
    environment: Mapping[str, str],
    *,
    hosts: bytes = HOSTS,
    program: str = "python3",
) -> Grade:
    """The grade of what was left in the machine and the company; `GraderFailed` without one.

    `utils` is an archive of `/utils`, `program` the Python that runs it.
    """
    try:
        await box.write("/etc/hosts", hosts)  # the agent may have changed where it leads
    except ValueError as error:  # to a folder, or a link
        raise GraderFailed(f"the machine cannot be graded: {error}") from None
    nonce = secrets.token_hex(16)
    own = {"PYTHONPATH": PYTHONPATH, "HOME": UTILS, **environment}
    trajectory = json.dumps(list(events), ensure_ascii=False, indent=1)
    head = json.dumps({"nonce": nonce, "environment": own, "trajectory": trajectory}).encode()
    whole = head + b"\n" + utils
    done = await box.judge((program, "-I", "-c", RUNNER), timeout_s=GRADING_S, stdin=whole)
    if done.status is CommandStatus.TIMEOUT:
        raise GraderFailed(f"the grader did not end in {GRADING_S:g} s")
    _, is_there, said = done.stdout.rpartition(nonce)
    if done.exit_code != 0 or not is_there:
        why = (done.stderr or done.stdout).strip()[-SHOWN_OF_LOG:]
        raise GraderFailed(f"the grader did not run ({done.status.value}): {why}")
    return _read(json.loads(said))


def _read(said: dict[str, Any]) -> Grade:
    """The grade in what the runner printed."""
    log = str(said["log"])
    try:
        given = json.loads(said["result"])
        checkpoints = tuple((int(one["total"]), int(one["result"])) for one in given["checkpoints"])
        final = given["final_score"]
        return Grade(
            checkpoints=checkpoints, total=int(final["total"]), result=int(final["result"]), log=log
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        lines = [line for line in log.splitlines() if line.strip()] or ["it said nothing"]
        raise GraderFailed(f"the grader failed: {lines[-1][:SHOWN_OF_LOG]}") from None


async def unpack(box: Sandbox, packed: bytes) -> None:
    """Put the files of an archive into a machine."""
    done = await box.run(("tar", "-xz", "-C", "/"), timeout_s=60, stdin=packed)
    if done.exit_code != 0:
        raise EnvironmentFailure(f"an archive could not be unpacked: {done.stderr[-300:]}")


async def run_script(
    box: Sandbox, path: str, environment: Mapping[str, str], timeout_s: float
) -> None:
    """Run a script of the benchmark as its `init.sh` does; `EnvironmentFailure` where it fails."""
    program = "bash" if path.endswith(".sh") else "python3"
    own = {"PYTHONPATH": PYTHONPATH, **environment}
    done = await box.run((program, path), timeout_s=timeout_s, environment=own, cwd=WORKSPACE)
    if done.status is not CommandStatus.OK or done.exit_code != 0:
        lines = [one for one in (done.stderr or done.stdout).strip().splitlines() if one.strip()]
        why = lines[-1][:300] if lines else done.status.value
        raise EnvironmentFailure(f"the task's {path.rpartition('/')[2]} failed: {why}")
