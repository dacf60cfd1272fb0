"""One sandbox in a container, driven through the engine's command line client."""

import asyncio
import re
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from practicum.core.command import CommandResult, CommandStatus, SandboxProfile
from practicum.core.errors import EnvironmentFailure
from practicum.sandboxes.containers.client import ContainerClient, Said

__all__ = ["ContainerSandbox"]

ENGINE_S = 30.0
"""How long the engine may take for what is no command of the sandbox."""
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
"""Programs of the system before any that were put beside them."""
JUDGE_ENVIRONMENT = {"PYTHONNOUSERSITE": "1", "HOME": "/root"}
ENVIRONMENT = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
PROGRAMS = re.compile(
    r"/(usr/)?(s?bin|lib\w*)(/.*)?|/usr/(libexec|share/(perl\w*|awk))(/.*)?|"
    r"/usr/local/lib/python[^/]*(/.*)?|/etc/(ld\.so\.\w+|alternatives|pam\.d|security)(/.*)?"
)
"""Paths that a checker's programs are made of."""
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


class ContainerSandbox:
    """A container that runs; commands in it are processes that the engine adds.

    The engine tells no signal from an exit code above 128, so a command that a signal ended has
    the status `ok` and the code a shell would give. A timeout ends everything that runs inside.
    """

    def __init__(
        self,
        client: ContainerClient,
        name: str,
        *,
        kind: str,
        profile: SandboxProfile,
        output_bytes: int,
        keeper: Process,
        on_close: Callable[["ContainerSandbox"], None],
    ) -> None:
        self._client = client
        self._name = name
        self._kind = kind
        self._profile = profile
        self._output_bytes = output_bytes
        self._keeper = keeper
        self._on_close = on_close
        self._turn = asyncio.Lock()
        self._oom_kills = 0
        self._is_dead = False
        self._is_closed = False

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandbox`."""
        return self._kind

    @property
    def _home(self) -> str:
        return "/root" if self._profile == "machine" else "/work"

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        """See `core.interfaces.Sandbox`."""
        settings = {**ENVIRONMENT, "HOME": self._home, **(environment or {})}
        where = cwd or ("/" if self._profile == "machine" else "/work")
        async with self._turn:
            result = await self._command(command, timeout_s, stdin, settings, where)
            if self._profile == "code" and not self._is_dead:
                await self._end_processes()
        return result

    async def judge(
        self, command: Sequence[str], *, timeout_s: float, stdin: bytes = b""
    ) -> CommandResult:
        """See `core.interfaces.Sandbox`.

        In `code` no program can be changed: they lie on a read-only file system. In a `machine`
        they can, and a container shows its commands no others; so the engine, which looks from
        outside, is asked what was changed, and where it was a program there is no verdict.
        """
        settings = {**ENVIRONMENT, **JUDGE_ENVIRONMENT}
        where = "/" if self._profile == "machine" else "/work"
        async with self._turn:
            if self._profile == "code":
                return await self._command(command, timeout_s, stdin, settings, where)
            await self._signal_all("STOP")
            try:
                await self._require_own_programs()
                return await self._command(command, timeout_s, stdin, settings, where)
            finally:
                if not self._is_dead:
                    await self._signal_all("CONT")

    async def _require_own_programs(self) -> None:
        changes = await self._client.call(
            "diff", self._name, timeout_s=ENGINE_S, keep=self._output_bytes * 16
        )
        if changes.exit_code != 0 or changes.is_cut:
            raise EnvironmentFailure(
                f"what changed in the container is not known: {changes.trouble}"
            )
        for line in changes.stdout.decode(errors="replace").splitlines():
            path = line.partition(" ")[2]
            if PROGRAMS.fullmatch(path):
                raise EnvironmentFailure(
                    f"no checker can be trusted in the container: {path} was changed in it"
                )

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

    async def _script(self, script: str, *words: str, stdin: bytes = b"", keep: int = 4096) -> Said:
        """A small program of ours; `EnvironmentFailure` when there is nowhere to run it."""
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

    async def _command(
        self,
        command: Sequence[str],
        timeout_s: float,
        stdin: bytes,
        environment: Mapping[str, str],
        cwd: str,
    ) -> CommandResult:
        if self._is_dead or self._is_closed:
            return CommandResult(status=CommandStatus.DIED, exit_code=None)
        settings = (w for name, value in environment.items() for w in ("--env", f"{name}={value}"))
        said = await self._client.call(
            *("exec", "--interactive", "--workdir", cwd, *settings, self._name, *command),
            timeout_s=timeout_s,
            stdin=stdin,
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

    async def _status(self, said: Said) -> CommandStatus:
        if said.exit_code is None:
            await self._end_processes()
            return CommandStatus.TIMEOUT
        if said.exit_code in NOT_STARTED and ENGINE_REFUSED.search(said.stderr):
            return CommandStatus.DENIED
        if said.exit_code == KILLED_BY_SIGNAL and await self._lost_to_memory():
            return CommandStatus.OOM
        if said.exit_code != 0 and not await self._is_running():
            await self._give_up()
            return CommandStatus.DIED
        return CommandStatus.TRUNCATED if said.is_cut else CommandStatus.OK

    async def _is_running(self) -> bool:
        asked = ("inspect", "--format", "{{.State.Running}}", self._name)
        return (await self._client.call(*asked, timeout_s=ENGINE_S)).stdout.strip() == b"true"

    async def _lost_to_memory(self) -> bool:
        """Whether the kernel has ended more processes for memory than when last asked."""
        said = await self._client.call(
            "exec", self._name, "sh", "-c", OOM_COUNTS, timeout_s=ENGINE_S
        )
        counts = re.findall(rb"^oom_kill (\d{1,18})$", said.stdout, re.MULTILINE)
        before, self._oom_kills = self._oom_kills, sum(map(int, counts))
        return self._oom_kills > before

    async def _end_processes(self) -> None:
        """End all but the first; where that cannot be done, the container."""
        if not await self._signal_all("KILL"):
            await self._give_up()

    async def _signal_all(self, name: str) -> bool:
        """To every process but the first, which the kernel spares, and the one that asks."""
        script = f"kill -{name} -1 2>&-; exit 0"
        words = ("exec", "--user", "0" if self._profile == "machine" else "1000", self._name)
        said = await self._client.call(*words, "sh", "-c", script, timeout_s=ENGINE_S)
        return said.exit_code == 0

    async def _give_up(self) -> None:
        self._is_dead = True
        await self._remove()

    async def _remove(self) -> None:
        """Its first process ends with its input; the engine is told too, should it hang."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        await self._client.call("rm", "--force", self._name, timeout_s=ENGINE_S)
        try:
            await asyncio.wait_for(self._keeper.wait(), ENGINE_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._keeper.kill()
            await self._keeper.wait()
