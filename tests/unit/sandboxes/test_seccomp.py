import errno
import json
import os
import re
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from practicum.core.command import SandboxProfile
from practicum.core.errors import UserError
from practicum.sandboxes.seccomp import (
    ARCHITECTURES,
    AUDIT,
    NUMBERS,
    Architecture,
    Sharing,
    filter_program,
    native_architecture,
    number_of,
    rules_of,
)

PROFILES: tuple[SandboxProfile, ...] = ("code", "machine")
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
I386 = 0x40000003
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


def interpreted(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """What a classic BPF machine returns, written from the kernel's description of it."""
    data = struct.pack("=iIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    code = list(struct.iter_unpack("=HBBI", program))
    accumulator, at = 0, 0
    while True:
        operation, if_true, if_false, operand = code[at]
        at += 1
        if operation == 0x20:  # BPF_LD | BPF_W | BPF_ABS
            assert operand % 4 == 0
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif operation == 0x54:  # BPF_ALU | BPF_AND | BPF_K
            accumulator &= operand
        elif operation == 0x15:  # BPF_JMP | BPF_JEQ | BPF_K
            at += if_true if accumulator == operand else if_false
        elif operation == 0x35:  # BPF_JMP | BPF_JGE | BPF_K
            at += if_true if accumulator >= operand else if_false
        elif operation == 0x06:  # BPF_RET | BPF_K
            return int(operand)
        else:
            raise AssertionError(f"instruction {operation:#x} is not one that was asked for")


def verdict(
    call: str | int,
    *arguments: int,
    profile: SandboxProfile = "machine",
    architecture: Architecture = "x86_64",
    shares: Sharing = "nothing",
) -> int:
    """0 where the call is allowed, else its error."""
    number = call if isinstance(call, int) else number_of(call, architecture)
    assert number is not None
    program = filter_program(profile, shares=shares, architecture=architecture)
    said = interpreted(program, AUDIT[architecture], number, *arguments)
    if said == ALLOW:
        return 0
    assert said & 0xFFFF0000 == FAIL
    return said & 0xFFFF


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "call",
    [
        *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "fsopen", "open_tree"),
        *("move_mount", "mount_setattr", "ptrace", "process_vm_readv", "pidfd_getfd", "keyctl"),
        *("add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "init_module"),
        *("finit_module", "kexec_load", "open_by_handle_at", "name_to_handle_at", "reboot"),
        *("quotactl", "swapon", "settimeofday", "clock_settime", "acct", "syslog"),
    ],
)
def test_dangerous_calls_fail(
    call: str, profile: SandboxProfile, architecture: Architecture
) -> None:
    assert verdict(call, profile=profile, architecture=architecture) == errno.EPERM


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("call", ["clone3", "io_uring_setup", "io_uring_enter"])
def test_calls_with_an_older_form_are_said_not_to_exist(
    call: str, architecture: Architecture
) -> None:
    assert verdict(call, architecture=architecture) == errno.ENOSYS


FORK, THREAD = 0x01200011, 0x003D0F00
CHARACTER, BLOCK = stat.S_IFCHR | 0o600, stat.S_IFBLK | 0o600
ABOVE = 1 << 32
"""Bits the kernel does not read: they must not change a verdict."""


@pytest.mark.parametrize(
    ("call", "arguments", "error"),
    [
        ("clone", (FORK,), 0),
        ("clone", (THREAD,), 0),
        ("clone", (FORK | 0x10000000,), errno.EPERM),
        ("clone", (FORK | 0x00020000,), errno.EPERM),
        ("clone", (FORK | 0x40000000 | ABOVE,), errno.EPERM),
        ("personality", (0xFFFFFFFF,), 0),
        ("personality", (0x0040000,), errno.EPERM),
        ("socket", (1, 1), 0),
        ("socket", (2, 1), 0),
        ("socket", (10, 2), 0),
        ("socket", (16, 3), 0),
        ("socket", (40, 1), errno.EAFNOSUPPORT),
        ("socket", (17, 3), errno.EAFNOSUPPORT),
        ("socket", (40 | ABOVE, 1), errno.EAFNOSUPPORT),
        ("socketpair", (1, 1), 0),
        ("socketpair", (30, 1), errno.EAFNOSUPPORT),
        ("ioctl", (0, 0x5401), 0),
        ("ioctl", (0, 0x5412), errno.EPERM),
        ("ioctl", (0, 0x5412 | ABOVE), errno.EPERM),
        ("ioctl", (0, 0x541C), errno.EPERM),
        ("mknodat", (0, 0, stat.S_IFIFO | 0o600), 0),
        ("mknodat", (0, 0, 0o600), 0),
        ("mknodat", (0, 0, stat.S_IFSOCK | 0o600), 0),
        ("mknodat", (0, 0, CHARACTER), errno.EPERM),
        ("mknodat", (0, 0, BLOCK), errno.EPERM),
        ("mknodat", (0, 0, BLOCK | 0x10000), errno.EPERM),
    ],
)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("profile", PROFILES)
def test_arguments_decide(
    call: str,
    arguments: tuple[int, ...],
    error: int,
    profile: SandboxProfile,
    architecture: Architecture,
) -> None:
    assert verdict(call, *arguments, profile=profile, architecture=architecture) == error


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("chmod", (0, 0o4755)),
        ("fchmodat", (0, 0, 0o2755)),
        ("fchmodat2", (0, 0, 0o6755)),
        ("openat", (0, 0, 0o101, 0o4755)),
        ("open", (0, 0o101, 0o4755)),
        ("creat", (0, 0o4755)),
        ("mknod", (0, stat.S_IFREG | 0o4755)),
    ],
)
def test_only_a_machine_makes_files_that_give_their_user_away(
    call: str, arguments: tuple[int, ...]
) -> None:
    assert verdict(call, *arguments, profile="code") == errno.EPERM
    assert verdict(call, *arguments, profile="machine") == 0
    plain = (*arguments[:-1], arguments[-1] & 0o1777)
    assert verdict(call, *plain, profile="code") == 0


