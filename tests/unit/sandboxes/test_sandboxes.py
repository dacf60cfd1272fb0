"""Containers, against a client that runs nothing: it notes what it is asked and answers."""

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from practicum.core.command import CommandStatus, SandboxSpec
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.sandboxes.containers import DEFAULT_IMAGE, ContainerSandboxes, run_arguments
from practicum.sandboxes.opening import CheckedSandboxes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sweep reads /proc")

FAKE = r"""#!/bin/sh
# Never runs what it is given: each word it knows has a harmless answer.
here=$(dirname "$0")
printf '%s\n' "$*" | tr '\n' ' ' >> "$here/asked"
echo >> "$here/asked"
verb=$1; shift
case $verb in
  run)
    case " $* " in *' missing-image '*) echo 'no such image' >&2; exit 125;; esac
    echo python3; echo ls; echo ready; cat > "$here/kept"; echo closed > "$here/closed"; exit 0;;
  image) case $2 in missing-image) exit 1;; esac; exit 0;;
  inspect) cat "$here/running"; exit 0;;
  diff) cat "$here/changes"; exit 0;;
  ps) cat "$here/listed"; exit 0;;
  rm) exit 0;;
esac
while :; do case $1 in
  --interactive) shift;;
  --workdir|--env|--user) shift 2;;
  *) break;;
esac; done
shift
case $1 in
  say) shift; printf '%s' "$*"; cat;;
  fail) exit "$2";;
  hang) exec sleep 20;;
  flood) head -c "$2" /dev/zero | tr '\0' a;;
  absent) echo 'OCI runtime exec failed: not found' >&2; exit 127;;
  sh) case $3 in
    kill*) exit "$(cat "$here/kill_code")";;
    *memory.events*) cat "$here/oom";;
    *'head -c'*)
      [ -e "$here/files/$5" ] || exit 103
      [ -f "$here/files/$5" ] || exit 104
      head -c "$6" "$here/files/$5";;
    *mkdir*) cat > "$here/files/$5";;
  esac;;
esac
"""


