import asyncio
import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agents.programs import ASSIGNMENT, Address, Note

from practicum.agents.command_agent import CommandAgent, KeptText
from practicum.core.errors import AgentFailure
from practicum.core.trace import StopReason


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


async def work(agent: CommandAgent, session: Any = None, limit: StopReason | None = None) -> Any:
    return await agent.work(ASSIGNMENT, session or Note(), Address(limit))


DUMP = """
import json, os
task = json.load(open(os.environ["PRACTICUM_TASK"]))
print(json.dumps({"env": dict(os.environ), "task": task, "files": os.listdir(".")}))
"""


async def test_it_is_told_where_the_model_is_and_what_to_do_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    monkeypatch.setenv("WANTED", "yes")
    agent = CommandAgent(
        command=python(DUMP), score="exit_code", inherit=("WANTED", "NOT_THERE"), shows_data=True
    )
    seen = json.loads((await work(agent)).evidence["command"]["stdout"])
    environment = seen["env"]
    assert environment["OPENAI_BASE_URL"] == "http://127.0.0.1:9/rollouts/r1/v1"
    assert environment["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9/rollouts/r1"
    assert environment["OPENAI_API_KEY"] == environment["ANTHROPIC_API_KEY"] == "rk_r1_secret"
    assert environment["PRACTICUM_PROMPT"] == "2 + 2 = ?"
    assert environment["WANTED"] == "yes"
    assert "SOME_TOKEN" not in environment
    assert "NOT_THERE" not in environment
    assert seen["task"]["data"] == {"unit": "apples"}  # the answer is hidden
    assert seen["task"]["id"] == "a1"
    assert seen["files"] == []


async def test_data_of_an_environment_is_not_shown_since_the_solution_is_in_it() -> None:
    agent = CommandAgent(command=python(DUMP), score="exit_code", hide=())
    seen = json.loads((await work(agent)).evidence["command"]["stdout"])
    assert seen["task"]["data"] == {}


async def test_its_exit_code_can_be_the_score() -> None:
    agent = CommandAgent(command=python("pass"), score="exit_code")
    good = await work(agent)
    bad = await work(CommandAgent(command=python("exit(3)"), score="exit_code"))
    assert (good.score.value, good.success) == (1.0, True)
    assert (bad.score.value, bad.success) == (0.0, False)
    assert bad.evidence["command"]["exit_code"] == 3


async def test_what_it_prints_can_be_its_answer() -> None:
    note = Note()
    report = await work(CommandAgent(command=python("print(4)")), note)
    assert note.said == ["4"]
    assert (report.score, report.success) == (None, None)


SCORE = """
import json, os, sys
answer = json.load(open(os.environ["PRACTICUM_TASK"]))["data"]["answer"]
print("compared with", answer)
print(0.5 if open("out.txt").read() == answer == sys.stdin.read().strip() else 0.0)
"""


async def test_a_scoring_command_sees_the_whole_task_and_the_work() -> None:
    worker = python("open('out.txt', 'w').write('4'); print('4')")
    report = await work(CommandAgent(command=worker, score=python(SCORE), success_at=0.5))
    assert (report.score.value, report.success) == (0.5, True)


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (python("print('good')"), "it must be a number"),
        (python("print('nan')"), "it must be a number"),
        (python("raise SystemExit('no score')"), "ended with exit code 1: no score"),
    ],
)
async def test_a_scoring_command_that_gives_no_number_fails_the_episode(
    score: tuple[str, ...], said: str
) -> None:
    with pytest.raises(AgentFailure, match=said):
        await work(CommandAgent(command=python("pass"), score=score))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (python("raise ValueError('broken')"), "ended with exit code 1.*ValueError: broken"),
        (python("import os; os.kill(os.getpid(), 9)"), "was ended by signal 9"),
        (("/nowhere/agent",), "cannot be started"),
    ],
)
async def test_a_program_that_breaks_is_the_agents_failure(
    command: tuple[str, ...], said: str
) -> None:
    with pytest.raises(AgentFailure, match=f"(?s){said}"):
        await work(CommandAgent(command=command))


async def test_a_program_that_ran_into_a_limit_of_its_episode_is_the_policys_failure() -> None:
    command = python("exit(1)")
    for score, success in (("evidence", None), ((sys.executable, "-c", "print(1)"), False)):
        agent = CommandAgent(command=command, score=score)
        report = await work(agent, limit=StopReason.CONTEXT_FULL)
        assert (report.stop, report.success) == (StopReason.CONTEXT_FULL, success)
        # By its evidence the environment judges an answer that was never given.
        assert (report.score is None) == (score == "evidence")
        assert report.score is None or report.score.value == 0.0


CHILDREN = """
import subprocess, sys, time
for new in (False, True):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                             start_new_session=new)
    print(child.pid, file=open("%s", "a"))
time.sleep(%s)
"""


@pytest.mark.parametrize("sleeps", [600, 0])
async def test_its_children_are_gone_with_it(tmp_path: Path, sleeps: int) -> None:
    pids = tmp_path / "pids"
    agent = CommandAgent(command=python(CHILDREN % (pids, sleeps)), score="exit_code")
    job = asyncio.create_task(work(agent))
    while not pids.exists() or len(pids.read_text().split()) < 2:
        await asyncio.sleep(0.02)
    if sleeps:
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
    else:
        assert (await job).success
    for pid in map(int, pids.read_text().split()):
        for _ in range(6000):
            if not _is_running(pid):
                break
            await asyncio.sleep(0.02)
        assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"  # killed, and its new parent has not asked yet


async def test_long_output_is_kept_by_its_two_ends() -> None:
    noisy = python("import sys; sys.stdout.write('a' * 200_000 + 'the end')")
    report = await work(CommandAgent(command=noisy, score="exit_code"))
    kept = report.evidence["command"]["stdout"]
    assert kept.startswith("aaa")
    assert kept.endswith("the end")
    assert len(kept) < 9000
    assert "192007 bytes left out" in kept


def test_a_short_text_is_kept_whole() -> None:
    kept = KeptText(limit=4)
    for piece in (b"ab", b"cdef", b"gh"):
        kept.add(piece)
    assert kept.text() == "abcdefgh"


async def test_a_folder_of_the_users_is_worked_in_and_left(tmp_path: Path) -> None:
    worker = python("open('made.txt', 'w').write('x')")
    await work(CommandAgent(command=worker, score="exit_code", workdir=str(tmp_path)))
    assert (tmp_path / "made.txt").exists()


async def test_a_program_that_passes_its_deadline_leaves_no_complaint_behind() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, told: complaints.append(told))
    agent = CommandAgent(command=python("import time; time.sleep(600)"), score="exit_code")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await work(agent)
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
