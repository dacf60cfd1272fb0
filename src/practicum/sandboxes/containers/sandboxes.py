"""Sandboxes in containers, by the command line client of docker or podman.

For those who have an engine and want it: it takes a quarter of a second where a namespace takes
milliseconds. The engine must run. System calls are filtered by the engine's own list, and older
ones leave AF_VSOCK open in it. Where docker's service does not map users, root inside is root
outside, and a `machine` does not pass the self-check.
"""

import asyncio
import itertools
import os
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from practicum.core.command import SandboxSpec
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.sandboxes.containers.box import ENGINE_S, ContainerSandbox
from practicum.sandboxes.containers.client import ContainerClient
from practicum.sandboxes.patience import within

__all__ = ["DEFAULT_IMAGE", "ContainerSandboxes", "run_arguments"]

DEFAULT_IMAGE = "debian:bookworm-slim"
MACHINE_CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID"),
    *("KILL", "AUDIT_WRITE", "SETFCAP", "NET_BIND_SERVICE"),
)
"""What root needs for files, users and groups."""
SHIFTED_IDS = ("--uidmap", "0:1342177280:65536", "--gidmap", "0:1342177280:65536")
"""Root inside is nobody outside. One range for all machines: an image is shifted once for each."""
START_S = 300.0
"""The engine may have to fetch the image first."""
OPEN_FILES = 1024
FIRST_PROCESS = (
    "echo ready; "
    "command -v bash >/dev/null && exec bash -c 'while read -r line; do :; done'; "
    "exec cat >/dev/null"
)
"""Lives as long as its input is open, which is as long as we do. Bash buries orphans."""
OWNER_LABEL, HOST_LABEL = "practicum.owner", "practicum.host"
OWNED = re.compile(r"practicum-(\d+)-\d+")
_numbers = itertools.count(1)


def run_arguments(
    spec: SandboxSpec, name: str, image: str, *, engine: str, limits_disk: bool = True
) -> list[str]:
    """Everything after the client's own options."""
    memory = f"{spec.memory_mb}m"
    return [
        *("run", "--rm", "--interactive", "--name", name),
        *("--label", f"{OWNER_LABEL}={os.getpid()}", "--label", f"{HOST_LABEL}={_host()}"),
        *("--network", "none", "--hostname", "sandbox", "--log-driver", "none"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--memory", memory, "--memory-swap", memory),
        *("--pids-limit", str(spec.processes), "--cpus", f"{spec.cpus:g}"),
        *("--ulimit", f"nofile={OPEN_FILES}:{OPEN_FILES}", "--ulimit", "core=0:0"),
        # Podman's own default is more than some hosts allow it; the limit above is the one meant.
        *(("--ulimit", "nproc=4096:4096") if engine == "podman" else ()),
        *("--shm-size", "16m"),
        *(_machine(spec, engine, limits_disk) if spec.profile == "machine" else _code(spec)),
        *("--entrypoint", "sh", image, "-c", FIRST_PROCESS),
    ]


def _code(spec: SandboxSpec) -> list[str]:
    """An ordinary user on a read-only system with two places to write."""
    place = f"rw,exec,nosuid,nodev,size={spec.disk_mb}m,mode=1777"
    return [
        *("--user", "1000:1000", "--read-only", "--workdir", "/work"),
        *("--tmpfs", f"/work:{place}", "--tmpfs", f"/tmp:{place}"),
    ]


def _machine(spec: SandboxSpec, engine: str, limits_disk: bool) -> list[str]:
    """Root of a system that can be changed, with the rights that files and users take."""
    return [
        *(word for name in MACHINE_CAPABILITIES for word in ("--cap-add", name)),
        *("--user", "0:0", "--workdir", "/"),
        *("--tmpfs", f"/tmp:rw,exec,nosuid,nodev,size={spec.disk_mb}m,mode=1777"),
        *(("--storage-opt", f"size={spec.disk_mb}m") if limits_disk else ()),
        # Docker maps users for all containers or none, in the settings of its service.
        *(SHIFTED_IDS if engine == "podman" and os.geteuid() == 0 else ()),
    ]


class ContainerSandboxes:
    """The kinds `docker` and `podman`.

    `image` is what runs; `code` has a default, a `machine` needs one with the programs its tasks
    and checkers use. `options` go to the client before each command. Engines can limit the files
    of a `machine` only on some file systems and refuse otherwise; `limits_disk=False` says that
    they need not.
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
        if spec.profile == "machine" and self._image is None:
            raise UserError(
                f"a machine of kind {self._kind!r} needs an image, and none is set; any with bash, "
                "python3 and the programs of the tasks will do; name it with image="
            )
        if not self._has_swept:
            self._has_swept = True
            await self.sweep()
        name = f"practicum-{os.getpid()}-{next(_numbers)}"
        words = run_arguments(
            spec,
            name,
            self._image or DEFAULT_IMAGE,
            engine=self._kind,
            limits_disk=self._limits_disk,
        )
        keeper = await self._client.start(*words)
        assert keeper.stdout is not None
        box = ContainerSandbox(
            self._client,
            name,
            kind=self._kind,
            profile=spec.profile,
            output_bytes=spec.output_bytes,
            keeper=keeper,
            on_close=self._open.discard,
        )
        self._open.add(box)
        try:
            is_ready = await within(START_S, keeper.stdout.readline()) == b"ready\n"
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

    async def close(self) -> None:
        """See `core.interfaces.Sandboxes`."""
        await asyncio.gather(*(box.close() for box in tuple(self._open)))

    async def sweep(self) -> list[str]:
        """Remove the containers that dead owners on this host left; their names."""
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
    """One engine may serve several hosts, and a pid means something on one only."""
    return socket.gethostname()


async def _last_words(keeper: asyncio.subprocess.Process) -> str:
    """Why the client ended, from its standard error."""
    assert keeper.stderr is not None
    with suppress(TimeoutError):
        said = await asyncio.wait_for(keeper.stderr.read(4096), 5.0)
        return said.decode(errors="replace").strip()[-300:] or "it said nothing"
    return f"it was not ready after {START_S:g} s"
