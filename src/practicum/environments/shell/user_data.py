"""Tasks from a user's copy of LifelongAgentBench or AgentBench."""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from practicum.core.errors import UserError
from practicum.core.task import Split, Task
from practicum.environments.shell.agent_bench import (
    agent_bench_entries,
    agent_bench_files,
    is_agent_bench,
    read_lines,
)
from practicum.environments.shell.entries import Entry
from practicum.environments.shell.lifelong import is_lifelong, lifelong_entries, read_parquet

__all__ = ["load_tasks", "shuffled"]

EXPECTED = (
    "give a LifelongAgentBench file (entry_dict.json or .parquet), or AgentBench's folder "
    "data/os_interaction or a file in it"
)
AGENT_BENCH = Path("data") / "os_interaction"
"""Where its OS data lies in a checkout of AgentBench."""


def load_tasks(path: Path, env: str, heldout_share: float) -> list[Task]:
    """Every task of a file or folder, in the order of the file.

    Which side of the wall a task is on follows from what it says, so it stays there when entries
    are added, and an entry that is there twice is on one side only.
    """
    entries = list(_entries(path))
    if not entries:
        raise UserError(f"there are no tasks in {path}; {EXPECTED}")
    known: dict[str, Entry] = {}
    for entry in entries:
        if known.setdefault(entry.id, entry) is not entry:
            raise UserError(f"{path} has two entries that are called {entry.id}; take one out")
    return [
        Task(
            id=entry.id,
            env=env,
            split=_split(entry, heldout_share),
            instruction=entry.instruction,
            data=entry.data,
        )
        for entry in entries
    ]


def shuffled(tasks: Sequence[Task], split: Split, seed: int) -> Iterator[Task]:
    """The tasks of one split in an order given by the seed.

    Training tasks come again and again, in another order each time.
    """
    chosen = [task for task in tasks if task.split == split]
    dice = random.Random(f"{split} {seed}")
    while chosen:
        dice.shuffle(chosen)
        yield from chosen
        if split == "heldout":
            return


def _split(entry: Entry, heldout_share: float) -> Split:
    text = json.dumps([entry.instruction, dict(entry.data)], sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return "heldout" if int.from_bytes(digest, "big") / 2**64 < heldout_share else "train"


def _entries(path: Path) -> Iterator[Entry]:
    if not path.exists():
        raise UserError(f"there is no {path}; {EXPECTED}")
    if path.is_dir():
        yield from _folder_entries(path)
    else:
        yield from _file_entries(path)


def _folder_entries(folder: Path) -> Iterator[Entry]:
    for root in (folder, folder / AGENT_BENCH):
        if (root / "data").is_dir() and (root / "scripts").is_dir():
            for file in agent_bench_files(root):
                yield from _file_entries(file)
            return
    files = [p for p in (folder / "entry_dict.json",) if p.is_file()]
    for file in files or sorted(folder.glob("*.parquet")):
        yield from _file_entries(file)


def _file_entries(file: Path) -> Iterator[Entry]:
    rows = _read(file)
    values = list(rows.values()) if isinstance(rows, dict) else rows
    first = values[0] if isinstance(values, list) and values else None
    if isinstance(rows, dict) and is_lifelong(first):
        yield from lifelong_entries(rows, file)
    elif isinstance(rows, list) and is_lifelong(first):
        yield from lifelong_entries({str(at): row for at, row in enumerate(rows)}, file)
    elif is_agent_bench(rows) or is_agent_bench(first):
        yield from agent_bench_entries(rows, file)
    else:
        raise UserError(f"{file} holds entries of neither kind; {EXPECTED}")


def _read(file: Path) -> Any:
    try:
        if file.suffix == ".parquet":
            return read_parquet(file)
        if file.suffix == ".jsonl":
            return read_lines(file)
        return json.loads(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}; {EXPECTED}") from None
    except ValueError as error:
        raise UserError(f"{file} is not valid JSON: {error}; {EXPECTED}") from None
