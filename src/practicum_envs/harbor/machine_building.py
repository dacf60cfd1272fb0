"""Carries a task's plan out in a machine: wheels, COPY, ADD, WORKDIR and RUN, without a network."""

import asyncio
import hashlib
import io
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from practicum.core.command import CommandStatus, SandboxSpec, SystemRecipe
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Sandbox
from practicum_envs.harbor.dockerfile import Instruction, UnreadableDockerfile
from practicum_envs.harbor.machine_plan import VERSION, MachinePlan
from practicum_envs.harbor.task_folders import TaskFolder, files_in

FORMAT = "1"
"""Of the systems that are made; another number makes all of them anew."""
WHEELS = "/wheels"
PIP = {
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": WHEELS,
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}
FIRST = """
export DEBIAN_FRONTEND=noninteractive
[ -e /usr/bin/python ] || ln -s python3 /usr/bin/python
mkdir -p /logs/verifier /logs/agent
"""
"""What base images have, and Debian alone has not."""
PIECE = 4 << 20
MEMORY_MB, DISK_MB, PROCESSES = 6144, 4096, 512
"""Of the machine in which a system is made."""


def recipe_of(task: TaskFolder, plan: MachinePlan, wheels: Path) -> SystemRecipe:
    """How the system of a task is made; `wheels` is an empty folder for its Python packages."""
    packages = tuple(sorted({*plan.packages}))
    parts = (FORMAT, task.digest, *packages, *plan.requirements)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]

    async def prepare(box: Sandbox) -> None:
        await _prepare(box, task, plan, wheels)

    spec = SandboxSpec(
        profile="machine",
        shown=((str(wheels), WHEELS),),
        output_bytes=8 << 20,
        memory_mb=MEMORY_MB,
        disk_mb=DISK_MB,
        processes=PROCESSES,
    )
    return SystemRecipe(digest=digest, packages=packages, prepare=prepare, spec=spec)


async def _prepare(box: Sandbox, task: TaskFolder, plan: MachinePlan, wheels: Path) -> None:
    timeout_s = float(task.section("environment").get("build_timeout_sec") or 600.0)
    if plan.requirements:
        asked = "import sys; print('%d.%d' % sys.version_info[:2])"
        version = (await _run(box, "python3", ["python3", "-c", asked], "/", {}, 60)).strip()
        await asyncio.to_thread(download_wheels, plan.requirements, version, wheels)
    await _run(box, "the first step", ["bash", "-c", FIRST], "/", {}, timeout_s)
    for one, workdir, variables in plan.steps:
        what = f"{one.kind} {one.words[:160]}"
        if one.kind == "WORKDIR":
            await _run(box, what, ["mkdir", "-p", workdir], "/", {}, timeout_s)
        elif one.kind == "RUN":
            script = _without_versions(one.script())
            own = {**PIP, "DEBIAN_FRONTEND": "noninteractive", **variables}
            await _run(box, what, ["bash", "-c", script], workdir, own, timeout_s)
        else:
            await _copy(box, one, task.dockerfile.parent, workdir)


def _without_versions(script: str) -> str:
    """A script whose apt-get asks for packages in whatever version is there."""
    lines = []
    for line in script.split("&&"):
        is_apt = "apt-get" in line or line.lstrip().startswith("apt ")
        lines.append(VERSION.sub("", line) if is_apt and "install" in line else line)
    return "&&".join(lines)


async def _run(
    box: Sandbox,
    what: str,
    command: Sequence[str],
    cwd: str,
    variables: dict[str, str],
    timeout_s: float,
) -> str:
    done = await box.run(command, timeout_s=timeout_s, cwd=cwd, environment=variables)
    ended = done.status in (CommandStatus.OK, CommandStatus.TRUNCATED)
    if not ended or done.exit_code != 0:
        lines = [one for one in f"{done.stdout}\n{done.stderr}".splitlines() if one.strip()]
        said = f": {lines[-1][-300:]}" if lines else ""
        raise EnvironmentFailure(f"{what} failed ({done.status.value}, {done.exit_code}){said}")
    return done.stdout


