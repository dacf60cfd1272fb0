"""Reads AgentBench's OS data: a folder with `data` and `scripts` in it, or one of its files.

An entry:

    {"description": "...", "create": {"init": SCRIPT or [SCRIPT, ...]}, "start": SCRIPT,
     "evaluation": {"match": ...} or {"check": [SCRIPT or null, ...], "example": SCRIPT},
     "labels": [...]}

A script is a text for bash, `{"code": ...}` or `{"file": ...}`, the file's path beginning at the
folder of scripts that has the name of the entries' folder: `data/1/stock.json` and `scripts/1`,
`data/dev.json` and `scripts/dev`.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from practicum.core.errors import UserError
from practicum.core.task import JSON
from practicum.environments.shell.entries import Entry, bad_entry, text_of
from practicum.environments.shell.plan import Script, read_script

__all__ = ["agent_bench_entries", "agent_bench_files", "is_agent_bench", "scripts_for"]

HOME = posixpath.join("/", "root")
"""Where its commands start."""


def is_agent_bench(entry: object) -> bool:
    """Whether a JSON value looks like one of its entries."""
    return isinstance(entry, Mapping) and {"description", "evaluation"} <= entry.keys()


def agent_bench_files(folder: Path) -> list[Path]:
    """The files of entries in a folder with `data` and `scripts` in it, in order.

    A file that lies directly in `data` is taken where a folder of scripts has its name.
    """
    data = folder / "data"
    loose = [p for p in data.glob("*.json*") if (folder / "scripts" / p.stem).is_dir()]
    return sorted([*data.glob("*/*.json"), *data.glob("*/*.jsonl"), *loose])


def scripts_for(file: Path) -> Path:
    """The folder that a file's scripts lie in."""
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
            yield _read(f"ab-{group}-{at}", row, scripts)
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise bad_entry(file, str(at), error) from None


def _read(entry_id: str, row: object, scripts: Path) -> Entry:
    if not isinstance(row, Mapping):
        raise TypeError("it is not an object")
    judged = row["evaluation"]
    example = judged.get("example", row.get("example"))
    reference = None if example is None else _script(example, scripts)
    setup = [one.as_json() for one in _setup(row, scripts)]
    return Entry(
        id=entry_id,
        instruction=text_of(row, "description"),
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
    # Two of AgentBench's own entries have a list here, which its loader takes for no set-up.
    init = create.get("init", []) if isinstance(create, Mapping) else []
    for one in init if isinstance(init, list) else [init]:
        yield _script(one, scripts)
    if row.get("start") is not None:
        yield _script(row["start"], scripts)


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
    chain = [None if one is None else _script(one, scripts).as_json() for one in listed]
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


def _script(value: object, scripts: Path) -> Script:
    if isinstance(value, Mapping) and "file" in value:
        path = (scripts / str(value["file"])).resolve()
        if not path.is_relative_to(scripts.resolve()):
            raise ValueError(f"the script {value['file']!r} lies outside {scripts}")
        value = {**value, "code": path.read_text(encoding="utf-8")}
    return read_script(value)


def read_lines(file: Path) -> list[Any]:
    """The values of a file with one JSON value a line."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            found += [json.loads(line)] if line.strip() else []
        except ValueError as error:
            raise UserError(f"{file}, line {number}: not valid JSON: {error}") from None
    return found
