"""Every kind of assertion, held and not held, against real trees."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum_envs.shell import state_checker
from practicum_envs.shell.generated.assertions import (
    Absent,
    Ageing,
    Archive,
    Assertion,
    Contains,
    Content,
    Group,
    GroupAdmins,
    GroupOwner,
    GroupsOfUser,
    Lines,
    Listing,
    Mode,
    Modified,
    NoAccount,
    Owner,
    PasswordLocked,
    Process,
    Processes,
    Regex,
    SameFile,
    Symlink,
    Type,
    Unchanged,
    User,
    digest,
)

ME, MINE = os.getuid(), os.getgid()


def holds(assertion: Assertion) -> bool:
    [verdict] = state_checker.judge_state([assertion.to_json()])
    assert verdict["ok"] == (verdict["why"] == "")
    return bool(verdict["ok"])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "same.txt").hardlink_to(tmp_path / "notes.txt")
    (tmp_path / "copy.txt").write_text("one\ntwo\nthree")
    (tmp_path / "link").symlink_to("notes.txt")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / ".hidden").write_text("")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "notes.txt").chmod(0o640)
    os.utime(tmp_path / "notes.txt", (0, 1_700_000_000.9))
    return tmp_path


FILES: list[tuple[Callable[[str], Assertion], bool]] = [
    (lambda d: Content(f"{d}/notes.txt", "one\ntwo\nthree"), True),
    (lambda d: Content(f"{d}/copy.txt", "one\ntwo\nthree\n"), True),
    (lambda d: Content(f"{d}/notes.txt", "one\ntwo\nthree\n\n\n"), False),
    (lambda d: Content(f"{d}/notes.txt", "\none\ntwo\nthree\n\n", trimmed=True), True),
    (lambda d: Content(f"{d}/notes.txt", "one\ntwo\n", trimmed=True), False),
    (lambda d: Content(f"{d}/link", "one\ntwo\nthree\n"), False),
    (lambda d: Content(f"{d}/pipe", ""), False),
    (lambda d: Content(f"{d}/folder", ""), False),
    (lambda d: Content(f"{d}/missing", ""), False),
    (lambda d: Contains(f"{d}/notes.txt", "two"), True),
    (lambda d: Contains(f"{d}/notes.txt", "o", times=2), True),
    (lambda d: Contains(f"{d}/notes.txt", "o"), False),
    (lambda d: Lines(f"{d}/notes.txt", ("one", "two", "three")), True),
    (lambda d: Lines(f"{d}/notes.txt", ("three", "two", "one")), False),
    (lambda d: Lines(f"{d}/notes.txt", ("three", "two", "one"), ordered=False), True),
    (lambda d: Lines(f"{d}/notes.txt", ("three", "two", "two", "one"), ordered=False), False),
    (lambda d: Lines(f"{d}/folder/.hidden", ()), True),
    (lambda d: Lines(f"{d}/notes.txt", ()), False),
    (lambda d: Regex(f"{d}/notes.txt", "^t.o$"), True),
    (lambda d: Regex(f"{d}/notes.txt", "^t.o$", present=False), False),
    (lambda d: Regex(f"{d}/notes.txt", "four", present=False), True),
    (lambda d: Unchanged(f"{d}/notes.txt", digest("one\ntwo\nthree\n")), True),
    (lambda d: Unchanged(f"{d}/copy.txt", digest("one\ntwo\nthree\n")), False),
    (lambda d: Absent(f"{d}/missing"), True),
    (lambda d: Absent(f"{d}/broken"), False),
    (lambda d: Type(f"{d}/notes.txt", "file"), True),
    (lambda d: Type(f"{d}/link", "link"), True),
    (lambda d: Type(f"{d}/folder", "folder"), True),
    (lambda d: Type(f"{d}/link", "file"), False),
    (lambda d: Type(f"{d}/pipe", "file"), False),
    (lambda d: Mode(f"{d}/notes.txt", 0o640), True),
    (lambda d: Mode(f"{d}/notes.txt", 0o644), False),
    (lambda d: Mode(f"{d}/link", 0o777), False),
    (lambda d: Modified(f"{d}/notes.txt", 1_700_000_000), True),
    (lambda d: Modified(f"{d}/notes.txt", 1_700_000_001), False),
    (lambda d: Symlink(f"{d}/link", f"{d}/notes.txt"), True),
    (lambda d: Symlink(f"{d}/link", "notes.txt", exact=True), True),
    (lambda d: Symlink(f"{d}/link", f"{d}/notes.txt", exact=True), False),
    (lambda d: Symlink(f"{d}/link", f"{d}/copy.txt"), False),
    (lambda d: Symlink(f"{d}/notes.txt", f"{d}/notes.txt"), False),
    (lambda d: SameFile(f"{d}/notes.txt", f"{d}/same.txt"), True),
    (lambda d: SameFile(f"{d}/notes.txt", f"{d}/copy.txt"), False),
    (lambda d: SameFile(f"{d}/notes.txt", f"{d}/copy.txt", same=False), True),
    (lambda d: SameFile(f"{d}/link", f"{d}/notes.txt"), False),
    (lambda d: SameFile(f"{d}/link", f"{d}/copy.txt", same=False), False),
    (lambda d: Listing(f"{d}/folder", ("deep", ".hidden")), True),
    (lambda d: Listing(f"{d}/folder", ("deep",)), False),
    (lambda d: Listing(d, ("folder",)), False),
    (lambda d: Listing(f"{d}/missing", ()), False),
]


@pytest.mark.parametrize(("make", "expected"), FILES)
def test_assertions_about_files(
    make: Callable[[str], Assertion], expected: bool, tree: Path
) -> None:
    assert holds(make(str(tree))) is expected


def test_a_recursive_listing_names_everything_below(tree: Path) -> None:
    (tree / "folder" / "deep" / "leaf").touch()
    wanted = ("deep", "deep/leaf", ".hidden")
    assert holds(Listing(f"{tree}/folder", wanted, recursive=True))
    assert not holds(Listing(f"{tree}/folder", wanted))
    assert not holds(Listing(f"{tree}/folder", wanted[:2], recursive=True))


def test_what_is_too_long_fails_and_does_not_stop_the_checker(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holds(Content(f"{tree}/notes.txt", "one\ntwo\nthree\n"))
    monkeypatch.setattr(state_checker, "READ_LIMIT", 5)
    assert not holds(Content(f"{tree}/notes.txt", "one\ntwo\nthree\n"))
    monkeypatch.setattr(state_checker, "ENTRY_LIMIT", 1)
    assert not holds(Listing(f"{tree}/folder", ("deep", ".hidden")))


def test_bytes_that_are_no_text_fail(tree: Path) -> None:
    (tree / "raw").write_bytes(b"\xff\xfe")
    assert not holds(Content(f"{tree}/raw", ""))


def test_names_that_are_no_text_can_still_be_reported(tmp_path: Path) -> None:
    os.symlink(b"\xff", os.fsencode(tmp_path / "link"))
    [verdict] = state_checker.judge_state([Symlink(f"{tmp_path}/link", "/a").to_json()])
    assert not verdict["ok"]
    assert verdict["why"].encode("utf-8").endswith(b"/?")


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "passwd").write_text(
        f"me:x:{ME}:{MINE}:A Person:/home/me:/bin/dash\nyou:x:{ME + 1}:{MINE + 1}::/:/bin/sh\n"
    )
    (tmp_path / "group").write_text(f"mine:x:{MINE}:\nyours:x:{MINE + 1}:me,you\ncrew:x:900:me\n")
    (tmp_path / "shadow").write_text("me:$6$x:19000:2:60:5:8:21000:\nyou:!$6$x:0:0:99999:7:::\n")
    (tmp_path / "gshadow").write_text("mine:!:you:\nyours:!::me,you\ncrew:!:me,you:me\n")
    monkeypatch.setattr(state_checker, "ETC", str(tmp_path))
    return tmp_path


ACCOUNTS = [
    (User("me"), True),
    (User("me", uid=ME, comment="A Person", home="/home/me", shell="/bin/dash"), True),
    (User("me", primary_group="mine"), True),
    (User("me", uid=ME + 1), False),
    (User("me", comment=""), False),
    (User("me", home="/home"), False),
    (User("me", shell="/bin/sh"), False),
    (User("me", primary_group="yours"), False),
    (User("me", primary_group="nobody"), False),
    (User("they"), False),
    (NoAccount("they", "passwd"), True),
    (NoAccount("me", "passwd"), False),
    (NoAccount("crew", "group"), False),
    (GroupsOfUser("me", ("crew",)), True),
    (GroupsOfUser("me", ("crew", "yours"), exactly=True), True),
    (GroupsOfUser("me", ("crew",), exactly=True), False),
    (GroupsOfUser("you", ("crew",)), False),
    (GroupsOfUser("they", ()), False),
    (Group("crew"), True),
    (Group("crew", gid_range=(900, 900), members=("me",)), True),
    (Group("crew", gid_range=(901, 999)), False),
    (Group("yours", members=("you", "me")), True),
    (Group("yours", members=("me",)), False),
    (Group("theirs"), False),
    (GroupAdmins("crew", ("you", "me")), True),
    (GroupAdmins("crew", ("me",)), False),
    (GroupAdmins("yours", ()), True),
    (Ageing("me", {"changed": 19000, "min_days": 2, "max_days": 60, "warn_days": 5}), True),
    (Ageing("me", {"inactive_days": 8, "expires": 21000}), True),
    (Ageing("me", {"max_days": 61}), False),
    (Ageing("you", {"expires": 0}), False),
    (Ageing("they", {}), False),
    (PasswordLocked("you", True), True),
    (PasswordLocked("me", True), False),
    (PasswordLocked("me", False), True),
]


@pytest.mark.parametrize(("assertion", "expected"), ACCOUNTS)
def test_assertions_about_accounts(assertion: Assertion, expected: bool, etc: Path) -> None:
    assert holds(assertion) is expected


def test_owner_and_group_are_looked_up_in_the_account_files(etc: Path) -> None:
    path = str(etc / "passwd")
    assert holds(Owner(path, "me"))
    assert not holds(Owner(path, "you"))
    assert not holds(Owner(path, "they"))
    assert holds(GroupOwner(path, "mine"))
    assert not holds(GroupOwner(path, "yours"))


@pytest.mark.parametrize("damage", ["me:x:nonumber:0::/:/bin/sh\n", "me:x\n", "", "\x00\n"])
def test_a_damaged_account_file_fails_the_assertion_and_not_the_checker(
    damage: str, etc: Path
) -> None:
    (etc / "passwd").write_text(damage)
    assert not holds(User("me", uid=ME))


MEMBERS = {"a/one.txt": "1\n", "a/.two": "2"}


def tar_bytes(mode: str, prefix: str = "") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as tar:  # type: ignore[call-overload]
        folder = tarfile.TarInfo(f"{prefix}a")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, text in MEMBERS.items():
            info = tarfile.TarInfo(prefix + name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


def zip_bytes() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a/", "")
        for name, text in MEMBERS.items():
            archive.writestr(name, text)
    return data.getvalue()


@pytest.mark.parametrize(
    ("format_name", "data"),
    [
        ("tar", tar_bytes("w")),
        ("tar", tar_bytes("w", "./")),
        ("tar.gz", tar_bytes("w:gz")),
        ("zip", zip_bytes()),
    ],
)
def test_archives(format_name: Any, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(data)
    assert holds(Archive(str(path), format_name, MEMBERS))
    assert not holds(Archive(str(path), format_name, {**MEMBERS, "a/one.txt": "other"}))
    assert not holds(Archive(str(path), format_name, {"a/one.txt": "1\n"}))
    assert not holds(Archive(str(path), format_name, {**MEMBERS, "b": ""}))
    path.write_bytes(data[: min(len(data) // 2, 1300)])
    assert not holds(Archive(str(path), format_name, MEMBERS))


def test_the_format_of_an_archive_counts(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(tar_bytes("w"))
    assert not holds(Archive(str(path), "tar.gz", MEMBERS))
    assert not holds(Archive(str(path), "zip", MEMBERS))


def test_a_gzip_file_is_read_as_far_as_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"x" * 5000))
    assert holds(Archive(str(path), "gz", {"": "x" * 5000}))
    assert not holds(Archive(str(path), "gz", {"": "x" * 4999}))
    monkeypatch.setattr(state_checker, "READ_LIMIT", 4000)
    assert not holds(Archive(str(path), "gz", {"": "x" * 5000}))


@pytest.mark.parametrize(("format_name", "data"), [("tar", tar_bytes("w")), ("zip", zip_bytes())])
def test_all_members_of_an_archive_share_one_limit(
    format_name: Any, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_checker, "read_bytes", lambda path: data)
    monkeypatch.setattr(state_checker, "READ_LIMIT", 3)
    assert holds(Archive(str(tmp_path), format_name, MEMBERS))
    monkeypatch.setattr(state_checker, "READ_LIMIT", 2)
    assert not holds(Archive(str(tmp_path), format_name, MEMBERS))


def test_a_link_in_an_archive_is_no_file(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a")
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(info)
    assert not holds(Archive(str(tmp_path / "a.tar"), "tar", {"a": ""}))


def wait_for_command(pid: int) -> None:
    """A process that was just started has no command until the kernel has loaded it."""
    until = time.monotonic() + 120
    while not Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_processes_are_found_by_number_and_by_command(tmp_path: Path) -> None:
    pidfile = tmp_path / "a.pid"
    command = ("sleep", f"{40_000 + os.getpid() / 1_000_000}")
    with subprocess.Popen(["/bin/sleep", command[1]]) as process:
        try:
            pidfile.write_text(f" {process.pid}\n")
            wait_for_command(process.pid)
            assert holds(Process(str(pidfile), command))
            assert not holds(Process(str(pidfile), ("sleep", "1")))
            assert holds(Processes(command, 1))
            assert not holds(Processes(command, 2))
        finally:
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # Dead and not yet waited for: only its remains are there.
        assert not holds(Process(str(pidfile), command))
        assert holds(Processes(command, 0))
    pidfile.write_text("-1")
    assert not holds(Process(str(pidfile), command))


def test_an_unknown_kind_is_an_error_and_no_verdict() -> None:
    with pytest.raises(KeyError):
        state_checker.judge_state([{"kind": "wish"}])


def test_an_assertion_without_its_values_is_an_error_and_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        state_checker.judge_state([{"kind": "content", "path": str(tmp_path)}, {"kind": "mode"}])


def test_the_checker_needs_the_standard_library_only() -> None:
    program = "import sys\nsys.path = [p for p in sys.path if p.endswith('lib-dynload') or "
    program += "p == sys.prefix or 'python3' in p.rsplit('/', 1)[-1]]\n"
    program += Path(state_checker.__file__).read_text()
    command = [sys.executable, "-I", "-S", "-"]
    done = subprocess.run(command, input=program.encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


ODD = st.one_of(
    st.binary(max_size=400),
    st.sampled_from([b"\r", b"\0" * 600, b"\xff\xfe", b"9" * 5000, b"PK\x05\x06" + bytes(18)]),
    st.binary(max_size=60).map(gzip.compress),
    st.binary(max_size=60).map(lambda tail: b"PK\x03\x04" + tail),
)


@given(ODD)
def test_whatever_bytes_a_policy_left_there_is_a_verdict(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = f"{name}/f"
        Path(path).write_bytes(content)
        asked: list[Assertion] = [
            Content(path, "a"),
            Content(path, "a", trimmed=True),
            Contains(path, "a"),
            Lines(path, ("a",)),
            Regex(path, "a+$"),
            Unchanged(path, digest("a")),
            Process(path, ("sleep", "5")),
            *(Archive(path, form, {"a": "a"}) for form in ("tar", "tar.gz", "zip", "gz")),
        ]
        verdicts = state_checker.judge_state([one.to_json() for one in asked])
    assert [type(one["ok"]) for one in verdicts] == [bool] * len(asked)


@given(ODD, ODD)
def test_whatever_accounts_a_policy_left_there_is_a_verdict(first: bytes, second: bytes) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_checker, "ETC", name)
        for file, content in (("passwd", first), ("group", second), ("shadow", b"ada:" + first)):
            Path(name, file).write_bytes(content)
        asked: list[Assertion] = [
            User("ada", uid=7, primary_group="crew"),
            NoAccount("ada", "group"),
            GroupsOfUser("ada", ("crew",)),
            Group("crew", members=("ada",)),
            GroupAdmins("crew", ("ada",)),
            Ageing("ada", {"max": 9}),
            PasswordLocked("ada", True),
            Owner(name, "ada"),
            GroupOwner(name, "crew"),
        ]
        verdicts = state_checker.judge_state([one.to_json() for one in asked])
    assert [type(one["ok"]) for one in verdicts] == [bool] * len(asked)