async def _copy(box: Sandbox, one: Instruction, context: Path, workdir: str) -> None:
    """COPY or ADD of files of the build's context, or of a here-document."""
    *sources, target = one.argv()
    place = target if target.startswith("/") else f"{workdir.rstrip('/')}/{target}"
    documents = dict(one.documents)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in sources:
            mark = name.lstrip("<-").strip("'\"")
            if name.startswith("<<") and mark in documents:
                entry = tarfile.TarInfo(_in_tar(place, mark, is_folder=target.endswith("/")))
                content = documents[mark].encode()
                entry.size, entry.mode = len(content), 0o644
                tar.addfile(entry, io.BytesIO(content))
            else:
                _pack(tar, context, name, place, into=target.endswith("/") or len(sources) > 1)
    await unpack(box, packed.getvalue())
    for flag, tool in (("chmod", "chmod"), ("chown", "chown")):
        value = dict(one.flags).get(flag)
        if value:
            await _run(box, f"{tool} {value}", [tool, "-R", value, place], "/", {}, 60)


def _in_tar(place: str, name: str, *, is_folder: bool) -> str:
    """A member's name, without the slash at its beginning."""
    return (f"{place.rstrip('/')}/{name}" if is_folder else place).lstrip("/")


def _pack(tar: tarfile.TarFile, context: Path, name: str, place: str, *, into: bool) -> None:
    """A file, a folder's content, or what a pattern finds, as Docker places it."""
    base = context.resolve()
    pattern = name.lstrip("/").removeprefix("./").rstrip("/") or "."
    found = [context] if pattern == "." else sorted(context.glob(pattern))
    found = [one for one in found if one.resolve().is_relative_to(base)]
    if not found:
        raise UnreadableDockerfile(f"COPY {name}: environment/ has no such file")
    for one in found:
        if one.is_dir():
            _add(tar, one, place.lstrip("/"))
            for path in files_in(one):
                inside = path.relative_to(one).as_posix()
                _add(tar, path, _in_tar(place, inside, is_folder=True))
        else:
            _add(tar, one, _in_tar(place, one.name, is_folder=into or place.endswith("/.")))


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    if name.strip("/."):
        entry = tar.gettarinfo(str(path.resolve()), name)
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        if entry.isfile():
            with path.open("rb") as file:
                tar.addfile(entry, file)
        elif entry.isdir():
            tar.addfile(entry)


def packed(folder: Path, place: str) -> bytes:
    """An archive of a folder's files, to be unpacked at `/`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in files_in(folder):
            _add(tar, path, f"{place.strip('/')}/{path.relative_to(folder).as_posix()}")
    return buffer.getvalue()


async def unpack(box: Sandbox, archive: bytes) -> None:
    """Unpack an archive in a machine, in pieces that a message to it may have."""
    for at in range(0, len(archive), PIECE):
        script = 'cat >> "$0"' if at else 'cat > "$0"'
        done = await box.run(
            ("sh", "-c", script, "/.files.tar"), timeout_s=120, stdin=archive[at : at + PIECE]
        )
        if done.exit_code != 0:
            raise EnvironmentFailure(f"files do not fit into the machine: {done.stderr[-200:]}")
    script = "tar -x --no-same-owner -C / -f /.files.tar && rm /.files.tar"
    done = await box.run(("sh", "-c", script), timeout_s=300)
    if done.exit_code != 0:
        raise EnvironmentFailure(f"files could not be unpacked: {done.stderr[-200:]}")


def download_wheels(requirements: Sequence[str], python: str, folder: Path) -> None:
    """Fetch Python packages with all that they need, built: nothing is run for it here."""
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet"]
    options = ["--disable-pip-version-check", "--only-binary=:all:", "--python-version", python]
    words = [*command, *options, "--dest", str(folder), "--", *dict.fromkeys(requirements)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [one for one in done.stderr.splitlines() if "ERROR" in one] or ["no reason given"]
        raise EnvironmentFailure(f"pip install failed: {errors[-1][:300]}")
    for path in folder.iterdir():
        path.chmod(0o644)
