"""Processes as a first process sees them."""

import os
import subprocess
import time

import pytest

from practicum.sandboxes.inside import processes


def test_a_family_is_its_roots_and_all_below_them() -> None:
    parents = {2: 1, 3: 2, 4: 3, 5: 1, 6: 5, 7: 99}
    assert processes.with_descendants({2}, parents) == {2, 3, 4}
    assert processes.with_descendants({5, 7}, parents) == {5, 6, 7}
    assert processes.with_descendants({42}, parents) == set()
    assert processes.with_descendants(set(), parents) == set()


def test_living_processes_have_parents_and_dead_ones_are_not_listed() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert processes.living()[child.pid] == os.getpid()
    finally:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.pid not in processes.living(), "a zombie is not alive"
    child.wait()


def test_states_and_threads() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert processes.threads_of(child.pid) == [child.pid]
        assert processes.state_of(child.pid) in (b"S", b"R", b"D")
    finally:
        child.kill()
        child.wait()
    assert processes.state_of(child.pid) == b""
    assert processes.threads_of(child.pid) == []


def test_memory_is_counted_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "living", lambda: {os.getpid(): 1, 2**22 + 1: 1})
    assert processes.resident_bytes() > 1_000_000


def test_what_is_spared_stays_and_the_others_go(monkeypatch: pytest.MonkeyPatch) -> None:
    spared, doomed = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    ours = {spared.pid, doomed.pid}
    real = processes.living
    monkeypatch.setattr(
        processes, "living", lambda: {pid: p for pid, p in real().items() if pid in ours}
    )
    try:
        assert processes.kill_all_but({spared.pid})
        assert doomed.wait(120) == -9
        assert spared.poll() is None
    finally:
        for child in (spared, doomed):
            child.kill()
            child.wait()


def test_who_cannot_be_killed_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "KILL_S", 0.05)
    monkeypatch.setattr(processes, "living", lambda: {2**22 + 1: 1})
    assert not processes.kill_all_but(set())


def test_young_processes_are_given_time_and_no_more_than_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter([[0.01, 9.0], [0.1, 9.0], [0.3, 9.0]])
    monkeypatch.setattr(processes, "_ages", lambda: next(looks))
    processes.wait_for_young()
    assert list(looks) == [], "it looked until all were old enough"
    monkeypatch.setattr(processes, "_ages", lambda: [0.0])
    monkeypatch.setattr(processes, "SETTLE_LIMIT_S", 0.05)
    began = time.monotonic()
    processes.wait_for_young()
    assert time.monotonic() - began >= 0.05
