"""`practicum serve` as a process, over random adapters of the tiny model."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests.unit.engine.adapters import write_adapter

START_S = 300
STOP_S = 300


@dataclass(frozen=True)
class ServedProcess:
    """A server under way."""

    url: str
    process: "subprocess.Popen[str]"
    said: Path
    """What it says on standard error."""

    def client(self, key: str = "") -> httpx.Client:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=240)

    def stop(self) -> int:
        """Tell it to stop, and wait; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)


@contextmanager
def serve_process(folder: Path, *words: object) -> Iterator[ServedProcess]:
    """The command under way in a folder, from when it is ready until the block ends."""
    said = folder / "said"
    with said.open("w") as beside:
        process = subprocess.Popen(
            [sys.executable, "-m", "practicum.cli.main", "serve", *map(str, words), "--port", "0"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=beside,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    watch = threading.Timer(START_S, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.endswith("/v1"), said.read_text()
        watch.cancel()
        yield ServedProcess(line.removesuffix("/v1"), process, said)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_S) == 0
    finally:
        watch.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def publish(folder: Path, seeds: list[int]) -> dict[str, Path]:
    """`served/NAME` with a version for each seed, the first current; versions by fingerprint."""
    found = {}
    for number, seed in enumerate(seeds, 1):
        version = folder / "versions" / f"{number:04}"
        found[write_adapter(version, seed)] = version
    promote(folder, 1)
    return found


def promote(folder: Path, number: int) -> None:
    """Point `current` to a version, as `practicum learn` does."""
    fresh = folder / ".current"
    fresh.symlink_to(Path("versions") / f"{number:04}")
    os.replace(fresh, folder / "current")
