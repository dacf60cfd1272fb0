"""Builds the wheel, and installs and tries it in empty environments of each Python there is.

python scripts/try_wheel.py                            the base install on each Python
python scripts/try_wheel.py --extras train             with this extra, and a run of the tiny model
python scripts/try_wheel.py --python 3.12 --extras train,gateway,serve

Exit code 0 when everything holds. `pip` takes packages from where it is set up to.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
LEAST = (3, 11)
TORCH = "torch==2.13.0"

BASE = (
    "practicum --version",
    "practicum --help",
    "practicum doctor",
    "practicum tasks math --n 2",
    "practicum tasks math --check 2",
    "practicum play math --policy reference --task '3x + 7 = 16'",
    "practicum eval reference --env math --n 5",
    "practicum runs",
)
"""What works without weights."""

TRAINING = (
    "practicum train math model=tiny steps=2 eval.n=10 --name first",
    "practicum eval runs/first --n 10 --against base",
    "practicum watch first --once",
    "practicum train configs/tiny.yaml --dry-run",
    "python -c \"import practicum as pr; print(pr.load('first'))\"",
)
"""What `train` adds."""

WITHOUT_TORCH = "practicum train math model=tiny steps=2"
"""Ends in one sentence with the command to type."""


def pythons() -> dict[str, str]:
    """Interpreters from 3.11, by version: on the path, and pyenv's."""
    found: dict[str, str] = {}
    candidates = [shutil.which(f"python3.{minor}") for minor in range(LEAST[1], 20)]
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates += [str(p) for p in sorted(root.glob("versions/3.*/bin/python3"))]
    for path in (p for p in candidates if p):
        told = _output([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        version = told.strip()
        if re.fullmatch(r"3\.\d+", version) and tuple(map(int, version.split("."))) >= LEAST:
            found.setdefault(version, path)
    return found


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def build_wheel(folder: Path) -> Path:
    """The wheel, in an empty folder."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(REPOSITORY)], check=True)
    [wheel] = folder.glob("practicum-*.whl")
    return wheel


def twine_check(wheel: Path) -> str:
    """Whether the package's description is sound; a sentence where twine is not here."""
    if shutil.which("twine") is None and not _output([sys.executable, "-m", "twine", "--version"]):
        return "not checked: twine is not installed; type: pip install twine"
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(wheel)],
        capture_output=True,
        text=True,
        check=False,
    )
    return "passed" if done.returncode == 0 else f"FAILED: {done.stdout}{done.stderr}"


def try_in(python: str, wheel: Path, extras: str, folder: Path) -> list[str]:
    """What goes wrong in an empty environment of a Python; nothing if all holds."""
    subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
    bin_dir = folder / "venv" / "bin"
    pip = [str(bin_dir / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
    names = set(filter(None, extras.split(",")))
    wanted = f"{wheel}[{extras}]" if extras else str(wheel)
    packages = [[TORCH], [wanted]] if "train" in names else [[wanted]]
    for given in packages:
        done = subprocess.run([*pip, *given], capture_output=True, text=True, check=False)
        if done.returncode:
            return [f"pip install {given[0]}: {done.stderr.strip().splitlines()[-1]}"]
    shown = {"COLUMNS": "80", "NO_COLOR": "1", "PATH": f"{bin_dir}{os.pathsep}/usr/bin:/bin"}
    home = {"HOME": str(folder), "PRACTICUM_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    kept = {k: os.environ[k] for k in ("OMP_NUM_THREADS", "LANG", "TMPDIR") if k in os.environ}
    problems = []
    for command in (*BASE, *(TRAINING if "train" in names else ())):
        done = _run(command, folder, {**kept, **shown, **home})
        if done.returncode or "Traceback" in done.stderr:
            problems.append(f"{command}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    if "train" not in names:
        done = _run(WITHOUT_TORCH, folder, {**kept, **shown, **home})
        told = done.stderr.strip()
        if done.returncode != 2 or "Traceback" in told or "pip install" not in told:
            problems.append(f"{WITHOUT_TORCH}: exit code {done.returncode}: {told[-300:]}")
    return problems


def _run(
    command: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def main() -> int:
    """Try every Python asked for; a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", help="A version such as 3.12; again for more.")
    parser.add_argument("--extras", default="", help="Extras to install, such as train,gateway.")
    asked = parser.parse_args()
    there = pythons()
    if missing := [version for version in asked.python or () if version not in there]:
        print(f"there is no Python {missing[0]}; there are: {', '.join(there)}")
        return 2
    failed = False
    with tempfile.TemporaryDirectory(prefix="practicum-wheel-") as name:
        wheel = build_wheel(Path(name) / "dist")
        checked = twine_check(wheel)
        failed |= checked.startswith("FAILED")
        print(
            f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; twine check {checked}", flush=True
        )
        for version in asked.python or there:
            begun = time.monotonic()
            folder = Path(name) / version
            folder.mkdir()
            problems = try_in(there[version], wheel, asked.extras, folder)
            failed |= bool(problems)
            what = f"practicum[{asked.extras}]" if asked.extras else "practicum"
            told = "all well" if not problems else "; ".join(problems)
            seconds = time.monotonic() - begun
            print(f"Python {version}, {what}: {told} ({seconds:.0f} s)", flush=True)
            shutil.rmtree(folder)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