def test_a_mode_counts_only_where_a_file_is_made() -> None:
    # Opening what is there takes no mode, and the register may hold anything.
    assert verdict("openat", 0, 0, os.O_RDWR, 0o4755, profile="code") == 0
    tmpfile = 0o20000000 | os.O_DIRECTORY | os.O_RDWR
    assert verdict("openat", 0, 0, tmpfile, 0o4755, profile="code") == errno.EPERM


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("socket", (1, 1)),
        ("socket", (2, 1)),
        ("shmget", (0,)),
        ("msgget", (0,)),
        ("mq_open", (0,)),
        ("prlimit64", (1234,)),
        ("sched_setaffinity", (1234,)),
        ("setpriority", (0, 1234)),
        ("setpriority", (2, 0)),
        ("ioprio_set", (3, 0)),
        ("truncate", (0, 0)),
        ("setxattr", (0,)),
        ("openat", (0, 0, os.O_RDONLY | os.O_TRUNC)),
    ],
)
def test_without_namespaces_other_processes_are_out_of_reach(
    call: str, arguments: tuple[int, ...]
) -> None:
    assert verdict(call, *arguments, profile="code", shares="host") == errno.EPERM
    assert verdict(call, *arguments, profile="code") == 0


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("prlimit64", (0,)), ("setpriority", (0, 0)), ("socketpair", (1, 1)), ("ioprio_set", (1, 0))],
)
def test_without_namespaces_what_is_about_oneself_stays(
    call: str, arguments: tuple[int, ...]
) -> None:
    assert verdict(call, *arguments, profile="code", shares="host") == 0


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("chmod", (0, 0o644)),
        ("fchmodat", (0, 0, 0o644)),
        ("fchownat", (0, 0, 0, 0)),
        ("utimensat", (0, 0x1000)),
        ("utimensat", (0, ABOVE)),
    ],
)
def test_with_the_same_user_files_cannot_be_changed_by_name(
    call: str, arguments: tuple[int, ...]
) -> None:
    assert verdict(call, *arguments, profile="code", shares="user") == errno.EPERM
    assert verdict(call, *arguments, profile="code", shares="host") == 0


def test_with_the_same_user_open_files_stay_ones_own() -> None:
    assert verdict("fchmod", 3, 0o644, profile="code", shares="user") == 0
    assert verdict("utimensat", 3, 0, profile="code", shares="user") == 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    assert verdict("openat", 0, 0, flags, 0o644, profile="code", shares="user") == 0


