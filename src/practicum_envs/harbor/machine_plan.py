"""What a task's Dockerfile comes to in a machine sandbox, or why it needs an image or the network.

Decided from the files alone. In doubt a task is not played: a task that counts as runnable has all
that it asks for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from practicum_envs.harbor.dockerfile import (
    Instruction,
    UnreadableDockerfile,
    read_dockerfile,
    settings_of,
)
from practicum_envs.harbor.task_folders import TaskFolder

FAMILIES = re.compile(
    r"(?:docker\.io/)?(?:library/)?(?:debian|ubuntu|python|buildpack-deps)(?::[\w.-]+)?"
    r"|ghcr\.io/laude-institute/t-bench/(?:ubuntu|python)-[\d-]+(?::[\w.-]+)?"
)
"""Base images that are a Debian or an Ubuntu, with a Python at most."""
OTHER_THAN_DEBIAN = re.compile(r"alpine|windows|pypy")
PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+")
REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?([=<>!~]=?=?[\w.*+!,<>=~-]+)?")
APT = re.compile(r"\bapt(?:-get)?\b((?:\s+-\S+)*)\s+install\b")
PIP = re.compile(r"\b(?:pip3?|python3? -m pip)\s+install\b")
VERSION = re.compile(r"(?<=[a-z0-9+.])=[\w.:+~*-]+")
ENDS = re.compile(r"&&|\|\||[;|\n]")
FETCHES = re.compile(
    r"(?:^|[;&|(\s])((?:curl|wget)\b[^;&|\n]*\bhttps?://\S+|git clone\s+\S*://\S+|"
    r"(?:npm|pnpm|yarn|bun|gem|cargo|go|conda|mamba|R|apk|dnf|yum)\s+(?:install|add|get|ci)\b[^;&|\n]*|"
    r"add-apt-repository\b[^;&|\n]*|uvx?\s+(?:pip|tool|sync|add|init|python|-\S+)\b[^;&|\n]*|"
    r"uv run\b[^;&|\n]*|uvx\b[^;&|\n]*)",
    re.MULTILINE,
)
LOOPBACK = re.compile(r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0)\b")
IGNORED = {"EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL", "VOLUME", "CMD", "SHELL", "ONBUILD"}
COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml")
SHOWN = 120
PIP_PACKAGE, VENV_PACKAGE = "python3-pip", "python3-venv"
VENV = re.compile(r"\s-m\s+venv\b|\bvirtualenv\b")
ASKS_BY_ITSELF = re.compile(
    r"\b(?:urllib\.request|requests\.(?:get|post|Session)|httpx\.|urlopen|huggingface_hub)\b"
)
"""In a program that a step runs: it fetches what the image has."""


class Need(StrEnum):
    """What a task needs that is not here."""

    IMAGE = "needs an image"
    NETWORK = "needs the network"
    OTHER = "is in no form that is read here"


class NotHere(Exception):
    """Why a task cannot be played in a machine sandbox."""

    def __init__(self, need: Need, why: str) -> None:
        super().__init__(f"{need.value} ({why})")
        self.need = need


@dataclass(kw_only=True)
class MachinePlan:
    """How a machine becomes that of a task."""

    image: str = ""
    packages: list[str] = field(default_factory=list)
    """Of Debian."""
    requirements: list[str] = field(default_factory=list)
    """Python packages, each with its version where it has one."""
    steps: list[tuple[Instruction, str, dict[str, str]]] = field(default_factory=list)
    """COPY, ADD and RUN, each with its working directory and variables."""
    variables: dict[str, str] = field(default_factory=dict)
    """What commands and tests are given."""
    workdir: str = "/"
    notes: list[str] = field(default_factory=list)
    """What is not as in the image."""


def plan_machine(task: TaskFolder) -> MachinePlan:
    """The plan of a task; `NotHere` says why there is none."""
    _require_form(task)
    asked = task.section("environment")
    folder = task.dockerfile.parent
    composed = next((name for name in COMPOSE if (folder / name).is_file()), None)
    if composed:
        raise NotHere(Need.IMAGE, f"environment/{composed} starts containers of its own")
    if not task.dockerfile.is_file():
        named = asked.get("docker_image")
        raise NotHere(Need.IMAGE, f"{named}" if named else "environment/ has no Dockerfile")
    try:
        instructions = read_dockerfile(
            task.dockerfile.read_text(encoding="utf-8", errors="replace")
        )
        plan = _plan(instructions, folder)
    except UnreadableDockerfile as error:
        raise NotHere(Need.OTHER, str(error)) from None
    if isinstance(asked.get("workdir"), str) and asked["workdir"]:
        plan.workdir = asked["workdir"]
    for what, path in (
        ("tests/test.sh", task.test_script),
        ("solution/solve.sh", task.solve_script),
    ):
        fetched = fetches(path.read_text(errors="replace")) if path.is_file() else None
        if fetched:
            raise NotHere(Need.NETWORK, f"{what}: {fetched}")
    return plan


def _require_form(task: TaskFolder) -> None:
    """What is not read here, whatever the machine is."""
    asked, graded = task.section("environment"), task.section("verifier")
    problems = {
        "it has several steps": bool(task.config.get("steps")),
        "it has no instruction.md": not task.instruction,
        "it has no tests/test.sh": not task.test_script.is_file(),
        f"its machine is a {asked.get('os')}": str(asked.get("os", "linux")).lower() != "linux",
        "it asks for a GPU": bool(asked.get("gpus")) or bool(asked.get("tpu")),
        "it has MCP servers": bool(asked.get("mcp_servers")),
        "its verifier has a container of its own": graded.get("environment_mode") == "separate"
        or "environment" in graded
        or (task.folder / "tests" / "Dockerfile").is_file(),
    }
    for problem, is_so in problems.items():
        if is_so:
            raise NotHere(Need.OTHER, problem)
    variables = {**task.section("environment", "env"), **task.section("verifier", "env")}
    asks = sorted(str(value) for value in variables.values() if "${" in str(value))
    if asks:
        raise NotHere(Need.OTHER, f"it takes {asks[0]} from the host")


def _plan(instructions: tuple[Instruction, ...], folder: Path) -> MachinePlan:
    plan = MachinePlan()
    settings: dict[str, str] = {}
    for one in instructions:
        if one.kind == "FROM":
            _begin(plan, one)
        elif one.kind == "ENV":
            plan.variables |= settings_of(one, plan.variables)
        elif one.kind == "ARG":
            settings |= settings_of(one, settings)
        elif one.kind == "WORKDIR":
            plan.workdir = _below(plan.workdir, one.words)
            plan.steps.append((one, plan.workdir, {}))
        elif one.kind in ("RUN", "COPY", "ADD"):
            _add_step(plan, one, folder, settings)
        else:
            _require_ignorable(one)
    if not plan.image:
        raise UnreadableDockerfile("its Dockerfile has no FROM")
    return plan


def _require_ignorable(one: Instruction) -> None:
    """Nothing is lost where the instruction is left out."""
    if one.kind == "USER":
        if one.words not in ("root", "0", "root:root", "0:0"):
            raise NotHere(Need.IMAGE, f"USER {one.words}: machines are played as root")
    elif one.kind in ("ENTRYPOINT", "HEALTHCHECK"):
        raise NotHere(Need.IMAGE, f"{one.kind} {one.words[:SHOWN]}")
    elif one.kind not in IGNORED:
        raise UnreadableDockerfile(f"there is no instruction {one.kind[:SHOWN]}")


def _begin(plan: MachinePlan, one: Instruction) -> None:
    image = one.words.split()[0] if one.words else ""
    if plan.image:
        raise NotHere(Need.IMAGE, f"its Dockerfile has several stages, {plan.image} and {image}")
    if not FAMILIES.fullmatch(image) or OTHER_THAN_DEBIAN.search(image):
        raise NotHere(Need.IMAGE, image or "FROM names none")
    plan.image = image
    plan.notes.append(f"{image} is played on the machines' own system")
    # What these images have, and ours has not.
    plan.packages.extend(("tmux",) if "t-bench" in image else ())
    if "python" in image:
        plan.packages.append(PIP_PACKAGE)


def _below(folder: str, name: str) -> str:
    name = name.strip("\"'")
    return name if name.startswith("/") else f"{folder.rstrip('/')}/{name}"


def _add_step(plan: MachinePlan, one: Instruction, folder: Path, settings: dict[str, str]) -> None:
    """Take one step up, with what it installs."""
    flags = dict(one.flags)
    if one.kind == "RUN":
        script = one.script()
        if "secret" in flags.get("mount", "") or "ssh" in flags.get("mount", ""):
            raise NotHere(Need.OTHER, f"RUN --mount={flags['mount']}")
        plan.packages.extend(_apt_packages(script, plan))
        plan.requirements.extend(_pip_packages(script, plan, folder))
        plan.packages.extend([PIP_PACKAGE] if PIP.search(script) else [])
        plan.packages.extend([VENV_PACKAGE] if VENV.search(script) else [])
        if fetched := fetches(script) or _fetching_program(script, folder):
            raise NotHere(Need.NETWORK, f"RUN {fetched}")
        variables = {**settings, **plan.variables}
        plan.steps.append((one, plan.workdir, variables))
        return
    if "from" in flags:
        raise NotHere(Need.IMAGE, f"{one.kind} --from={flags['from']}")
    if any("://" in word for word in one.argv()[:-1]):
        raise NotHere(Need.NETWORK, f"{one.kind} {one.words[:SHOWN]}")
    plan.steps.append((one, plan.workdir, {}))


def fetches(script: str) -> str | None:
    """The first command of a script that asks the network for something; None for none."""
    code = "\n".join(line for line in script.splitlines() if not line.lstrip().startswith("#"))
    for found in FETCHES.finditer(code):
        if not LOOPBACK.search(found[1]):
            return found[1].strip()[:SHOWN]
    return None


def _fetching_program(script: str, folder: Path) -> str | None:
    """A program of the build's own that a script runs and that asks the network."""
    for word in re.findall(r"[\w./-]+\.py\b", script):
        for path in sorted(folder.rglob(word.rpartition("/")[2])):
            if path.is_file() and ASKS_BY_ITSELF.search(path.read_text(errors="replace")):
                return f"{word} asks for files by itself"
    return None


