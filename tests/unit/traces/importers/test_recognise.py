import json
import random
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import UserError
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.importers.recognise import FORMATS, files_in, find_format, recognise

EXPECTED = {
    "art.jsonl": "art",
    "lifelong_runs.json": "lifelong",
    "openai_chat.jsonl": "openai-chat",
    "openhands_v0.json": "openhands-v0",
    "7c1e2a9b": "openhands-v1",
    "otel.jsonl": "otel",
    "practicum.jsonl": "practicum",
    "toolbox_checkpoint_1.json": "toolbox",
    "toolbox_checkpoint_2.json": "toolbox",
    "toolbox_trace.json": "toolbox",
}


def test_every_example_is_recognised(examples: Path) -> None:
    assert {path.name: recognise(path).name for path in files_in(examples)} == EXPECTED
    assert set(EXPECTED.values()) == set(FORMATS), "there is an example of each format"


def test_what_is_not_known_is_one_sentence_with_the_formats(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"colour": 1, "nested": {"messages": []}}')
    with pytest.raises(
        UserError,
        match=r"is not recognised \(its .* keys colour, nested\).*messages.* --format: op",
    ):
        recognise(path)
    path.write_text("hello")
    with pytest.raises(UserError, match="no JSON object is in it"):
        recognise(path)


def test_a_store_is_not_imported_but_named(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    SqliteTraceStore(path).close()
    with pytest.raises(UserError, match=r"is a trace store itself; .* --store"):
        recognise(path)


def test_unknown_formats_and_empty_places_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'csv' is not known; known are openai-chat, otel"):
        find_format("csv")
    with pytest.raises(UserError, match="does not exist"):
        list(files_in(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="holds nothing to import"):
        list(files_in(tmp_path))


def damaged(value: Any, chance: random.Random) -> Any:
    """A value with one thing in it replaced by something of another kind."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: damaged(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        return [*value[:at], damaged(value[at], chance), *value[at + 1 :]]
    return chance.choice(
        [
            None,
            0,
            -1.5,
            True,
            "",
            "x",
            "\x00",
            [],
            ["x"],
            {},
            {"a": 1},
            [[]],
            1e400,
            10**400,
            -(10**30),
            "\ud800",
            "²",
        ]
    )


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_damaged_files_give_reasons_and_never_a_crash(
    name: str, examples: Path, tmp_path: Path
) -> None:
    chance = random.Random(name)
    source = next(path for path in files_in(examples) if path.name == name)
    format = FORMATS[EXPECTED[name]]
    folder = source.is_dir()
    texts = sorted((source / "events").glob("*")) if folder else [source]
    for turn in range(150):
        target = tmp_path / f"{turn}{source.suffix}"
        if folder:
            (target / "events").mkdir(parents=True)
        for file in texts:
            lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
            values = [json.loads(line) for line in lines if line.strip()]
            at = chance.randrange(len(values))
            if not folder or chance.random() < 0.3:
                values[at] = damaged(values[at], chance)
            written = "\n".join(map(json.dumps, values)) + "\n"
            (target / "events" / file.name if folder else target).write_text(written)
        for part in format.read(target, 0):
            assert part.problem == "" or (part.found == () and "\n" not in part.problem)