@pytest.mark.parametrize("profile", PROFILES)
def test_another_architecture_kills_and_x32_does_not_exist(profile: SandboxProfile) -> None:
    program = filter_program(profile, architecture="x86_64")
    assert interpreted(program, I386, 1) == KILL
    assert interpreted(program, AUDIT["aarch64"], 1) == KILL
    assert interpreted(program, AUDIT["x86_64"], 0x40000000 | 1) == FAIL | errno.ENOSYS
    other = filter_program(profile, architecture="aarch64")
    assert interpreted(other, AUDIT["x86_64"], 1) == KILL


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_call_without_a_rule_is_allowed(architecture: Architecture) -> None:
    program = filter_program("machine", architecture=architecture)
    ruled = {number_of(rule.call, architecture) for rule in rules_of("machine")}
    for number in sorted(set(range(480)) - ruled):
        assert interpreted(program, AUDIT[architecture], number, 0, 0, 0) == ALLOW


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_numbers_are_those_of_the_kernel_headers(architecture: Architecture) -> None:
    if not HEADERS[architecture].exists():
        pytest.skip(f"{HEADERS[architecture]} is not installed")
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[architecture].read_text())
    numbers = {name: int(number) for name, number in defined}
    known = {name: number_of(name, architecture) for name in NUMBERS}
    assert {name: known[name] for name in set(known) & set(numbers)} == {
        name: numbers[name] for name in set(known) & set(numbers)
    }
    assert len(set(known) & set(numbers)) > 60


def test_no_two_calls_share_a_number() -> None:
    for architecture in ARCHITECTURES:
        numbers = [number_of(name, architecture) for name in NUMBERS]
        there = [number for number in numbers if number is not None]
        assert len(there) == len(set(there))


def test_an_unknown_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Uname:
        machine = "riscv64"

    monkeypatch.setattr(os, "uname", Uname)
    with pytest.raises(UserError, match=r"riscv64.*x86_64 and aarch64"):
        filter_program("code")


INSTALLED = """
import ctypes, json, os, signal, struct, sys
asked = json.load(sys.stdin)
libc = ctypes.CDLL(None, use_errno=True)
program = bytes.fromhex(asked["program"])
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
loaded = Program(len(program) // 8, program)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(loaded), 0, 0) == 0, ctypes.get_errno()
errors = []
for number, *arguments in asked["calls"]:
    ctypes.set_errno(0)
    done = libc.syscall(number, *(ctypes.c_ulong(a) for a in arguments))
    errors.append(ctypes.get_errno() if done == -1 else 0)
pid = os.fork()
if pid == 0:
    os._exit(7)
exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps({"errors": errors, "child": exit_code}))
"""


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.skipif(sys.platform != "linux", reason="seccomp is a part of Linux")
def test_the_kernel_takes_it_and_judges_alike(profile: SandboxProfile) -> None:
    native = native_architecture()
    # Arguments that the kernel itself would refuse with another error, or that do nothing.
    calls: list[tuple[str, tuple[int, ...]]] = [
        ("unshare", (0,)),
        ("bpf", (0xFFFF,)),
        ("keyctl", (0xFFFF,)),
        ("clone3", (0, 0)),
        ("clone", (0x10000000 | 17,)),
        ("personality", (0x0040000,)),
        ("personality", (0xFFFFFFFF,)),
        ("socket", (40, 1, 0)),
        ("socket", (1, 1, 0)),
        ("socket", (2, 1, 0)),
        ("ioctl", (0, 0x5412, 0)),
        ("reboot", (0, 0, 0, 0)),
        ("setns", (0xFFFFFFFF, 0)),
        ("ptrace", (0xFFFF, 0, 0, 0)),
    ]
    program = filter_program(profile)
    asked = {
        "program": program.hex(),
        "calls": [[number_of(name, native), *arguments] for name, arguments in calls],
    }
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", INSTALLED],
        input=json.dumps(asked).encode(),
        capture_output=True,
        timeout=120,
        check=True,
    )
    said = json.loads(done.stdout)
    expected = [
        verdict(name, *arguments, profile=profile, architecture=native) for name, arguments in calls
    ]
    assert said == {"errors": expected, "child": 7}


@pytest.mark.skipif(sys.platform != "linux", reason="seccomp is a part of Linux")
def test_set_id_bits_fail_in_the_kernel_too(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    body = INSTALLED.replace(
        "pid = os.fork()", f"os.chmod({str(path)!r}, 0o755)\npid = os.fork()"
    ).replace("errors = []", f"errors = [try_chmod({str(path)!r})]")
    setup = (
        "import os\n"
        "def try_chmod(path):\n"
        "    try:\n"
        "        os.chmod(path, 0o4755)\n"
        "    except OSError as error:\n"
        "        return error.errno\n"
        "    return 0\n"
    )
    for profile, error, mode in (("code", errno.EPERM, 0o755), ("machine", 0, 0o755)):
        asked = {"program": filter_program(profile).hex(), "calls": []}
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", setup + body],
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=120,
            check=True,
        )
        assert json.loads(done.stdout)["errors"] == [error]
        assert stat.S_IMODE(path.stat().st_mode) == mode
