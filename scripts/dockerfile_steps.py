"""Runs the steps of a Dockerfile in order in a clean root, where there is no Docker.

    sudo python scripts/dockerfile_steps.py packaging/Dockerfile /tmp/root --arg VARIANT=cpu

The root is a minimal Debian of the suite in the base image's name (`python:3.11-slim-bookworm`)
with its own Python, made by `mmdebstrap`; each RUN is run in it by `bwrap`. At the end the entry
point is run as the image's user. What pip and apt need to reach their indexes here (certificates, a
pip.conf) is bound in read-only with --bind, and handed on with --pass.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

PASSED_OVER = {"EXPOSE", "VOLUME", "HEALTHCHECK", "LABEL"}
"""Instructions that change nothing in the root."""
PYTHON = "ca-certificates,python3,python3-venv"
PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
"""That of Python's images."""


@dataclass(frozen=True)
class Step:
    """One instruction and what follows it."""

    word: str
    rest: str


@dataclass
class Image:
    """What the steps have come to."""

    variables: dict[str, str] = field(default_factory=lambda: {"PATH": PATH, "HOME": "/root"})
    arguments: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0"
    shell: list[str] = field(default_factory=lambda: ["/bin/sh", "-c"])
    entrypoint: list[str] = field(default_factory=list)

    def expand(self, text: str) -> str:
        """A text with the variables that are known put in."""
        known = {**self.arguments, **self.variables}
        return re.sub(r"\$\{?(\w+)\}?", lambda found: known.get(found[1], found[0]), text)


def read_steps(text: str) -> list[Step]:
    """The instructions of a Dockerfile, continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [Step(*line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def wanted_steps(steps: list[Step], given: dict[str, str]) -> tuple[str, list[Step]]:
    """The base image of the last stage, and the steps of all stages it is built from, in order."""
    image = Image()
    stages: dict[str, tuple[str, list[Step]]] = {}
    name = ""
    for step in steps:
        if step.word == "FROM":
            source, *named = image.expand(step.rest).split()
            name = named[-1] if named else f"stage {len(stages)}"
            stages[name] = (source, [])
        elif stages:
            stages[name][1].append(step)
        elif step.word == "ARG":
            key, _, value = step.rest.partition("=")
            image.arguments[key] = given.get(key, value)
    found: list[Step] = []
    while name in stages:
        source, own = stages[name]
        found = own + found
        name = source
    return name, found


def make_root(base: str, root: Path, sources: Path, packages: str = PYTHON) -> None:
    """A clean root in place of the base image."""
    suite = re.split("[-:]", base)[-1]
    if root.exists():
        print(f"== FROM {base}: {root} is there and taken for it", flush=True)
        return
    print(f"== FROM {base}: Debian {suite} with {packages}", flush=True)
    words = ["mmdebstrap", "--variant=minbase", f"--include={packages}", suite, str(root)]
    subprocess.run([*words, str(sources)], check=True)


class Root:
    """Runs commands in a root."""

    def __init__(
        self, root: Path, binds: list[str], passed: list[str], *, is_machine: bool = False
    ) -> None:
        # A container's /proc is partly hidden, and no sandbox can be opened over that.
        self._proc = ["--bind", "/proc", "/proc"] if is_machine else ["--proc", "/proc"]
        self._root, self._binds = root, [bind for bind in binds if Path(bind).exists()]
        self._passed = {name: os.environ[name] for name in passed if name in os.environ}

    def run(self, words: list[str], image: Image) -> None:
        """Run a command with the image's variables, folder and user."""
        fixed = ["--bind", str(self._root), "/", "--dev", "/dev", *self._proc]
        fixed += [
            "--perms",
            "1777",
            "--tmpfs",
            "/tmp",
            "--ro-bind",
            "/etc/resolv.conf",
            "/etc/resolv.conf",
        ]
        for bind in self._binds:
            fixed += ["--ro-bind", bind, bind]
        for name, value in {**self._passed, **image.variables}.items():
            fixed += ["--setenv", name, value]
        user = ["setpriv", f"--reuid={image.user}", f"--regid={image.user}", "--clear-groups"]
        caps = ["--cap-add", "ALL", "--chdir", image.folder, "--clearenv"]
        subprocess.run(["bwrap", *caps, *fixed, *user, *words], check=True)


def take_step(step: Step, image: Image, root: Path, runner: Root, context: Path) -> None:
    """Do what one instruction says."""
    if step.word in PASSED_OVER:
        return
    print(f"== {step.word} {step.rest}", flush=True)
    if step.word == "ENV":
        pairs = (word.partition("=") for word in shlex.split(step.rest))
        image.variables |= {key: image.expand(value) for key, _, value in pairs}
    elif step.word == "ARG":
        key, _, value = step.rest.partition("=")
        image.arguments.setdefault(key, value)
    elif step.word == "RUN":
        named = replace_variables(image)
        runner.run([*image.shell, step.rest], named)
    elif step.word == "COPY":
        *sources, target = image.expand(step.rest).split()
        copy(context, sources, root / target.lstrip("/"), is_folder=target.endswith("/"))
    elif step.word == "USER":
        image.user = step.rest
    elif step.word == "WORKDIR":
        image.folder = step.rest
    elif step.word == "SHELL":
        image.shell = json.loads(step.rest)
    elif step.word == "ENTRYPOINT":
        image.entrypoint = json.loads(step.rest)
    elif step.word != "CMD":
        sys.exit(f"{step.word} is not known here")


def replace_variables(image: Image) -> Image:
    """The same with arguments among the variables, as a RUN sees them."""
    return Image(
        variables={**image.arguments, **image.variables},
        folder=image.folder,
        user=image.user,
        shell=image.shell,
    )


def copy(context: Path, sources: list[str], target: Path, *, is_folder: bool) -> None:
    """COPY: files into a folder, or one folder's content."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for source in sources:
        place = context / source
        if place.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(place, target, ignore=ignored, dirs_exist_ok=True)
        else:
            if is_folder:
                target.mkdir(exist_ok=True)
            shutil.copy(place, target)


def main() -> None:
    """Run every step, then the entry point with --help and whatever --check says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dockerfile", type=Path)
    parser.add_argument("root", type=Path, help="a new folder, or a base image that was unpacked")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--bind", action="append", default=[], metavar="PATH")
    parser.add_argument("--pass", dest="passed", action="append", default=[], metavar="VARIABLE")
    parser.add_argument("--check", action="append", default=["--help"], metavar="WORDS")
    parser.add_argument(
        "--sources", type=Path, default=Path("/etc/apt/sources.list.d/debian.sources")
    )
    parser.add_argument("--context", type=Path, default=Path())
    told = parser.parse_args()
    given = dict(word.split("=", 1) for word in told.arg)
    base, steps = wanted_steps(read_steps(told.dockerfile.read_text()), given)
    make_root(base, told.root, told.sources)
    image, runner = Image(arguments=given), Root(told.root, told.bind, told.passed)
    for step in steps:
        take_step(step, image, told.root, runner, told.context)
    for words in told.check:
        print(f"== as user {image.user}: {' '.join(image.entrypoint)} {words}", flush=True)
        runner.run([*image.entrypoint, *shlex.split(words)], image)
    print("all steps ran", flush=True)


if __name__ == "__main__":
    main()
