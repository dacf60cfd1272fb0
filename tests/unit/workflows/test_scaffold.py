"""`practicum new`: what it makes, and what it refuses."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import practicum as pr
from practicum.core.config.parse_config import build_config, parse_yaml
from practicum.core.errors import UserError
from practicum.core.trusted_code import is_in_trusted_folder
from practicum.workflows.scaffold import files_of

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return pr.new("help_desk", tmp_path)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", *words)
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def test_it_makes_a_package_that_keeps_our_rules_and_is_formatted(made: Path) -> None:
    rules = f"--config={REPOSITORY / 'pyproject.toml'}"
    own = ("--config", "src=['.']", "--config", "lint.per-file-ignores={'tests/*'=['D']}")
    for words in (("ruff", "check", "--no-cache", rules, *own), ("ruff", "format", "--check")):
        answer = run(made, *words, ".")
        assert answer.returncode == 0, answer.stdout + answer.stderr


def test_no_word_of_the_template_is_left(made: Path) -> None:
    texts = {path: path.read_text() for path in made.rglob("*") if path.is_file()}
    assert not [path for path in texts if "my_domain" in str(path)]
    assert not [path for path, text in texts.items() if re.search("my_?domain", text, re.I)]
    assert "class HelpDeskEnvironment" in texts[made / "help_desk" / "environment.py"]


def test_the_five_todos_are_in_the_files_that_the_readme_names(made: Path) -> None:
    rows = re.findall(r"\| (TODO \d) \| `(\S+)` \|", (made / "README.md").read_text())
    assert [todo for todo, _ in rows] == [f"TODO {n}" for n in range(1, 6)]
    for todo, file in rows:
        assert f"{todo}: " in (made / file).read_text()


def test_its_configs_and_its_entry_point_name_its_class(made: Path) -> None:
    for name in ("tiny.yaml", "train.yaml"):
        config = build_config(parse_yaml((made / name).read_text(), name))
        assert config.env_name == "help_desk:HelpDeskEnvironment"
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["practicum.environments"]
    assert points == {"help_desk": "help_desk:HelpDeskEnvironment"}


def test_its_folder_is_trusted_since_its_owner_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRACTICUM_TRUST", str(REPOSITORY))
    monkeypatch.setenv("PRACTICUM_TRUST_FILE", str(tmp_path / "trusted"))
    assert not is_in_trusted_folder(tmp_path / "ferries" / "ferries" / "episode.py")
    made = pr.new("ferries", tmp_path)
    assert is_in_trusted_folder(made / "ferries" / "episode.py")
    assert not is_in_trusted_folder(tmp_path / "other.py")


@pytest.mark.slow
def test_its_own_tests_pass(made: Path) -> None:
    answer = run(made, "pytest", "-q", "-p", "no:cacheprovider")
    assert answer.returncode == 0, answer.stdout
    assert "7 passed" in answer.stdout


def test_names_that_cannot_be_are_refused_with_one_that_can(tmp_path: Path) -> None:
    for name, told in {
        "math": "'math' is an environment already",
        "agent-company": "give another name, such as practicum new my_agent_company",
        "Foo-bar": "such as practicum new foo_bar",
        "1st": "such as practicum new st",
        "": "such as practicum new courier",
        "../x": "such as practicum new x",
        "a" * 31: "has 31 characters; take at most 30",
        "class": "is a word of Python itself; give another name, such as practicum new my_class",
        "json": "is a Python module already",
        "numpy": "is a Python module already",
        "tests": "is a Python module already",
    }.items():
        with pytest.raises(UserError, match=re.escape(told)) as refused:
            pr.new(name, tmp_path)
        assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(made: Path) -> None:
    before = (made / "README.md").stat().st_mtime_ns
    with pytest.raises(UserError, match="is there already, and nothing is written over"):
        pr.new("help_desk", made.parent)
    assert (made / "README.md").stat().st_mtime_ns == before
    with pytest.raises(UserError, match=r"there is no folder .*; make it first: mkdir"):
        pr.new("ferries", made.parent / "nowhere")
    os.symlink(made.parent / "gone", made.parent / "dangling")
    with pytest.raises(UserError, match="is there already"):
        pr.new("dangling", made.parent)


def test_every_template_is_made_into_a_file() -> None:
    assert {str(path) for path, _ in files_of("courier")} == {
        *("README.md", "pyproject.toml", "tiny.yaml", "train.yaml", "tests/test_courier.py"),
        *("courier/__init__.py", "courier/actions.py", "courier/environment.py"),
        *("courier/episode.py", "courier/reference.py", "courier/rewards.py", "courier/tasks.py"),
    }
