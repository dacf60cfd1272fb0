"""The server that is kept running, with small programs in place of the real one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.environments.remote import servers
from practicum.environments.remote.servers import (
    KEY_VARIABLE,
    ExternalServer,
    ManagedServer,
    RemoteOptions,
)

GOOD = "echo http://127.0.0.1:9; cat"
"""Says where it is, and stops when its standard input ends."""


def managed_server(
    script: str, monkeypatch: pytest.MonkeyPatch, **options: object
) -> ManagedServer:
    monkeypatch.setattr(servers, "_command", lambda _: ["sh", "-c", script])
    return ManagedServer(RemoteOptions.model_validate({"serve": "math", **options}))


def wait_until_gone(pid: int) -> None:
    for _ in range(12_000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


def test_it_is_started_once_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    server = managed_server(GOOD, monkeypatch)
    assert server.instance() == server.instance() == ("http://127.0.0.1:9", 1)
    pid = server.pid
    assert pid is not None
    server.stop()
    server.stop()
    wait_until_gone(pid)


def test_it_is_given_its_key_where_others_cannot_read_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = managed_server(f"echo ${KEY_VARIABLE} > {tmp_path}/key; {GOOD}", monkeypatch)
    server.instance()
    assert (tmp_path / "key").read_text().strip() == server.key
    assert len(server.key) >= 32
    server.stop()


def test_a_dead_server_is_started_again_until_it_dies_too_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = managed_server(f"echo out of luck >&2; {GOOD}", monkeypatch, max_restarts=2)
    pids = set()
    for _ in range(3):
        server.instance()
        assert server.pid is not None
        pids.add(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        servers._stop(server._process)  # type: ignore[arg-type]
    assert len(pids) == 3
    with pytest.raises(UserError, match=r"stopped 3 times in a row \(out of luck\)"):
        server.instance()
    server.stop()


def test_an_episode_that_ends_well_forgives_earlier_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    server = managed_server(GOOD, monkeypatch, max_restarts=0)
    for _ in range(3):
        server.instance()
        server.report_success()
        server.report_hang(server.instance())
        assert server._process is not None
        server._process.wait()
    server.stop()


def test_only_the_life_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    server = managed_server(GOOD, monkeypatch)
    before = server.instance()
    server.report_hang(before)
    assert server._process is not None
    server._process.wait()
    after = server.instance()
    assert (after.url, after.generation) == (before.url, before.generation + 1)
    server.report_hang(before)
    time.sleep(0.05)
    assert server._process.poll() is None
    server.stop()


def test_a_server_that_does_not_come_up_is_a_failure_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = managed_server("echo no port >&2; exit 1", monkeypatch)
    with pytest.raises(EnvironmentFailure, match=r"ended while starting \(no port\)"):
        ended.instance()
    ended.stop()
    late = managed_server("exec cat", monkeypatch, startup_timeout_s=0.1)
    with pytest.raises(EnvironmentFailure, match=r"within 0\.1 s"):
        late.instance()
    late.stop()


def test_a_users_mistake_ends_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = managed_server("echo practicum: no sandbox >&2; exit 2", monkeypatch)
    with pytest.raises(UserError, match="no sandbox"):
        server.instance()
    server.stop()


def test_a_server_that_stays_deaf_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    server = managed_server(GOOD, monkeypatch, give_up_s=0.05)
    server.report_unreachable("no answer")
    time.sleep(0.06)
    server.report_success()
    server.report_unreachable("no answer")
    time.sleep(0.06)
    with pytest.raises(UserError, match=r"server of 'math' for 0\.05 s \(no answer\)"):
        server.report_unreachable("no answer")


def test_a_server_is_not_left_behind_when_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    server = managed_server(GOOD, monkeypatch)
    server.instance()
    pid = server.pid
    assert pid is not None
    del server
    wait_until_gone(pid)


def test_the_key_of_a_running_server_is_read_from_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "from-the-environment")
    (tmp_path / "key").write_text("from-the-file\n")
    options = {"url": "http://127.0.0.1:9"}

    def key_with(**more: str) -> str:
        return ExternalServer(RemoteOptions.model_validate({**options, **more})).key

    assert key_with() == "from-the-environment"
    assert key_with(key_file=str(tmp_path / "key")) == "from-the-file"
    with pytest.raises(UserError, match="--key-file"):
        key_with(key_file=str(tmp_path / "none"))


NOISE = "head -c 1000000 /dev/zero | tr '\\0' x >&2"


def test_what_its_environment_prints_never_blocks_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = f"{NOISE}; echo http://127.0.0.1:9; {NOISE}; echo done > {tmp_path}/done; cat"
    server = managed_server(script, monkeypatch)
    assert server.instance().url == "http://127.0.0.1:9"
    while not (tmp_path / "done").exists():  # for ever, where a full pipe blocks it
        time.sleep(0.01)
    server.stop()


NOISY = """
import os, subprocess, sys
from practicum.cli.env import _address_channel

with _address_channel() as channel:
    print("printed")
    os.write(1, b"written")
    subprocess.run([sys.executable, "-c", "print('of a child')"], check=True)
    print("http://127.0.0.1:9", file=channel, flush=True)
    print("printed later")
"""


def test_the_address_is_alone_on_standard_output_whatever_code_prints() -> None:
    done = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, text=True, check=True)
    assert done.stdout == "http://127.0.0.1:9\n"
    for said in ("printed", "written", "of a child", "printed later"):
        assert said in done.stderr


TALKATIVE = """
import practicum as pr
from practicum_envs.math.math_environment import MathEnvironment

print("imported " + "x" * 100_000)


class Talkative(MathEnvironment):
    def tasks(self, *args, **kwargs):
        print("asked for tasks " + "x" * 100_000)
        return super().tasks(*args, **kwargs)
"""


@pytest.mark.slow
def test_an_environment_that_prints_is_served(tmp_path: Path) -> None:
    import httpx

    (tmp_path / "talkative.py").write_text(TALKATIVE)
    serve = f"{tmp_path}/talkative.py:Talkative"
    server = ManagedServer(RemoteOptions(serve=serve, startup_timeout_s=600))
    try:
        url = server.instance().url
        headers = {"Authorization": f"Bearer {server.key}"}
        with httpx.Client(headers=headers, timeout=600) as client:
            for _ in range(3):
                assert client.post(f"{url}/reset", json={"seed": 1}).status_code == 200
    finally:
        server.stop()
