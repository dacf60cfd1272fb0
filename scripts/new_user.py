"""Is a new user: a new Debian, a clone, and README's commands from top to bottom, nothing else.

    sudo python scripts/new_user.py /tmp/root --out /tmp/told
    sudo python scripts/new_user.py /tmp/root --out /tmp/told --page docs/new-user.md

Every command is typed into one shell, in a clone of this repository's last commit. What each prints
is a file in the folder; the table says how long it took and when the milestones were reached. Exit
code 0 when every command worked. What pip and apt need to reach their indexes here is bound in with
--bind and handed on with --pass, as in `dockerfile_steps.py`, which makes the root.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dockerfile_steps import Image, Root, make_root
from page_blocks import commands_and_output, page_blocks

REPOSITORY = Path(__file__).parents[1]
BASE = "debian:bookworm"
PACKAGES = "ca-certificates,git,python3,sudo"
"""What a machine has before README is read."""

HOME = "/root"
COLUMNS = 80
LONGEST = 40
"""Lines of a command's output that the page shows."""

MILESTONES = {
    "a tiny model that has learned": "practicum train configs/tiny.yaml --name first",
    "SmolLM2-135M's result": "make demo",
}
LEFT_OUT = ("make test", "make rare")
"""A contributor's, not a user's: every test of the repository."""

DOWNLOADS = re.compile(r"sudo apt-get |pip install |python3 -m venv |practicum models pull ")
"""Commands whose time is the network's and the disk's."""

HIDDEN = re.compile(r"^(Looking in |Processing |Collecting |  Downloading |Requirement already )")
"""What pip and apt say of the place where they ran, not of the product."""

HEAD = """<!-- made by scripts/new_user.py -->
# README, typed by a new user

A new Debian, a clone, and README's commands from top to bottom, as `scripts/new_user.py` types
them, on {cores} cores: how long each took, and what it printed. The first column is time on the
clock, which whatever else the machine does makes longer; the second is the work of all cores.

{table}
"""

TYPED = """
TIMEFORMAT='%R %U %S'
type_in() {{
    {{ time {{ eval "$2" > {out}/$1.txt 2>&1 < /dev/null; code=$?; }}; }} 2> {out}/took
    echo "$1 $code $(cat {out}/took)" >> {out}/times
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One command of README, and what came of it."""

    command: str
    exit_code: int
    seconds: float
    cpu_seconds: float
    """Of all cores: what it would take of one that nobody else uses."""
    output: str

    @property
    def is_download(self) -> bool:
        """Whether the network is what takes the time."""
        return DOWNLOADS.match(self.command) is not None


def commands_of(readme: str, left_out: Collection[str] = LEFT_OUT) -> list[str]:
    """What a reader types, in order: the lines of shell blocks, and Python blocks whole."""
    found: list[str] = []
    for block in page_blocks("README.md", readme):
        if block.language == "python":
            found.append(f"python - <<'END'\n{block.text}\nEND\n")
        elif block.language != "yaml":
            found += commands_and_output(block.language, block.text)[0]
    return [command for command in found if command.strip() and command not in left_out]


def type_commands(commands: list[str], runner: Root, root: Path) -> list[Told]:
    """Type all of them into one shell in the clone, so that `activate` holds for the next."""
    out = root / "out"
    out.mkdir()
    lines = [TYPED.format(out="/out"), f"cd {HOME}/practicum"]
    lines += [f"type_in {n} {shlex.quote(command)}" for n, command in enumerate(commands)]
    (out / "typed.sh").write_text("\n".join(lines), encoding="utf-8")
    image = Image(folder=HOME)
    image.variables |= {"COLUMNS": str(COLUMNS), "TERM": "dumb", "LANG": "C.UTF-8"}
    runner.run(["bash", "/out/typed.sh"], image)
    found = []
    for line in (out / "times").read_text().splitlines():
        number, code, seconds, user, system = line.split()
        found.append(
            Told(
                command=commands[int(number)],
                exit_code=int(code),
                seconds=float(seconds),
                cpu_seconds=float(user) + float(system),
                output=(out / f"{number}.txt").read_text(encoding="utf-8", errors="replace"),
            )
        )
    return found


