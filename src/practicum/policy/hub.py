"""The model hub and its local cache. Every call is bounded in time, so that offline never hangs."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from practicum.core.errors import MissingExtra, UserError
from practicum.policy.catalog import MODEL_CHOICES
from practicum.policy.staging import POLL_S, Progress, sha256_of, size_of

__all__ = [
    "cached_snapshot",
    "check_snapshot",
    "download_snapshot",
    "fetch_snapshot",
    "is_hub_id",
    "is_on_hub",
    "is_whole_model",
]

HUB_PATIENCE_S = 5.0
"""How long the hub may take to answer before it counts as not reachable."""

WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
"""Weights, config and tokenizer; not the copies in other formats that repositories also hold."""

SUBFOLDERS = ("*/*",)


def is_hub_id(name: str) -> bool:
    """Whether a name has the form of a hub id.

    >>> is_hub_id("Qwen/Qwen2.5-0.5B-Instruct"), is_hub_id("./model"), is_hub_id("tiny")
    (True, False, False)
    """
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name) is not None


def fetch_snapshot(hub_id: str, progress: Progress) -> Path:
    """The folder of a hub model: from the hub's local cache, else from the hub."""
    snapshot = cached_snapshot(hub_id)
    if snapshot is not None:
        return snapshot
    progress("asking the model hub", 0, 0)
    on_hub = is_on_hub(hub_id)
    if on_hub is None:
        raise UserError(
            f"{hub_id!r} is no folder and not in the hub's cache, and the model hub does not "
            "answer; give a folder or a .gguf file, or type: practicum models pull smollm2-135m"
        )
    if not on_hub:
        raise UserError(
            f"the model hub has no {hub_id!r} that you may read; check the name; {MODEL_CHOICES}"
        )
    return download_snapshot(hub_id, progress)


def cached_snapshot(hub_id: str) -> Path | None:
    """The complete copy of a model in the hub's local cache, if there is one; no network."""
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
    """Whether a folder holds a config, a tokenizer and every file of its weights."""
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


def is_on_hub(hub_id: str, patience_s: float = HUB_PATIENCE_S) -> bool | None:
    """Whether the hub has the model; None when it is off, not installed or does not answer in time.

    The question is asked in a thread that may be abandoned, because looking up a host's address
    has no time limit of its own.
    """
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import RepositoryNotFoundError
    except ImportError:
        return None
    answers: list[bool] = []

    def ask() -> None:
        try:
            HfApi().model_info(hub_id, timeout=patience_s)
            answers.append(True)
        except RepositoryNotFoundError:
            answers.append(False)
        except Exception:  # noqa: BLE001 - whatever else goes wrong here means: not reachable
            return

    asking = threading.Thread(target=ask, name="hub-question", daemon=True)
    asking.start()
    asking.join(patience_s)
    return answers[0] if answers else None


def download_snapshot(hub_id: str, progress: Progress) -> Path:
    """Fetch a model into the hub's local cache; a download that was cut short goes on."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars
    except ImportError:
        raise MissingExtra.for_extra("train", "fetching a model from the hub") from None
    disable_progress_bars()
    try:
        with _growth_of(hub_id, progress):
            found = snapshot_download(
                hub_id, allow_patterns=list(WANTED), ignore_patterns=list(SUBFOLDERS)
            )
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
def _growth_of(hub_id: str, progress: Progress) -> Iterator[None]:
    """Tell how much of a model has arrived in the hub's cache while the block runs."""
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
    from huggingface_hub import HfApi

    info = HfApi().model_info(hub_id, files_metadata=True, timeout=HUB_PATIENCE_S)
    return sum(file.size or 0 for file in info.siblings or () if _is_wanted(file.rfilename))


def _is_wanted(path: str) -> bool:
    return "/" not in path and any(fnmatch(path, pattern) for pattern in WANTED)


def check_snapshot(folder: Path, progress: Progress) -> tuple[str, ...]:
    """Compare each weight file of a snapshot with its digest, and return the digests.

    The hub's cache stores a large file under its digest and links to it.
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
