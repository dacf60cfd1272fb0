"""Runs a task's tests over what the policy left, and reads the reward that they write.

`/tests` and `/logs/verifier` come to the machine only now, whatever the policy put in their places.
The script runs as a checker: with the original programs and libraries, while all that the policy
left running is held. What it wrote is read by the same process, which says so with a nonce.
"""

import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from practicum.core.command import CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Sandbox
from practicum.core.task import JSON
from practicum_envs.harbor.machine_building import packed
from practicum_envs.harbor.task_folders import TaskFolder

VERIFIER_S = 600.0
"""Seconds for the tests of a task that says nothing, as Harbor gives them."""
SHOWN_OF_LOG = 400
RUNNER = r"""
import io, json, os, shutil, stat, subprocess, sys, tarfile
head = json.loads(sys.stdin.buffer.readline())
def clear(path):
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        os.rename(path, path + ".moved")
for path in ("/tests", "/logs"):
    clear(path)
for name in ("conftest.py", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg",
             "setup.py", "sitecustomize.py", "usercustomize.py"):
    clear("/" + name)  # a pytest of /tests reads these
for path in ("/logs/verifier", "/logs/agent", "/logs/artifacts", "/tests"):
    os.makedirs(path)
tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read())).extractall("/")
os.chmod("/tests/test.sh", 0o755)
with open("/logs/verifier/test-stdout.txt", "wb") as out:
    try:
        code = subprocess.run(["/tests/test.sh"], env=head["environment"], cwd=head["cwd"],
                              stdin=-3, stdout=out, stderr=-2).returncode
    except OSError as error:
        code = 126
        out.write(str(error).encode())
def content(name):
    path = "/logs/verifier/" + name
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(seen.st_mode) or seen.st_size > 65536:
        return ""
    with open(path, errors="replace") as file:
        return file.read()
said = {"code": code, "json": content("reward.json"), "text": content("reward.txt")}
with open("/logs/verifier/test-stdout.txt", "rb") as file:
    file.seek(max(0, os.fstat(file.fileno()).st_size - 8000))
    said["log"] = file.read().decode(errors="replace")
shutil.rmtree("/tests", ignore_errors=True)
print(head["nonce"] + json.dumps(said))
"""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class NoReward(EnvironmentFailure):
    """The tests came to no reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """What the tests wrote."""

    reward: float
    rewards: Mapping[str, float]
    """All that `reward.json` has; of `reward.txt` one, called reward."""
    exit_code: int
    log: str

    def as_json(self) -> dict[str, JSON]:
        """For the outcome's evidence."""
        return {
            "rewards": dict(self.rewards),
            "tests_exit_code": self.exit_code,
            "tests_log": self.log[-2000:],
        }


async def grade(
    box: Sandbox, task: TaskFolder, workdir: str, variables: Mapping[str, str]
) -> Graded:
    """The reward of what was left in a machine; `NoReward` where there is none."""
    nonce = secrets.token_hex(16)
    own = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    given = {k: str(v) for k, v in task.section("verifier", "env").items()}
    head: dict[str, Any] = {
        "nonce": nonce,
        "cwd": workdir,
        "environment": {**own, **variables, **given, "PYTHONNOUSERSITE": "1"},
    }
    stdin = json.dumps(head).encode() + b"\n" + packed(task.folder / "tests", "tests")
    timeout_s = task.seconds("verifier", VERIFIER_S)
    # As root of the machine its working folder may be gone: that is the policy's doing.
    done = await box.judge(("python3", "-I", "-c", RUNNER), timeout_s=timeout_s, stdin=stdin)
    if done.status is CommandStatus.TIMEOUT:
        raise NoReward(f"its tests did not end in {timeout_s:g} s")
    _, is_there, said = done.stdout.rpartition(nonce)
    if done.exit_code != 0 or not is_there:
        why = (done.stderr or done.stdout).strip()[-SHOWN_OF_LOG:]
        raise NoReward(f"its tests could not be run ({done.status.value}): {why}")
    found = json.loads(said)
    rewards = rewards_in(found["json"], found["text"], str(found["log"]))
    return Graded(
        reward=chosen(rewards),
        rewards=rewards,
        exit_code=int(found["code"]),
        log=str(found["log"]),
    )


def rewards_in(as_json: str | None, as_text: str | None, log: str = "") -> dict[str, float]:
    """What the files of a verifier say; the JSON one counts where there are both, as in Harbor.

    >>> rewards_in(None, "1")
    {'reward': 1.0}
    >>> rewards_in('{"style": 0.5, "reward": 1}', "0")
    {'style': 0.5, 'reward': 1.0}
    """
    if as_json is None and as_text is None:
        last = (log.strip().splitlines() or ["they printed nothing"])[-1][:SHOWN_OF_LOG]
        raise NoReward(f"its tests wrote no /logs/verifier/reward.txt: {last}")
    try:
        if as_json is None:
            given: Any = {"reward": float(as_text or "")}
        else:
            given = json.loads(as_json)
            given = given if isinstance(given, dict) else {"reward": given}
        found = {str(name): _number(value) for name, value in given.items()}
    except (ValueError, TypeError, RecursionError, OverflowError):
        shown = (as_text if as_json is None else as_json) or ""
        raise NoReward(f"its tests wrote {shown[:80]!r}, which is no reward") from None
    if not found:
        raise NoReward("its tests wrote {}, which is no reward")
    return found


def _number(value: Any) -> float:
    if isinstance(value, str) or not math.isfinite(float(value)):
        raise ValueError(value)
    return float(value)


def chosen(rewards: Mapping[str, float]) -> float:
    """The one called reward, or else the mean of all.

    >>> chosen({"a": 1.0, "b": 0.5})
    0.75
    """
    return rewards["reward"] if "reward" in rewards else sum(rewards.values()) / len(rewards)
