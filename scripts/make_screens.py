"""Writes docs/screens.md: what each command shows in a terminal of 80 columns.

python scripts/make_screens.py                 takes about a minute; look at what it wrote
python scripts/make_screens.py --only=--help   commands with this in them; the other screens stay
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "screens.md"
COLUMNS = 80
LONGEST = 44
"""Lines of a screen that are shown."""

HEAD = """<!-- made by scripts/make_screens.py -->
# What each command shows

Terminals of 80 columns, with the model `tiny`. Numbers of your own machine will differ.
"""

SCREENS = (
    ("", ("practicum --help",)),
    (
        "doctor",
        (
            "practicum doctor",
            "practicum doctor --config configs/shell_qwen2.5_7b.yaml --device a100-80g",
        ),
    ),
    ("plan", ("practicum plan --help",)),
    ("models", ("practicum models",)),
    ("new", ("practicum new courier",)),
    (
        "tasks",
        (
            "practicum tasks math --n 4",
            "practicum tasks math --level 1 --check 5",
            "practicum tasks math --show '3x + 7 = 16'",
        ),
    ),
    ("play", ("practicum play math --policy reference --task '3x + 7 = 16'",)),
    (
        "train",
        (
            "practicum train --help",
            "practicum train configs/tiny.yaml --name first",
        ),
    ),
    ("watch", ("practicum watch first --once",)),
    ("monitor", ("practicum monitor --help",)),
    ("runs", ("practicum runs", "practicum runs first")),
    ("eval", ("practicum eval runs/first --n 10 --against base",)),
    ("compare", ("practicum compare --help",)),
    ("sweep", ("practicum sweep --help",)),
    ("report", ("practicum report --help",)),
    ("export", ("practicum export runs/first --to merged first-merged --n 4",)),
    ("push", ("practicum push --help",)),
    (
        "traces",
        (
            "practicum traces import examples/traces",
            "practicum traces list --n 6",
        ),
    ),
    (
        "dataset",
        (
            "practicum dataset build --kind sft --from traces.sqlite "
            "--where 'success = true' --out sft.jsonl",
        ),
    ),
    ("agents", ("practicum agents list",)),
    ("env", ("practicum env --help", "practicum env serve --help")),
    ("gateway", ("practicum gateway --help",)),
    ("serve", ("practicum serve --help",)),
    ("served", ("practicum served --help",)),
    ("learn", ("practicum learn --help",)),
    ("ollama", ("practicum ollama --help",)),
    ("sandbox", ("practicum sandbox --help",)),
    ("cluster", ("practicum cluster --help",)),
    ("trust", ("practicum trust --help",)),
)
"""Verbs, and commands that show them at work or explain them."""


def screen(command: str, folder: Path) -> list[str]:
    """What a command prints, cut to a screen."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shown = {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "TERM": "dumb", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, **shown},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    text = done.stdout.replace(str(folder) + os.sep, "")
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    if wide := [line for line in lines if len(line) > COLUMNS]:
        raise SystemExit(f"{command}: wider than {COLUMNS} columns: {wide[0]}")
    return lines if len(lines) <= LONGEST else [*lines[:LONGEST], "..."]


def kept_screens() -> dict[str, str]:
    """The screens that the page has, by their commands."""
    found = re.findall(r"^```text\n\$ (.*?)\n(.*?)\n```$", PAGE.read_text(), re.M | re.S)
    return dict(found)


def main() -> None:
    """Run every command in a folder of its own and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="run commands that have this in them alone")
    only = parser.parse_args().only
    parts, kept = [HEAD], kept_screens() if only else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for needed in ("configs", "examples"):
            (folder / needed).symlink_to(REPOSITORY / needed)
        for verb, commands in SCREENS:
            parts.append(f"\n## {verb or 'practicum'}\n")
            for command in commands:
                if only in command or command not in kept:
                    kept[command] = "\n".join(screen(command, folder)).replace("```", "'''")
                told = kept[command]
                parts.append(f"\n```text\n$ {command}\n{told}\n```\n")
    PAGE.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
