"""Sandboxes in containers, through the command line client of docker or podman.

Opening one takes a quarter of a second (bubblewrap: milliseconds). The engine must run. System
calls are filtered by the engine's own list; older lists allow AF_VSOCK. Where the docker daemon
does not remap users, root inside is root outside, and a `machine` does not pass the self-check.
"""

import asyncio
import itertools
import os
import re
import socket
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from practicum.core.command import CommandResult, CommandStatus, SandboxProfile, SandboxSpec
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.sandboxes.commands import CommandSandbox, RanCommand, within
from practicum.sandboxes.container_changes import changed_program
from practicum.sandboxes.inside.kept import Kept

DRAIN_S = 0.2
"""Seconds to read on after the client has ended, while a child of it holds its pipes open."""
SHORT = 65_536
PIECE = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOutput:
    """The result of one call of the client."""

    exit_code: int | None
    """None after a timeout; minus the signal that killed it."""
    stdout: bytes
    stderr: bytes
    output_bytes: int
    is_cut: bool
    duration_s: float

    @property
    def trouble(self) -> str:
        """The end of its output, for an error message."""
        return (self.stderr or self.stdout).decode(errors="replace").strip()[-300:]


class ContainerClient:
    """Runs `docker` or `podman`; `options` come before every subcommand."""

    def __init__(self, program: str, options: Sequence[str] = ()) -> None:
        self._words = (program, *options)

    async def call(
        self, *words: str, timeout_s: float, stdin: bytes = b"", keep: int = SHORT
    ) -> ClientOutput:
        """Run one subcommand until it ends or times out; keep at most `keep` bytes per stream."""
        began = time.monotonic()
        process = await self.start(*words, stdin=PIPE if stdin else DEVNULL)
        out, err = Kept(keep), Kept(keep)
        assert process.stdout is not None
        assert process.stderr is not None
        tasks = [
            asyncio.create_task(_take(process.stdout, out)),
            asyncio.create_task(_take(process.stderr, err)),
            asyncio.create_task(_give(process, stdin)),
        ]
        code: int | None = None
        try:
            with suppress(TimeoutError):
                code = await within(timeout_s, process.wait())
            await asyncio.wait(tasks, timeout=DRAIN_S)
        finally:
            await _end(process)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # A grandchild that holds the pipes would keep the transport open.
            process._transport.close()  # type: ignore[attr-defined]
        return ClientOutput(
            exit_code=code,
            stdout=out.content(),
            stderr=err.content(),
            output_bytes=out.total + err.total,
            is_cut=out.is_cut or err.is_cut,
            duration_s=time.monotonic() - began,
        )

    async def start(self, *words: str, stdin: int = PIPE) -> Process:
        """Start one subcommand and leave it running."""
        try:
            return await asyncio.create_subprocess_exec(
                *self._words, *words, stdin=stdin, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except FileNotFoundError as error:
            raise UserError(
                f"sandboxes of kind {self._words[0]!r} need the program {self._words[0]}, which is "
                "not on the path; other kinds are 'bubblewrap' and 'landlock'; "
                "type `practicum doctor --sandbox` to see which work here"
            ) from error


async def _take(stream: asyncio.StreamReader, kept: Kept) -> None:
    while piece := await stream.read(PIECE):
        kept.add(piece)


async def _give(process: Process, content: bytes) -> None:
    if process.stdin is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(content)
        await process.stdin.drain()
    process.stdin.close()


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


ENGINE_S = 30.0
"""Time limit of calls of the engine that run no command of the policy."""
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
"""The system's folders come before /usr/local, where the policy may put programs."""
JUDGE_ENVIRONMENT = {"PYTHONNOUSERSITE": "1", "HOME": "/root"}
ENVIRONMENT = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
ENGINE_REFUSED = re.compile(rb"OCI (runtime|permission)")
NOT_STARTED = (126, 127)
MISSING, NOT_ORDINARY = 103, 104
READ = f"""
[ -e "$1" ] || [ -L "$1" ] || exit {MISSING}
[ -f "$1" ] && [ ! -L "$1" ] || exit {NOT_ORDINARY}
exec head -c "$2" -- "$1"
"""
WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
OOM_COUNTS = "cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>&-"
KILLED_BY_SIGNAL = 137


class ContainerSandbox(CommandSandbox):
    """A running container; commands are run by `exec`. `keeper` is the client that runs it.

    `programs` are the names of the programs that its image has.
    The engine reports a signal as an exit code above 128, as a shell does, so a command killed by
    a signal has the status `ok`. A timeout kills every process inside.
    """

    def __init__(
        self,
        client: ContainerClient,
        name: str,
        *,
        kind: str,
        spec: SandboxSpec,
        keeper: Process,
        programs: Collection[str],
        on_close: Callable[["ContainerSandbox"], None],
    ) -> None:
        self._client = client
        self._name = name
        self._kind = kind
        self._profile: SandboxProfile = spec.profile
        self._output_bytes = spec.output_bytes
        self._is_as_made = bool(spec.image)
        self._keeper = keeper
        self._programs = programs
        self._on_close = on_close
        self._turn = asyncio.Lock()
        self._oom_kills = 0
        self._is_dead = False
        self._is_broken = False
        self._is_closed = False

    @property
    def _home(self) -> str:
        return "/root" if self._profile == "machine" else "/work"

    async def _carry_out(self, ran: RanCommand) -> CommandResult:
        async with self._turn:
            if ran.is_judge:
                return await self._judged(ran)
            result = await self._command(ran, {"HOME": self._home, **ran.environment})
            if self._profile == "code" and not self._is_dead:
                await self._end_processes()
        return result

    async def _judged(self, ran: RanCommand) -> CommandResult:
        """Run a checker.

        In `code` programs are on a read-only file system. In a `machine` the policy may have
        replaced them, also those that the checker uses. So the engine is asked for a diff: where
        programs were changed or removed, the policy has broken the machine. An image that is played
        as it is gets no such check.
        """
        if self._profile == "code" or self._is_as_made:
            return await self._command(ran, JUDGE_ENVIRONMENT)
        await self._signal_all("STOP")
        try:
            said = await self._changed_programs()
            if said:
                return CommandResult(status=CommandStatus.BROKEN, exit_code=None, stderr=said)
            return await self._command(ran, JUDGE_ENVIRONMENT)
        finally:
            if not self._is_dead:
                await self._signal_all("CONT")

    async def _changed_programs(self) -> str:
        """What the policy did to the container's programs, in words; "" where that is nothing."""
        changes = await self._client.call(
            "diff", self._name, timeout_s=ENGINE_S, keep=self._output_bytes * 16
        )
        if changes.is_cut:
            return "more was changed in the container than can be looked at"
        if changes.exit_code != 0:
            raise EnvironmentFailure(
                f"what changed in the container is not known: {changes.trouble}"
            )
        path, how = changed_program(changes.stdout.decode(errors="replace"), self._programs)
        done = "removed from" if how == "D" else "changed in"
        return f"{path} was {done} the container: no checker can be trusted there" if path else ""

    async def read(self, path: str, limit: int = 1_048_576) -> bytes:
        """See `core.interfaces.Sandbox`."""
        said = await self._script(READ, path, str(limit + 1), keep=2 * limit + 4)
        if said.exit_code == MISSING:
            raise FileNotFoundError(path)
        if said.exit_code == NOT_ORDINARY:
            raise ValueError(f"{path} is not an ordinary file")
        if said.exit_code != 0:
            raise ValueError(f"{path}: {said.trouble or 'it cannot be read'}")
        if len(said.stdout) > limit:
            raise ValueError(f"{path} is longer than {limit} bytes")
        return said.stdout

    async def write(self, path: str, content: bytes) -> None:
        """See `core.interfaces.Sandbox`."""
        said = await self._script(WRITE, path, stdin=content)
        if said.exit_code != 0:
            raise ValueError(f"{path}: {said.trouble or 'it cannot be written'}")

    async def close(self) -> None:
        """See `core.interfaces.Sandbox`."""
        if self._is_closed:
            return
        self._is_closed = True
        self._on_close(self)
        await self._remove()

    async def _script(
        self, script: str, *words: str, stdin: bytes = b"", keep: int = 4096
    ) -> ClientOutput:
        """Run a small script of ours; `EnvironmentFailure` when the container is gone."""
        async with self._turn:
            if self._is_dead or self._is_closed:
                raise EnvironmentFailure("the sandbox is gone")
            said = await self._client.call(
                *("exec", "--interactive", "--workdir", self._home, self._name),
                *("sh", "-c", script, "sh", *words),
                timeout_s=ENGINE_S,
                stdin=stdin,
                keep=keep,
            )
            if said.exit_code is None or (said.exit_code != 0 and not await self._is_running()):
                await self._give_up()
                raise EnvironmentFailure(f"the sandbox is gone: {said.trouble}")
            return said

    async def _command(self, ran: RanCommand, environment: Mapping[str, str]) -> CommandResult:
        if self._is_dead or self._is_closed:
            status = CommandStatus.BROKEN if self._is_broken else CommandStatus.DIED
            return CommandResult(status=status, exit_code=None)
        cwd = ran.cwd or ("/" if self._profile == "machine" else "/work")
        values = {**({} if self._is_as_made else ENVIRONMENT), **environment}
        settings = (w for name, value in values.items() for w in ("--env", f"{name}={value}"))
        said = await self._client.call(
            *("exec", "--interactive", "--workdir", cwd, *settings, self._name, *ran.command),
            timeout_s=ran.timeout_s,
            stdin=ran.stdin,
            keep=self._output_bytes,
        )
        status = await self._status(said)
        return CommandResult(
            status=status,
            exit_code=said.exit_code
            if status in (CommandStatus.OK, CommandStatus.TRUNCATED)
            else None,
            stdout=said.stdout.decode(errors="replace"),
            stderr=said.stderr.decode(errors="replace"),
            output_bytes=said.output_bytes,
            duration_s=said.duration_s,
        )

    async def _status(self, said: ClientOutput) -> CommandStatus:
        if said.exit_code is None:
            await self._end_processes()
            return CommandStatus.TIMEOUT
        if said.exit_code in NOT_STARTED and ENGINE_REFUSED.search(said.stderr):
            return CommandStatus.DENIED
        if said.exit_code == KILLED_BY_SIGNAL and await self._was_oom_killed():
            return CommandStatus.OOM
        if said.exit_code != 0 and not await self._is_running():
            await self._give_up()
            return CommandStatus.DIED
        return CommandStatus.TRUNCATED if said.is_cut else CommandStatus.OK

    async def _is_running(self) -> bool:
        asked = ("inspect", "--format", "{{.State.Running}}", self._name)
        return (await self._client.call(*asked, timeout_s=ENGINE_S)).stdout.strip() == b"true"

    async def _was_oom_killed(self) -> bool:
        """Whether the kernel's count of out-of-memory kills has grown since the last call."""
        said = await self._client.call(
            "exec", self._name, "sh", "-c", OOM_COUNTS, timeout_s=ENGINE_S
        )
        counts = re.findall(rb"^oom_kill (\d{1,18})$", said.stdout, re.MULTILINE)
        before, self._oom_kills = self._oom_kills, sum(map(int, counts))
        return self._oom_kills > before

    async def _end_processes(self) -> None:
        """Kill all processes but the first; where that fails, remove the container."""
        code = await self._signal_all("KILL")
        if code != 0:
            self._is_broken = code in NOT_STARTED  # the policy removed sh; the engine works
            await self._give_up()

    async def _signal_all(self, name: str) -> int | None:
        """`kill -1`: every process but the caller and the first, which the kernel protects."""
        script = f"kill -{name} -1 2>&-; exit 0"
        words = ("exec", "--user", "0" if self._profile == "machine" else "1000", self._name)
        said = await self._client.call(*words, "sh", "-c", script, timeout_s=ENGINE_S)
        return said.exit_code

    async def _give_up(self) -> None:
        self._is_dead = True
        await self._remove()

    async def _remove(self) -> None:
        """The first process ends with its standard input; `rm --force` in case it hangs."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        await self._client.call("rm", "--force", self._name, timeout_s=ENGINE_S)
        try:
            await asyncio.wait_for(self._keeper.wait(), ENGINE_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._keeper.kill()
            await self._keeper.wait()


DEFAULT_IMAGE = "debian:bookworm-slim"
MACHINE_CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID"),
    *("KILL", "AUDIT_WRITE", "SETFCAP", "NET_BIND_SERVICE"),
)
"""What root needs to administer files, users and groups."""
SHIFTED_IDS = ("--uidmap", "0:1342177280:65536", "--gidmap", "0:1342177280:65536")
"""Root inside is nobody outside. One id range for all machines: the engine copies an image once
for each range."""
START_S = 300.0
"""Seconds; the engine may have to pull the image first."""
OPEN_FILES = 1024
FIRST_PROCESS = (
    "ls /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin 2>/dev/null; echo ready; "
    "command -v bash >/dev/null && exec bash -c 'while read -r line; do :; done'; "
    "exec cat >/dev/null"
)
"""Says which programs there are before a policy adds some. Ends with its standard input, so with
this process. Bash reaps orphans."""
OWNER_LABEL, HOST_LABEL = "practicum.owner", "practicum.host"
OWNED = re.compile(r"practicum-(\d+)-\d+")
_numbers = itertools.count(1)


def run_arguments(
    spec: SandboxSpec, name: str, image: str, *, engine: str, limits_disk: bool = True
) -> list[str]:
    """The arguments of `run`."""
    memory = f"{spec.memory_mb}m"
    return [
        *("run", "--rm", "--interactive", "--name", name),
        *("--label", f"{OWNER_LABEL}={os.getpid()}", "--label", f"{HOST_LABEL}={_host()}"),
        *(
            "--network",
            "host" if spec.image else "none",
            "--hostname",
            "sandbox",
            "--log-driver",
            "none",
        ),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--memory", memory, "--memory-swap", memory),
        *("--pids-limit", str(spec.processes), "--cpus", f"{spec.cpus:g}"),
        *("--ulimit", f"nofile={OPEN_FILES}:{OPEN_FILES}", "--ulimit", "core=0:0"),
        # Podman's default exceeds what some hosts allow; --pids-limit above is the real limit.
        *(("--ulimit", "nproc=4096:4096") if engine == "podman" else ()),
        *("--shm-size", "16m"),
        *(_machine(spec, engine, limits_disk) if spec.profile == "machine" else _code(spec)),
        *("--entrypoint", "sh", image, "-c", FIRST_PROCESS),
    ]


def _code(spec: SandboxSpec) -> list[str]:
    """An ordinary user on a read-only system, with two writable folders."""
    place = f"rw,exec,nosuid,nodev,size={spec.disk_mb}m,mode=1777"
    return [
        *("--user", "1000:1000", "--read-only", "--workdir", "/work"),
        *("--tmpfs", f"/work:{place}", "--tmpfs", f"/tmp:{place}"),
    ]


def _machine(spec: SandboxSpec, engine: str, limits_disk: bool) -> list[str]:
    """Root on a writable system, with few capabilities."""
    return [
        *(word for name in MACHINE_CAPABILITIES for word in ("--cap-add", name)),
        *("--user", "0:0", "--workdir", "/"),
        *("--tmpfs", f"/tmp:rw,exec,nosuid,nodev,size={spec.disk_mb}m,mode=1777"),
        *(("--storage-opt", f"size={spec.disk_mb}m") if limits_disk else ()),
        # Docker remaps users for all containers or none, in the daemon's settings.
        *(SHIFTED_IDS if engine == "podman" and os.geteuid() == 0 else ()),
    ]


class ContainerSandboxes:
    """The kinds `docker` and `podman`.

    `image` has a default for `code`; a `machine` needs one with the programs of its tasks and
    checkers. `options` go to the client before each subcommand. `limits_disk=False` leaves the disk
    of a `machine` unlimited: engines support a limit only on some file systems.
    """

    def __init__(
        self,
        kind: Literal["docker", "podman"] | str,
        *,
        image: str | None = None,
        options: Sequence[str] = (),
        limits_disk: bool = True,
    ) -> None:
        if kind not in ("docker", "podman"):
            raise UserError(f"no container engine {kind!r}; there are 'docker' and 'podman'")
        self._kind = kind
        self._image = image
        self._limits_disk = limits_disk
        self._client = ContainerClient(kind, options)
        self._open: set[ContainerSandbox] = set()
        self._has_swept = False

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandboxes`."""
        return self._kind

    async def open(self, spec: SandboxSpec) -> ContainerSandbox:
        """See `core.interfaces.Sandboxes`."""
        image = spec.image or self._image
        if spec.profile == "machine" and image is None:
            raise UserError(
                f"a machine of kind {self._kind!r} needs an image, and none is set; any with bash, "
                "python3 and the programs of the tasks will do; name it with image="
            )
        if not self._has_swept:
            self._has_swept = True
            await self.sweep()
        if spec.image:
            await self._require(spec.image)
        name = f"practicum-{os.getpid()}-{next(_numbers)}"
        words = run_arguments(
            spec,
            name,
            image or DEFAULT_IMAGE,
            engine=self._kind,
            limits_disk=self._limits_disk,
        )
        keeper = await self._client.start(*words)
        programs: set[str] = set()
        box = ContainerSandbox(
            self._client,
            name,
            kind=self._kind,
            spec=spec,
            keeper=keeper,
            programs=programs,
            on_close=self._open.discard,
        )
        self._open.add(box)
        try:
            is_ready = await within(START_S, _until_ready(keeper, programs))
        except TimeoutError:
            is_ready = False
        except BaseException:
            await box.close()
            raise
        if not is_ready:
            said = await _last_words(keeper)
            await box.close()
            raise EnvironmentFailure(f"{self._kind} did not start a sandbox: {said}")
        return box

    async def _require(self, image: str) -> None:
        """A benchmark's images have gigabytes: the user pulls them, not an episode."""
        said = await self._client.call("image", "inspect", image, timeout_s=ENGINE_S, keep=4096)
        if said.exit_code != 0:
            raise UserError(f"{self._kind} has no image {image}; type: {self._kind} pull {image}")

    async def close(self) -> None:
        """See `core.interfaces.Sandboxes`."""
        await asyncio.gather(*(box.close() for box in tuple(self._open)))

    async def sweep(self) -> list[str]:
        """Remove containers of this host whose owner process is dead; their names."""
        label = f"label={HOST_LABEL}={_host()}"
        asked = ("ps", "--all", "--filter", label, "--format", "{{.Names}}")
        listed = await self._client.call(*asked, timeout_s=ENGINE_S)
        if listed.exit_code != 0:
            raise EnvironmentFailure(f"{self._kind} does not answer: {listed.trouble}")
        swept: list[str] = []
        for name in listed.stdout.decode(errors="replace").split():
            match = OWNED.fullmatch(name)
            if match is not None and not Path(f"/proc/{match[1]}").exists():
                await self._client.call("rm", "--force", name, timeout_s=ENGINE_S)
                swept.append(name)
        return swept


def _host() -> str:
    """The host name: an engine may serve several hosts, and a pid is only valid on one."""
    return socket.gethostname()


async def _until_ready(keeper: Process, programs: set[str]) -> bool:
    """Read the names of programs until the first process is ready; whether it became so."""
    assert keeper.stdout is not None
    while line := await keeper.stdout.readline():
        name = line.decode(errors="replace").strip()
        if name == "ready":
            return True
        programs.add(name)
    return False


async def _last_words(keeper: asyncio.subprocess.Process) -> str:
    """Why the client ended: the end of its standard error."""
    assert keeper.stderr is not None
    with suppress(TimeoutError):
        said = await asyncio.wait_for(keeper.stderr.read(4096), 5.0)
        return said.decode(errors="replace").strip()[-300:] or "it said nothing"
    return f"it was not ready after {START_S:g} s"