def _installed(script: str, pattern: re.Pattern[str]) -> Iterator[list[str]]:
    """The words of each command that installs something."""
    joined = re.sub(r"\\\n", " ", script)
    for found in pattern.finditer(joined):
        rest = joined[found.end() :]
        end = ENDS.search(rest)
        yield re.sub(r"#.*", "", rest[: end.start()] if end else rest).split()


def _apt_packages(script: str, plan: MachinePlan) -> Iterator[str]:
    for words in _installed(script, APT):
        for word in words:
            name, _, version = word.strip("\"'").partition("=")
            if word.startswith("-"):
                continue
            if not PACKAGE.fullmatch(name):
                raise NotHere(Need.OTHER, f"RUN apt-get install {word[:SHOWN]}: no plain package")
            if version:
                plan.notes.append(f"{name} in another version than {version}")
            yield name


VALUED = {"-r": True, "--requirement": True, "-c": True, "--constraint": True}
ELSEWHERE = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-e", "--editable")
LOCAL = (".", "/")


def _pip_packages(script: str, plan: MachinePlan, folder: Path) -> Iterator[str]:
    for words in _installed(script, PIP):
        following = iter(words)
        for word in following:
            word = word.strip("\"'")
            flag = word.partition("=")[0]
            if flag in ELSEWHERE:
                raise NotHere(Need.NETWORK, f"RUN pip install {' '.join(words)[:SHOWN]}")
            if flag in VALUED:
                named = word.partition("=")[2] or next(following, "")
                yield from _requirements(named, plan, folder)
            elif word.startswith(LOCAL):
                raise NotHere(Need.NETWORK, f"RUN pip install {word}: it is built from source")
            elif not word.startswith("-"):
                yield _requirement(word)


def _requirement(word: str) -> str:
    if not REQUIREMENT.fullmatch(word):
        raise NotHere(Need.NETWORK, f"RUN pip install {word[:SHOWN]}")
    return word


def _requirements(name: str, plan: MachinePlan, folder: Path) -> Iterator[str]:
    """The lines of a requirements file that the build has copied."""
    base = name.strip("\"'").rpartition("/")[2]
    found = [one for one in sorted(folder.rglob(base)) if one.is_file()] if base else []
    if not found:
        raise NotHere(Need.OTHER, f"RUN pip install -r {name}: environment/ has no such file")
    for line in found[0].read_text(errors="replace").splitlines():
        said = re.sub(r"\s*(#.*|;.*)?$", "", line.strip())
        if said:
            yield _requirement(re.sub(r"\s+", "", said))