def milestones(steps: list[Told]) -> list[str]:
    """When each was reached, from the clone on, and how much of that was downloads."""
    lines = []
    for name, command in MILESTONES.items():
        typed = [step.command for step in steps]
        if command not in typed:
            continue
        before = steps[: typed.index(command) + 1]
        whole = sum(step.seconds for step in before)
        own = [step for step in before if not step.is_download]
        beside = sum(step.seconds for step in own) / 60
        cpu = sum(step.cpu_seconds for step in own) / 60
        lines.append(
            f"- {name}: {whole / 60:.1f} minutes from the clone, {beside:.1f} beside downloads, "
            f"in which {cpu:.1f} minutes of one core's work were done"
        )
    return lines


def table(steps: list[Told]) -> str:
    """A row a command."""
    rows = ["| seconds | of one core | command | |", "|---:|---:|---|---|"]
    for step in steps:
        first = step.command.splitlines()[0].partition("   #")[0].replace("|", "\\|")
        told = "" if step.exit_code == 0 else f"exit code {step.exit_code}"
        rows.append(f"| {step.seconds:.0f} | {step.cpu_seconds:.0f} | `{first}` | {told} |")
    return "\n".join(rows)


def screen(step: Told) -> str:
    """A command and what it printed, cut to a screen, without what a terminal would overwrite."""
    lines = [line.split("\r")[-1].rstrip() for line in step.output.strip("\n").splitlines()]
    shown = [line for line in lines if not HIDDEN.match(line)]
    if step.is_download:
        shown = shown[-1:]
    if len(shown) > LONGEST:
        shown = [*shown[:LONGEST], f"... {len(shown) - LONGEST} lines more"]
    text = "\n".join(line[:COLUMNS] if step.is_download else line for line in shown)
    return (
        f"\n```text\n$ {step.command.rstrip()}\n{text.replace('```', '').replace(HOME, '~')}\n```\n"
    )


def clone(root: Path) -> None:
    """The repository's last commit, cloned where a user would have it."""
    target = root / HOME.lstrip("/") / "practicum"
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(target)], check=True)


def main() -> int:
    """Make the root, type README, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root", type=Path, help="a new folder")
    parser.add_argument("--out", type=Path, required=True, help="a new folder for the outputs")
    parser.add_argument("--page", type=Path, help="write them as a page of the documentation too")
    parser.add_argument("--leave-out", action="append", default=[*LEFT_OUT], metavar="COMMAND")
    parser.add_argument("--bind", action="append", default=[], metavar="PATH")
    parser.add_argument("--pass", dest="passed", action="append", default=[], metavar="VARIABLE")
    parser.add_argument(
        "--sources", type=Path, default=Path("/etc/apt/sources.list.d/debian.sources")
    )
    asked = parser.parse_args()
    make_root(BASE, asked.root, asked.sources, PACKAGES)
    clone(asked.root)
    readme = (asked.root / HOME.lstrip("/") / "practicum" / "README.md").read_text()
    steps = type_commands(
        commands_of(readme, asked.leave_out),
        Root(asked.root, asked.bind, asked.passed, is_machine=True),
        asked.root,
    )
    asked.out.mkdir(parents=True)
    for number, step in enumerate(steps):
        head = f"$ {step.command}\n# {step.seconds:.1f} s, exit code {step.exit_code}\n"
        (asked.out / f"{number:02}.txt").write_text(head + step.output, encoding="utf-8")
    told = "\n".join([table(steps), "", *milestones(steps)])
    print(told, flush=True)
    if asked.page:
        head = HEAD.format(cores=os.cpu_count(), table=told)
        asked.page.write_text(head + "".join(map(screen, steps)), encoding="utf-8")
    return int(any(step.exit_code for step in steps))


if __name__ == "__main__":
    sys.exit(main())
