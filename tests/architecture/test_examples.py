"""Examples run: the scripts in examples/, and the ones in docstrings."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src"
TESTED_ELSEWHERE = {
    "00_loop.py": "tests/integration/test_api.py",
    "04_openai_agents.py": "tests/clients/test_openai_agents_example.py",
}
"""Examples with tests of their own, which say more than that they run."""
EXAMPLES = sorted(
    path for path in (REPOSITORY / "examples").glob("*.py") if path.name not in TESTED_ELSEWHERE
)
WITH_DOCTESTS = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8") and "tests" not in path.parts
]


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(path)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_example_that_is_tested_elsewhere_is_named_there() -> None:
    for example, test in TESTED_ELSEWHERE.items():
        assert (REPOSITORY / "examples" / example).is_file()
        assert example in (REPOSITORY / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WITH_DOCTESTS)
def test_examples_in_docstrings_give_what_they_show(name: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert result.attempted
    assert not result.failed