class FakeEngine:
    """The folder of a fake client, with what it answers and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "files").mkdir()
        self.answer(running="true", changes="", listed="", oom="oom_kill 0\n", kill_code="0")
        for name in ("docker", "podman"):
            (folder / name).write_text(FAKE)
            (folder / name).chmod(0o755)

    def answer(self, **answers: str) -> None:
        for name, text in answers.items():
            (self.folder / name).write_text(text)

    @property
    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return [line.strip() for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return FakeEngine(tmp_path)


CODE = SandboxSpec(memory_mb=100, disk_mb=20, processes=30, cpus=0.5, output_bytes=1000)
MACHINE = SandboxSpec(profile="machine", memory_mb=100, disk_mb=20, output_bytes=1000)


def pairs(words: list[str]) -> set[tuple[str, str]]:
    return set(itertools.pairwise(words))


def test_code_gets_no_rights_and_every_limit() -> None:
    words = run_arguments(CODE, "box", "image", engine="docker")
    assert {
        ("--network", "none"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--memory", "100m"),
        ("--memory-swap", "100m"),
        ("--pids-limit", "30"),
        ("--cpus", "0.5"),
        ("--user", "1000:1000"),
        ("--entrypoint", "sh"),
        ("--name", "box"),
    } <= pairs(words)
    assert {"--read-only", "--rm"} <= set(words)
    assert "--cap-add" not in words
    [work] = [word for word in words if word.startswith("/work:")]
    assert {"size=20m", "nosuid", "nodev"} <= set(work.partition(":")[2].split(","))
    assert not {"--privileged", "--volume", "-v", "--pid", "--ipc", "--device"} & set(words)


def test_a_machine_gets_root_with_few_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    words = run_arguments(MACHINE, "box", "image", engine="docker")
    added = {second for first, second in pairs(words) if first == "--cap-add"}
    assert added == {
        *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID"),
        *("KILL", "AUDIT_WRITE", "SETFCAP", "NET_BIND_SERVICE"),
    }
    assert {("--cap-drop", "ALL"), ("--user", "0:0"), ("--storage-opt", "size=20m")} <= pairs(words)
    assert ("--security-opt", "no-new-privileges") in pairs(words)
    assert "--read-only" not in words
    assert "--uidmap" not in words
    podman = run_arguments(MACHINE, "box", "image", engine="podman", limits_disk=False)
    assert {("--uidmap", "0:1342177280:65536"), ("--gidmap", "0:1342177280:65536")} <= pairs(podman)
    assert "--storage-opt" not in podman


@pytest.mark.parametrize("kind", ["docker", "podman"])
async def test_a_sandbox_is_a_container_that_ends_with_its_input(
    kind: str, engine: FakeEngine
) -> None:
    sandboxes: Sandboxes = ContainerSandboxes(kind)
    box = await sandboxes.open(CODE)
    assert (sandboxes.kind, box.kind) == (kind, kind)
    [started] = [line for line in engine.asked if line.startswith("run ")]
    assert f" {DEFAULT_IMAGE} -c " in started
    assert not (engine.folder / "closed").exists()
    await sandboxes.close()
    await box.close()
    assert (engine.folder / "closed").exists()
    assert [line for line in engine.asked if line.startswith("rm ")] == [
        f"rm --force {started.split('--name ')[1].split()[0]}"
    ]
    assert (await box.run(["say"], timeout_s=120)).status is CommandStatus.DIED


@pytest.fixture
async def box(engine: FakeEngine) -> Sandbox:
    return await ContainerSandboxes("docker").open(CODE)


async def test_commands_and_their_results(box: Sandbox, engine: FakeEngine) -> None:
    done = await box.run(["say", "a", "b"], timeout_s=120, stdin=b"!", environment={"X": "1"})
    assert (done.status, done.exit_code, done.stdout) == (CommandStatus.OK, 0, "a b!")
    [asked] = [line for line in engine.asked if " say " in line]
    assert "--env X=1" in asked
    assert "--workdir /work" in asked
    failed = await box.run(["fail", "137"], timeout_s=120)
    assert (failed.status, failed.exit_code) == (CommandStatus.OK, 137)
    assert (await box.run(["absent"], timeout_s=120)).status is CommandStatus.DENIED
    loud = await box.run(["flood", "50000"], timeout_s=120)
    assert (loud.status, loud.output_bytes) == (CommandStatus.TRUNCATED, 50_000)
    assert len(loud.stdout) < 1100
    await box.close()


async def test_nothing_outlives_a_command_of_code(box: Sandbox, engine: FakeEngine) -> None:
    await box.run(["say", "a"], timeout_s=120)
    assert "sh -c kill -KILL -1" in engine.asked[-1]
    assert "--user 1000" in engine.asked[-1]
    await box.close()


async def test_a_timeout_is_told_by_our_clock_and_ends_all(
    box: Sandbox, engine: FakeEngine
) -> None:
    late = await box.run(["hang"], timeout_s=0.2)
    assert (late.status, late.exit_code) == (CommandStatus.TIMEOUT, None)
    assert any("kill -KILL -1" in line for line in engine.asked)
    assert (await box.run(["fail", "124"], timeout_s=120)).exit_code == 124
    await box.close()


async def test_a_container_whose_processes_cannot_be_ended_is_given_up(
    box: Sandbox, engine: FakeEngine
) -> None:
    engine.answer(kill_code="1")
    assert (await box.run(["hang"], timeout_s=0.2)).status is CommandStatus.TIMEOUT
    assert any(line.startswith("rm --force") for line in engine.asked)
    assert (await box.run(["say", "a"], timeout_s=120)).status is CommandStatus.DIED
    with pytest.raises(EnvironmentFailure, match="gone"):
        await box.read("file")
    await box.close()


async def test_a_container_without_a_shell_was_broken_by_what_ran_in_it(
    box: Sandbox, engine: FakeEngine
) -> None:
    engine.answer(kill_code="127")
    assert (await box.run(["hang"], timeout_s=0.2)).status is CommandStatus.TIMEOUT
    assert (await box.run(["say", "a"], timeout_s=120)).status is CommandStatus.BROKEN
    await box.close()


async def test_a_machine_whose_programs_were_removed_is_broken_and_not_checked(
    engine: FakeEngine,
) -> None:
    box = await ContainerSandboxes("docker", image="full").open(MACHINE)
    engine.answer(changes="C /usr\nC /usr/bin\nD /usr/bin/bash\n")
    judged = await box.judge(["say", "right"], timeout_s=120)
    assert (judged.status, judged.exit_code) == (CommandStatus.BROKEN, None)
    assert "/usr/bin/bash was removed" in judged.stderr
    assert not any(" say " in line for line in engine.asked)
    await box.close()


async def test_an_image_is_played_as_it_is_with_the_network_of_the_host(
    engine: FakeEngine,
) -> None:
    sandboxes = CheckedSandboxes(ContainerSandboxes("docker", limits_disk=False))
    spec = replace(MACHINE, image="registry/task-image:1.0.0")
    box = await sandboxes.open(spec)
    [started] = [line for line in engine.asked if line.startswith("run ")]
    assert "--network host" in started
    assert " registry/task-image:1.0.0 -c " in started
    assert "--cap-drop ALL" in started
    engine.answer(changes="A /usr/bin/go\nC /usr/lib/x.so\n")
    assert (await box.judge(["say", "right"], timeout_s=120)).stdout == "right"
    [asked] = [line for line in engine.asked if " say " in line]
    assert "PATH=" not in asked
    assert not any(line.startswith("diff") for line in engine.asked)
    with pytest.raises(UserError, match=r"no image missing-image; type: docker pull missing-image"):
        await sandboxes.open(replace(MACHINE, image="missing-image"))
    await sandboxes.close()


async def test_memory_and_a_dead_container_are_told_apart(box: Sandbox, engine: FakeEngine) -> None:
    engine.answer(oom="low 0\noom 1\noom_kill 2\n")
    assert (await box.run(["fail", "137"], timeout_s=120)).status is CommandStatus.OOM
    assert (await box.run(["fail", "137"], timeout_s=120)).status is CommandStatus.OK
    engine.answer(running="false")
    gone = await box.run(["fail", "1"], timeout_s=120)
    assert (gone.status, gone.exit_code) == (CommandStatus.DIED, None)
    await box.close()


async def test_files_go_through_the_container(box: Sandbox, engine: FakeEngine) -> None:
    await box.write("made", b"\x00content")
    assert (engine.folder / "files" / "made").read_bytes() == b"\x00content"
    assert await box.read("made") == b"\x00content"
    with pytest.raises(FileNotFoundError, match="missing"):
        await box.read("missing")
    with pytest.raises(ValueError, match="longer than 3"):
        await box.read("made", limit=3)
    (engine.folder / "files" / "folder").mkdir()
    with pytest.raises(ValueError, match="not an ordinary file"):
        await box.read("folder")
    await box.close()


async def test_a_checker_in_a_machine_needs_untouched_programs(engine: FakeEngine) -> None:
    box = await ContainerSandboxes("docker", image="full").open(MACHINE)
    engine.answer(changes="C /etc\nC /etc/passwd\nA /usr/local/bin/tool\nC /usr/local\nC /usr\n")
    judged = await box.judge(["say", "right"], timeout_s=120)
    assert (judged.status, judged.stdout) == (CommandStatus.OK, "right")
    order = [
        word
        for line in engine.asked
        for word in ("-STOP", "diff", " say ", "-CONT")
        if word in line and not line.startswith("run")
    ]
    assert order == ["-STOP", "diff", " say ", "-CONT"]
    for path in (
        "/usr/bin/ls",
        "/etc/ld.so.preload",
        "/lib/x.so",
        "/usr/lib/python3/os.py",
        "/bin",
    ):
        engine.answer(changes=f"C /etc\nA {path}\n")
        judged = await box.judge(["say", "fooled"], timeout_s=120)
        assert judged.status is CommandStatus.BROKEN
        assert f"{path} was changed" in judged.stderr
    await box.close()


async def test_a_policy_that_changes_more_than_can_be_listed_is_not_masked(
    engine: FakeEngine,
) -> None:
    box = await ContainerSandboxes("docker", image="full").open(MACHINE)
    engine.answer(changes="A /srv/file\n" * 200_000)
    assert (await box.judge(["say", "right"], timeout_s=120)).status is CommandStatus.BROKEN
    await box.close()


@pytest.mark.parametrize("folder", ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/bin"])
async def test_a_new_program_in_a_container_may_have_any_name_but_one_that_is_taken(
    engine: FakeEngine, folder: str
) -> None:
    box = await ContainerSandboxes("docker", image="full").open(MACHINE)
    engine.answer(changes=f"C {folder}\nA {folder}/hello\n")
    assert (await box.judge(["say", "right"], timeout_s=120)).stdout == "right"
    for name in ("python3", "lib", "pyvenv.cfg", "hello/x"):
        engine.answer(changes=f"C {folder}\nA {folder}/{name}\n")
        judged = await box.judge(["say", "fooled"], timeout_s=120)
        assert (judged.status, judged.stdout) == (CommandStatus.BROKEN, ""), name
    await box.close()


async def test_code_needs_no_such_question(box: Sandbox, engine: FakeEngine) -> None:
    engine.answer(changes="A /usr/bin/ls\n")
    assert (await box.judge(["say", "right"], timeout_s=120)).stdout == "right"
    assert not any(line.startswith("diff") for line in engine.asked)
    await box.close()


async def test_the_sweep_removes_what_dead_owners_left(engine: FakeEngine) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    left, mine = f"practicum-{dead.pid}-3", f"practicum-{os.getpid()}-4"
    engine.answer(listed=f"{left}\n{mine}\nsomeone-else\n")
    assert await ContainerSandboxes("docker").sweep() == [left]
    assert [line for line in engine.asked if line.startswith("rm")] == [f"rm --force {left}"]


async def test_what_cannot_be_had_is_refused(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnvironmentFailure, match="no such image"):
        await ContainerSandboxes("docker", image="missing-image").open(CODE)
    with pytest.raises(UserError, match=r"needs an image.*image="):
        await ContainerSandboxes("docker").open(MACHINE)
    with pytest.raises(UserError, match="'docker' and 'podman'"):
        ContainerSandboxes("lxc")
    monkeypatch.setenv("PATH", str(engine.folder / "files"))
    with pytest.raises(UserError, match=r"need the program podman.*doctor --sandbox"):
        await ContainerSandboxes("podman").open(CODE)
