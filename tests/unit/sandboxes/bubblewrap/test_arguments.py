"""The arguments of bwrap, by value: what a sandbox has and, above all, what it has not."""

import json
from dataclasses import asdict

import pytest

from practicum.core.command import SandboxProfile, SandboxSpec
from practicum.sandboxes.bubblewrap.bwrap_command import (
    GROUP,
    PASSWD,
    InheritedFds,
    bwrap_arguments,
)

HANDED = InheritedFds(
    connection=10, program=11, filter=12, info=13, passwd=14, group=15, lifeline=17, namespace=16
)


def arguments(profile: SandboxProfile, disk_mb: int = 3) -> list[str]:
    spec = SandboxSpec(profile=profile, disk_mb=disk_mb, processes=7)
    return bwrap_arguments(spec, HANDED, root="/rootfs", python="/usr/bin/python3", watched_bytes=9)


def has(found: list[str], *words: str) -> bool:
    """Whether the words stand there one after the other."""
    return any(tuple(found[at : at + len(words)]) == words for at in range(len(found)))


@pytest.mark.parametrize("profile", ["code", "machine"])
def test_every_namespace_is_its_own(profile: SandboxProfile) -> None:
    found = arguments(profile)
    for kind in ("pid", "net", "ipc", "uts", "cgroup"):
        assert f"--unshare-{kind}" in found
    assert "--unshare-user" in found or has(found, "--userns", "16")
    assert {"--die-with-parent", "--new-session", "--as-pid-1"} <= set(found)


@pytest.mark.parametrize("profile", ["code", "machine"])
def test_nothing_of_the_host_can_be_written(profile: SandboxProfile) -> None:
    found = arguments(profile)
    assert not {"--bind", "--bind-try", "--dev-bind", "--dev-bind-try", "--bind-data"} & set(found)
    assert found[found.index("--") - 2 : found.index("--")] == ["--remount-ro", "/"]
    assert has(found, "--remount-ro", "/dev")


def test_every_memory_file_system_has_a_size() -> None:
    for profile in ("code", "machine"):
        found = arguments(profile)
        for at, word in enumerate(found):
            if word == "--tmpfs":
                assert found[at - 2] == "--size"
                assert int(found[at - 1]) > 0


def test_code_is_an_ordinary_user_without_rights() -> None:
    found = arguments("code")
    assert has(found, "--uid", "1000", "--gid", "1000", "--disable-userns", "--cap-drop", "ALL")
    assert has(found, "--size", str(3 << 20), "--tmpfs", "/work")
    assert has(found, "--chdir", "/work")
    assert "--cap-add" not in found


def test_code_sees_programs_and_nothing_else_of_the_host() -> None:
    found = bwrap_arguments(
        SandboxSpec(), HANDED, root="", python="/usr/bin/python3", watched_bytes=0
    )
    shown = [found[at + 1] for at, word in enumerate(found) if word.startswith("--ro-bind")]
    assert [path for path in shown if path.startswith("/")] == [
        "/usr",
        "/etc/alternatives",
        "/etc/ld.so.cache",
    ]


def test_a_machine_is_root_of_its_own_ids() -> None:
    found = arguments("machine")
    assert has(found, "--uid", "0", "--gid", "0", "--userns", "16")
    assert has(found, "--ro-bind", "/rootfs", "/")
    assert has(found, "--size", str(3 << 20), "--tmpfs", "/run")


def test_a_machine_without_ids_is_refused() -> None:
    handed = InheritedFds(connection=1, program=2, filter=3, info=4, passwd=5, group=6, lifeline=7)
    with pytest.raises(ValueError, match="user namespace"):
        bwrap_arguments(
            SandboxSpec(profile="machine"), handed, root="/", python="python3", watched_bytes=0
        )


@pytest.mark.parametrize("profile", ["code", "machine"])
def test_the_first_process_is_told_its_limits(profile: SandboxProfile) -> None:
    command = arguments(profile)[arguments(profile).index("--") + 1 :]
    assert command[:3] == ["/usr/bin/python3", "-I", "-S"]
    assert command[4:] == [profile, "10", "17", "/mnt/filter", "7", "9"]


def test_a_machine_sees_folders_of_the_host_that_it_cannot_write() -> None:
    spec = SandboxSpec(profile="machine", shown=(("/var/a", "/here"), ("/var/b", "/there")))
    found = bwrap_arguments(
        spec, HANDED, root="/rootfs", python="/usr/bin/python3", watched_bytes=9
    )
    assert has(found, "--ro-bind", "/var/a", "/mnt/shown/0")
    assert has(found, "--ro-bind", "/var/b", "/mnt/shown/1")
    assert found[-2:] == ["/here", "/there"]
    assert SandboxSpec.from_json(json.loads(json.dumps(asdict(spec)))) == spec


def test_what_is_inherited_is_all_that_was_handed() -> None:
    assert HANDED.all() == (10, 11, 12, 13, 14, 15, 17, 16)
    assert HANDED.made_for_one() == (10, 11, 12, 13, 14, 15)


def test_the_users_of_code_are_two() -> None:
    assert [line.split(b":")[0] for line in PASSWD.splitlines()] == [b"root", b"user"]
    assert [line.split(b":")[2] for line in GROUP.splitlines()] == [b"0", b"1000"]
