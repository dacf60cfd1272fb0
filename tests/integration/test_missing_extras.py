"""With the base install, or any extra missing, every verb runs or says the one command to type."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import EXTRA_OF

PROGRAM = '''
import contextlib, io, json, sys

class Missing:
    """Asks other finders, but for the packages that are said not to be installed."""

    def __init__(self, others):
        self.others = others

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in PACKAGES:
            return None
        found = (finder.find_spec(name, path, target) for finder in self.others)
        return next((spec for spec in found if spec is not None), None)

    def find_distributions(self, *context):
        for finder in self.others:
            if hasattr(finder, "find_distributions"):
                yield from finder.find_distributions(*context)

PACKAGES, COMMANDS = json.load(sys.stdin)
sys.meta_path[:] = [Missing(list(sys.meta_path))]
from practicum.cli.main import main
found = {}
for line in COMMANDS:
    sys.argv, sys.stdin = ["practicum", *line.split()], io.StringIO("")
    err, code = io.StringIO(), 0
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as leave:
            code = int(leave.code or 0)
        except BaseException as error:
            code = -1
            err.write(f"Traceback: {error!r}")
    found[line] = [code, err.getvalue()]
print(json.dumps(found))
'''

RUNS = [
    *("doctor", "models", "tasks math --n 2", "tasks math --check 1 --level 1", "play math"),
    *("train math model=tiny --dry-run", "eval reference --env math --n 3", "runs", "agents list"),
    *("traces import chat.jsonl --store s.sqlite", "traces list --store s.sqlite", "--version"),
    *("dataset build --kind sft --from rows.jsonl --out out.jsonl", "served list"),
    "train math algorithm=sft data=reference model=tiny --dry-run",
]
"""Commands that run without any extra."""

NEEDS = {
    "train": [
        "train math model=tiny steps=1 eval.n=2",
        "play math --policy tiny",
        "eval tiny --env math --n 2",
        "traces record tiny --env math --n 1",
        "export tiny out --to gguf",
        "gateway tiny --port 0",
        "serve tiny --port 0",
    ],
    "gateway": [
        "gateway tiny --port 0",
        "serve tiny --port 0",
        "train tasks env.data=rows.jsonl agent=mine.py:act model=tiny steps=1 eval.n=1",
        "eval tiny --env tasks env.data=rows.jsonl agent=mine.py:act --n 1",
    ],
    "serve": ["env serve math --port 0", "tasks remote url=http://127.0.0.1:1"],
    "parquet": ["dataset build --kind sft --from rows.jsonl --out out.parquet"],
    "writing": ["tasks writing --n 1", "play writing", "train writing model=tiny --dry-run"],
    "export": ["export tiny out --to gguf", "export tiny out --to ollama"],
}
"""Commands that need an extra."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asked = [{"id": f"t{n}", "prompt": f"Say {n}."} for n in range(20)]
    rows = [{**row, "completion": row["prompt"][4:], "label": True} for row in asked]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes?"}]
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": said}))
    (tmp_path / "mine.py").write_text("async def act(task, client):\n    return 1.0\n")
    return tmp_path


def tried(missing: list[str], commands: list[str], folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([missing, commands]),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_what_needs_no_extra_runs_with_the_base_install(folder: Path) -> None:
    for command, (code, err) in tried(list(EXTRA_OF), RUNS, folder).items():
        assert code in (0, 1), f"{command}: {err}"  # 1: a check falls short
        assert "Traceback" not in err


@pytest.mark.rare
@pytest.mark.parametrize("extra", NEEDS)
def test_a_missing_extra_is_one_sentence_with_the_command(extra: str, folder: Path) -> None:
    missing = [package for package, brings in EXTRA_OF.items() if brings == extra]
    for command, (code, err) in tried(missing, NEEDS[extra], folder).items():
        told = [line for line in err.splitlines() if line.startswith("practicum: ")]
        assert code == 2, f"{command}: {err}"
        assert len(told) == 1, f"{command}: {err}"
        assert f"pip install 'practicum[{extra}]'" in told[0]
        assert "Traceback" not in err
