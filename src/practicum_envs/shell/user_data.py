"""Loads tasks from a user's copy of LifelongAgentBench or AgentBench.

A LifelongAgentBench entry has `instruction`, `initialization_command_item` (the set-up),
`evaluation_info` (check and reference) and `skill_list`. An AgentBench entry:

    {"description": "...", "create": {"init": SCRIPT or [SCRIPT, ...]}, "start": SCRIPT,
     "evaluation": {"match": ...} or {"check": [SCRIPT or null, ...], "example": SCRIPT},
     "labels": [...]}

Its scripts are a text for bash, `{"code": ...}` or `{"file": ...}`. The file's path is relative to
`scripts/NAME`, where NAME is the folder of the entries' file or the file's stem: `scripts/1` for
`data/1/stock.json`, `scripts/dev` for `data/dev.json`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.core.errors import MissingExtra, UserError
from practicum.core.json_values import TOO_LONG, lines_within
from practicum.core.task import JSON, Split, Task
from practicum_envs.shell.plan_of_task import Script, read_script


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry; `data` is its plan, see `plan_of_task`."""

    id: str
    instruction: str
    data: Mapping[str, JSON]


EXPECTED = (
    "give a LifelongAgentBench file (entry_dict.json or .parquet), or AgentBench's folder "
    "data/os_interaction or a file in it"
)
AGENT_BENCH = Path("data") / "os_interaction"
"""Folder of the OS tasks in a checkout of AgentBench."""


def load_tasks(path: Path, env: str, heldout_share: float) -> list[Task]:
    """Every task of a file or folder, in the order of the file.

    A task's split follows from a hash of its content: it does not change when entries are added,
    and duplicate entries are in the same split.
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


def read_lines(file: Path) -> list[Any]:
    """The values of a JSON Lines file."""
    found = []
    with file.open("rb") as lines:
        for number, (line, _) in enumerate(lines_within(lines), 1):
            if line is None:
                raise UserError(f"{file}, line {number}: {TOO_LONG}; make it shorter")
            try:
                found += [json.loads(line)] if line.strip() else []
            except (ValueError, RecursionError) as error:
                raise UserError(f"{file}, line {number}: not valid JSON: {error}") from None
    return found


def required_text(row: Mapping[str, Any], key: str) -> str:
    """The non-empty text under a key."""
    value = row[key]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"its {key!r} is no text")
    return value


def bad_entry(file: Path, key: str, error: Exception) -> UserError:
    """The error for an entry that cannot be used."""
    why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return UserError(f"{file}, entry {key}: {why}; mend the entry or take it out of the file")


def is_lifelong(entry: object) -> bool:
    """Whether a JSON value looks like a LifelongAgentBench entry."""
    return isinstance(entry, Mapping) and "initialization_command_item" in entry


def lifelong_entries(rows: Mapping[str, Any], file: Path) -> list[Entry]:
    """The entries of a file, by their key."""
    return [_entry(key, row, file) for key, row in rows.items()]


def read_parquet(file: Path) -> dict[str, Any]:
    """The rows of a Parquet file by their sample index."""
    try:
        from pyarrow import lib, parquet
    except ImportError:
        raise MissingExtra.for_extra("parquet", f"reading {file}") from None
    try:
        rows: Iterable[dict[str, Any]] = parquet.read_table(file).to_pylist()
    except (OSError, lib.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{file} is not a Parquet file that can be read: {reason}") from None
    return {str(row.get("sample_index", at)): row for at, row in enumerate(rows)}


def _entry(key: str, row: object, file: Path) -> Entry:
    try:
        return _read_lifelong(key, row)
    except (KeyError, TypeError, ValueError) as error:
        raise bad_entry(file, key, error) from None


def _read_lifelong(key: str, row: object) -> Entry:
    if not isinstance(row, Mapping):
        raise TypeError("it is not an object")
    judged = _nested(row["evaluation_info"])
    check = _lifelong_script(judged["evaluation_command_item"])
    skills = _nested_list(row.get("skill_list", []))
    return Entry(
        id=f"lab-{key}",
        instruction=required_text(row, "instruction"),
        data={
            "source": "lifelong",
            "setup": _lifelong_script(row["initialization_command_item"]).as_json(),
            "reference": _lifelong_script(judged["ground_truth_command_item"]).as_json(),
            "check": {"kind": "script", "script": check.as_json()},
            "skills": skills,
        },
    )


def _lifelong_script(item: object) -> Script:
    values = _nested(item)
    return read_script({"language": values["command_name"], "code": values["script"]})


def _nested(value: object) -> Mapping[str, Any]:
    """A nested object; Parquet files may hold it as JSON text."""
    read = json.loads(value) if isinstance(value, str) else value
    if not isinstance(read, Mapping):
        raise TypeError(f"{type(read).__name__} stands where an object is expected")
    return read


def _nested_list(value: object) -> list[JSON]:
    read = json.loads(value) if isinstance(value, str) else value
    if not isinstance(read, list):
        raise TypeError("skill_list is not a list")
    return [str(one) for one in read]


HOME = "/root"
"""Working folder of AgentBench's commands."""


