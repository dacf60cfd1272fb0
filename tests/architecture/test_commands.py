"""The set-up commands: what make offers, what the continuous integration runs, what is pinned."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
TARGETS = {"help", "setup", "pins", "demo", "test", "rare", "check", "clients", "format", "clean"}
SET_UP_FILES = ("Makefile", "README.md", "CONTRIBUTING.md", ".ci/run", "scripts/make_venv.sh")
ASKS_FOR_TORCH = re.compile(r"pip3? install[^\n#]*?\btorch\b(==[\d.]+)?")


def shell(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    # A make that runs this test passes its own flags on in MAKEFLAGS.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def commands_of(script: str) -> list[str]:
    """The lines of a shell script that do something besides setting it up."""
    lines = (line.strip() for line in script.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]


def test_make_alone_lists_every_command() -> None:
    done = shell(["make"])
    assert done.returncode == 0
    assert {line.split()[1] for line in done.stdout.splitlines()} == TARGETS


def test_the_demo_trains_and_then_plays_what_it_trained() -> None:
    done = shell(["make", "--dry-run", "demo", "DEMO_NAME=abc"])
    assert "practicum train configs/demo.yaml --name abc" in done.stdout
    assert 'practicum play math --policy runs/abc --task "3x + 7 = 16"' in done.stdout


def test_the_demo_keeps_one_name_for_its_run() -> None:
    planned = shell(["make", "--dry-run", "demo"]).stdout
    names = re.findall(r"(?:--name |runs/)(demo-[\d-]+)", planned)
    assert len(names) == 3
    assert len(set(names)) == 1


@pytest.mark.parametrize(("script", "does"), [("setup", "doctor"), ("quick_start", "train")])
def test_a_script_of_a_guide_calls_make(script: str, does: str) -> None:
    done = shell(["sh", "-c", f"cd / && '{REPOSITORY}/{script}.sh'"], MAKEFLAGS="n")
    assert done.returncode == 0, done.stderr
    assert f"practicum {does}" in done.stdout
    assert len((REPOSITORY / f"{script}.sh").read_text().splitlines()) == 2


def test_what_requirements_ask_for_is_torch_first_and_then_parts_that_there_are() -> None:
    lines = (REPOSITORY / "requirements.txt").read_text(encoding="utf-8").splitlines()
    torch, package = [line for line in lines if not line.startswith("#")]
    assert f"TORCH := {torch}\n" in MAKEFILE
    asked = re.fullmatch(r"-e \.\[([a-z,]+)\]", package)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert asked is not None
    assert "train" in asked[1].split(",")
    assert set(asked[1].split(",")) <= set(project["optional-dependencies"])


def test_continuous_integration_runs_the_test_commands_of_the_readme_and_nothing_else() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:bash|console)\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    shown = {
        line.removeprefix("$ ").partition("#")[0].strip() for b in blocks for line in b.split("\n")
    }
    run = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    assert commands_of(run) == ["make test", "make rare"]
    assert set(commands_of(run)) <= shown


def test_every_test_is_run_by_make_test_or_by_make_rare() -> None:
    test, rare = (shell(["make", "--dry-run", target]).stdout for target in ("test", "rare"))
    assert '-m "not rare"' in test
    assert re.search(r"-m rare$", rare, re.MULTILINE)


def test_continuous_integration_stops_at_the_first_failure() -> None:
    run = REPOSITORY / ".ci" / "run"
    assert "set -euo pipefail" in run.read_text(encoding="utf-8")
    assert os.access(run, os.X_OK)


def test_torch_is_pinned_to_one_version_wherever_it_is_asked_for() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    [wanted] = [x for x in extras["optional-dependencies"]["train"] if x.startswith("torch")]
    assert re.fullmatch(r"torch==[\d.]+", wanted)
    assert f"TORCH := {wanted}\n" in MAKEFILE
    for name in SET_UP_FILES:
        for found in ASKS_FOR_TORCH.finditer((REPOSITORY / name).read_text(encoding="utf-8")):
            assert found.group(0).endswith(wanted), f"{name}: {found.group(0)}"


def test_torch_is_installed_before_anything_that_depends_on_it() -> None:
    planned = shell(["make", "--dry-run", "--always-make", "test"]).stdout
    assert planned.index('"torch==') < planned.index("--editable")


OLD_PYTHON = "#!/bin/sh\nexit 1\n"
PYTHON_WITHOUT_VENV = '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n'
NOT_ROOT = "#!/bin/sh\necho 1000\n"
REFUSES = "#!/bin/sh\nexit 1\n"


def make_venv_with(programs: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The set-up script on a machine that has only these programs, and a few of the usual ones."""
    programs_dir = folder / "bin"
    programs_dir.mkdir()
    for name, text in programs.items():
        (programs_dir / name).write_text(text)
        (programs_dir / name).chmod(0o755)
    for usual in ("head", "env"):
        (programs_dir / usual).symlink_to(f"/usr/bin/{usual}")
    command = ["/bin/sh", "scripts/make_venv.sh", str(folder / "venv")]
    return shell(command, PATH=str(programs_dir))


@pytest.mark.parametrize(
    ("programs", "advice"),
    [
        ({}, "install it and call make again"),
        (
            {"apt-get": REFUSES, "id": NOT_ROOT, "sudo": REFUSES},
            "type: sudo apt-get install python3 python3-venv",
        ),
        (
            {"apt-get": REFUSES, "id": NOT_ROOT, "sudo": REFUSES, "python3": PYTHON_WITHOUT_VENV},
            "type: sudo apt-get install python3-venv",
        ),
        (
            {"apt-get": REFUSES, "id": NOT_ROOT, "sudo": REFUSES, "python3": OLD_PYTHON},
            "type: sudo apt-get install python3.11 python3.11-venv",
        ),
        (
            {
                "apt-get": REFUSES,
                "id": NOT_ROOT,
                "sudo": REFUSES,
                "python3": OLD_PYTHON,
                "python3.12": PYTHON_WITHOUT_VENV,
            },
            "type: sudo apt-get install python3.12-venv",
        ),
    ],
    ids=["no-apt", "no-python", "no-venv", "old-python", "newer-beside-old"],
)
def test_a_missing_python_is_one_sentence_with_the_command_to_type(
    programs: dict[str, str], advice: str, tmp_path: Path
) -> None:
    done = make_venv_with(programs, tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"Python 3.11 or newer with its venv module is needed and was not found; {advice}"
    ]
    assert not (tmp_path / "venv").exists()


def test_a_python_without_venv_gets_it_installed_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "asked").touch()
    apt = f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
    python = (
        '#!/bin/sh\ncase "$2" in\n'
        f'*ensurepip*) read -r line < {tmp_path}/asked; [ -n "$line" ];;\n'
        f'venv) echo "$@" >> {tmp_path}/asked;;\nesac\n'
    )
    programs = {"apt-get": apt, "id": "#!/bin/sh\necho 0\n", "python3": python}
    done = make_venv_with(programs, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text().splitlines() == [
        "update -qq",
        "install -y -qq python3-venv",
        f"-m venv --clear {tmp_path}/venv",
    ]