def is_agent_bench(entry: object) -> bool:
    """Whether a JSON value looks like an AgentBench entry."""
    return isinstance(entry, Mapping) and {"description", "evaluation"} <= entry.keys()


def agent_bench_files(folder: Path) -> list[Path]:
    """The files of entries in a folder with `data` and `scripts` in it, sorted.

    A file directly in `data` counts only if `scripts` has a folder of its name.
    """
    data = folder / "data"
    loose = [p for p in data.glob("*.json*") if (folder / "scripts" / p.stem).is_dir()]
    return sorted([*data.glob("*/*.json"), *data.glob("*/*.jsonl"), *loose])


def scripts_for(file: Path) -> Path:
    """The folder with the scripts of a file of entries."""
    for above in (file.parent.parent, file.parent):
        root = above.parent / "scripts" if above.name == "data" else above / "scripts"
        for name in (file.parent.name, file.stem):
            if (root / name).is_dir():
                return root / name
    return file.parent


def agent_bench_entries(rows: object, file: Path) -> Iterator[Entry]:
    """The entries of a file, numbered from 0."""
    listed = rows if isinstance(rows, list) else [rows]
    scripts = scripts_for(file)
    group = f"{file.parent.name}-{file.stem}" if file.parent.name != "data" else file.stem
    for at, row in enumerate(listed):
        try:
            yield _read_agent_bench(f"ab-{group}-{at}", row, scripts)
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise bad_entry(file, str(at), error) from None


def _read_agent_bench(entry_id: str, row: object, scripts: Path) -> Entry:
    if not isinstance(row, Mapping):
        raise TypeError("it is not an object")
    judged = row["evaluation"]
    example = judged.get("example", row.get("example"))
    reference = None if example is None else _agent_bench_script(example, scripts)
    setup = [one.as_json() for one in _setup(row, scripts)]
    return Entry(
        id=entry_id,
        instruction=required_text(row, "description"),
        data={
            "source": "agent_bench",
            "setup": setup,
            "reference": None if reference is None else reference.as_json(),
            "check": _check(judged, reference, scripts),
            "skills": [str(label) for label in row.get("labels", [])],
            "cwd": HOME,
        },
    )


def _setup(row: Mapping[str, Any], scripts: Path) -> Iterator[Script]:
    create = row.get("create")
    # Two of AgentBench's own entries have a list here, which its loader takes as no set-up.
    init = create.get("init", []) if isinstance(create, Mapping) else []
    for one in init if isinstance(init, list) else [init]:
        yield _agent_bench_script(one, scripts)
    if row.get("start") is not None:
        yield _agent_bench_script(row["start"], scripts)


def _check(judged: Mapping[str, Any], reference: Script | None, scripts: Path) -> dict[str, JSON]:
    if "match" in judged:
        return {"kind": "match", **_match(judged["match"])}
    if "check" not in judged:
        raise ValueError("its evaluation has neither match nor check")
    listed = judged["check"] if isinstance(judged["check"], list) else [judged["check"]]
    if not listed:
        raise ValueError("its list of checks is empty")
    if None in listed and reference is None:
        raise ValueError("a check is null, which stands for the example, and there is no example")
    chain = [None if one is None else _agent_bench_script(one, scripts).as_json() for one in listed]
    return {"kind": "chain", "scripts": chain}


def _match(match: object) -> dict[str, JSON]:
    if isinstance(match, str):
        return {"answer": match, "strip": True}
    if not isinstance(match, Mapping) or not {"answer", "regex"} & match.keys():
        raise ValueError("its match is neither a text nor an object with answer or regex")
    if "answer" not in match:
        try:
            re.compile(match["regex"])
        except re.error as error:
            raise ValueError(f"{match['regex']!r} is not a pattern: {error}") from None
    return {key: match[key] for key in ("answer", "regex", "strip") if key in match}


def _agent_bench_script(value: object, scripts: Path) -> Script:
    if isinstance(value, Mapping) and "file" in value:
        path = (scripts / str(value["file"])).resolve()
        if not path.is_relative_to(scripts.resolve()):  # the data must not read the host's files
            raise ValueError(f"the script {value['file']!r} lies outside {scripts}")
        value = {**value, "code": path.read_text(encoding="utf-8")}
    return read_script(value)
