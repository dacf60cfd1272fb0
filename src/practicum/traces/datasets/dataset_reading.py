"""Reading datasets from JSON lines, JSON or Parquet: our own, and others in TRL's columns."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from practicum.core.errors import MissingExtra, UserError
from practicum.core.json_values import MOST_BYTES, TOO_LONG, lines_within
from practicum.core.sample import Example
from practicum.core.trace import Message
from practicum.core.user_code import names_code, returned_rows
from practicum.traces.datasets.examples import MADE_UP, says_made_up
from practicum.traces.datasets.row_format import RowFault, read_messages, read_shown, read_tools

FORMATS = ("jsonl", "json", "parquet")


class Fault(NamedTuple):
    """A row that cannot be used."""

    place: str
    """File and line, or file and row number."""
    reason: str


def read_examples(path: Path, on_fault: Callable[[Fault], None] | None = None) -> Iterator[Example]:
    """The examples of a file, in order; those of one row follow each other.

    Args:
        path: A `.jsonl`, `.json` or `.parquet` file, or `FILE.py:FUNCTION` that returns rows.
        on_fault: Called for each row that cannot be used. Without it the first such row raises.
    """
    for number, row in _rows(path):
        place = f"{path}:{number}" if path.suffix == ".jsonl" else f"{path}, row {number}"
        try:
            if isinstance(row, RowFault):
                raise row
            yield from read_row(row, f"{path.stem}-{number}")
        except RowFault as fault:
            if on_fault is None:
                raise UserError(f"{place}: {fault}; correct it or take it out") from None
            on_fault(Fault(place, str(fault)))


def read_row(row: object, name: str) -> list[Example]:
    """The examples of one row: one, the two sides of a pair, or a group.

    Args:
        row: The decoded row.
        name: Id for a row without one.
    """
    if not isinstance(row, Mapping):
        raise RowFault("it is not an object")
    if "trace" in row or "nodes" in row:
        raise RowFault("it is a trace; bring it into a store with: practicum traces import")
    if "chosen" in row or "rejected" in row:
        return _read_pair(row, name)
    if "completions" in row:
        return _read_group(row, name)
    if "messages" in row:
        return [_read_conversation(row, name)]
    if "completion" in row:
        return [_read_answer(row, name)]
    raise RowFault(
        "it has none of the columns messages, completion, completions, or chosen and rejected"
    )


def _rows(path: Path) -> Iterator[tuple[int, object]]:
    """Rows with their numbers, from 1; an invalid line is given as a `RowFault`."""
    if names_code(str(path)):
        yield from enumerate(returned_rows(str(path), "data"), 1)
        return
    if path.suffix not in {f".{name}" for name in FORMATS}:
        raise UserError(
            f"{str(path)!r} is not a dataset; give a file that ends with "
            f"{', '.join('.' + name for name in FORMATS)}"
        )
    if not path.is_file():
        raise UserError(f"there is no file {str(path)!r}; check its name")
    if path.suffix == ".parquet":
        yield from enumerate(_parquet_rows(path), 1)
    elif path.suffix == ".json":
        yield from enumerate(_json_rows(path), 1)
    else:
        with path.open("rb") as file:
            for number, (line, _) in enumerate(lines_within(file), 1):
                if line is None:
                    yield number, RowFault(TOO_LONG)
                elif line.strip():
                    yield number, _parsed(line.decode("utf-8", errors="replace"))


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return RowFault(f"it is not valid JSON ({error!s:.120})")


def _json_rows(path: Path) -> list[object]:
    if path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path}: {TOO_LONG}; write one row a line and name it .jsonl")
    rows = _parsed(path.read_text(encoding="utf-8", errors="replace"))
    if isinstance(rows, RowFault):
        raise UserError(f"{path}: {rows}; a .json dataset is one list of rows")
    if not isinstance(rows, list):
        raise UserError(f"{path} is not a list of rows; write one row a line and name it .jsonl")
    return rows


def _parquet_rows(path: Path) -> Iterator[object]:
    try:
        from pyarrow import lib, parquet
    except ImportError:
        raise MissingExtra.for_extra("parquet", "reading a Parquet file") from None
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(1000):
                yield from batch.to_pylist()
    except lib.ArrowException as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}; check the file") from None


def _read_conversation(row: Mapping[str, Any], name: str) -> Example:
    messages = read_messages(row["messages"], "messages", "user")
    given = row.get("given")
    if given is not None and not (isinstance(given, int) and 0 <= given <= len(messages)):
        raise RowFault(f"'given' is {given!r}, not a number of messages")
    return _example(row, name, messages, given or 0, read_shown(row["messages"]))


def _read_answer(row: Mapping[str, Any], name: str) -> Example:
    prompt = read_messages(row.get("prompt"), "prompt", "user")
    completion = read_messages(row["completion"], "completion", "assistant")
    shown = [len(prompt) + place for place in read_shown(row["completion"])]
    return _example(row, name, (*prompt, *completion), len(prompt), shown)


def _example(
    row: Mapping[str, Any],
    name: str,
    messages: tuple[Message, ...],
    given: int,
    shown: Sequence[int],
) -> Example:
    label, reward = _truth(row, "label"), _number(row, "reward")
    made_up = says_made_up(row)
    if made_up and label is not True and (label is False or reward is not None):
        raise RowFault(MADE_UP)
    example = Example(
        **_about(row, name),
        messages=messages,
        given=given,
        shown=tuple(shown),
        label=label,
        weight=_weight(row.get("weight")),
        # No policy gave a made-up answer, so its reward must not be compared with others.
        reward=None if made_up else reward,
        **_tokens(row, ""),
    )
    return _normal(example)


def _read_pair(row: Mapping[str, Any], name: str) -> list[Example]:
    if says_made_up(row):
        raise RowFault(MADE_UP)
    sides = {s: read_messages(row.get(s), s, "assistant") for s in ("chosen", "rejected")}
    if row.get("prompt") is not None:
        prompt = read_messages(row["prompt"], "prompt", "user")
    else:
        both = zip(sides["chosen"], sides["rejected"], strict=False)
        prompt = tuple(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], both))
        sides = {side: messages[len(prompt) :] for side, messages in sides.items()}
        if not prompt:
            raise RowFault("it has no 'prompt', and chosen and rejected begin differently")
    if sides["chosen"] == sides["rejected"]:
        raise RowFault("chosen and rejected are the same")
    about = _about(row, name)
    return [
        _normal(
            Example(
                **{**about, "id": str(row.get(f"{side}_id") or f"{about['id']}/{side}")},
                messages=(*prompt, *messages),
                given=len(prompt),
                shown=_shown_after(row[side], messages, len(prompt)),
                pair=about["id"],
                chosen=side == "chosen",
                weight=_weight(row.get("weight")),
                reward=_number(row, f"{side}_reward"),
                **_tokens(row, f"{side}_"),
            )
        )
        for side, messages in sides.items()
    ]


def _read_group(row: Mapping[str, Any], name: str) -> list[Example]:
    if says_made_up(row):
        raise RowFault(MADE_UP)
    prompt = read_messages(row.get("prompt"), "prompt", "user")
    answers, rewards = row["completions"], row.get("rewards")
    if not isinstance(answers, Sequence) or not isinstance(rewards, Sequence):
        raise RowFault("'completions' and 'rewards' are not both lists")
    if len(answers) != len(rewards) or len(answers) < 2:
        raise RowFault(
            f"it has {len(answers)} completions and {len(rewards)} rewards; a group has at least "
            "two of each, and as many of one as of the other"
        )
    for column in MEMBERS:
        values = row.get(column)
        if values is not None and (not isinstance(values, list) or len(values) != len(answers)):
            raise RowFault(f"{column!r} is not a list with an entry for each completion")
    about = _about(row, name)
    return [_read_member(row, about, prompt, place, answer) for place, answer in enumerate(answers)]


def _read_member(
    row: Mapping[str, Any],
    about: Mapping[str, Any],
    prompt: tuple[Message, ...],
    place: int,
    answer: object,
) -> Example:
    """One answer of a group."""
    mine = {name: row[column][place] for column, name in MEMBERS.items() if row.get(column)}
    example = Example(
        **{**about, "id": str(mine.get("id") or f"{about['id']}/{place}")},
        messages=(*prompt, *read_messages(answer, "completions", "assistant")),
        given=len(prompt),
        shown=tuple(len(prompt) + place for place in read_shown(answer)),
        weight=_weight(mine.get("weight")),
        reward=_number(mine, "reward"),
        **_tokens(mine, ""),
    )
    return _normal(example)


MEMBERS = {
    "ids": "id",
    "rewards": "reward",
    "weights": "weight",
    "token_ids": "token_ids",
    "loss_mask": "loss_mask",
    "tokens_of": "tokens_of",
}
"""Columns of a group with an entry per answer, and the name of an entry."""


def _shown_after(column: object, messages: Sequence[Message], begin: int) -> tuple[int, ...]:
    """Indices of messages without loss, where a column's last messages follow a prompt."""
    cut = len(column) - len(messages) if isinstance(column, list) else 0
    return tuple(begin + place - cut for place in read_shown(column) if place >= cut)


def _normal(example: Example) -> Example:
    """The example with `given` counted up to its first turn with loss."""
    if example.opening == len(example.messages):
        raise RowFault("no turn of an assistant is in it to learn from")
    given, messages = example.opening, example.messages
    shown = (i for i in example.shown if i > given and messages[i].role == "assistant")
    return replace(example, given=given, shown=tuple(shown))


def _about(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {
        "id": str(row.get("id") or name),
        "task_id": str(row.get("task_id") or ""),
        "env": str(row.get("env") or ""),
        "tools": read_tools(row.get("tools")),
    }


def _tokens(row: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    ids, mask = row.get(f"{prefix}token_ids") or [], row.get(f"{prefix}loss_mask") or []
    if not isinstance(ids, list) or not isinstance(mask, list) or len(ids) != len(mask):
        raise RowFault(f"'{prefix}token_ids' and '{prefix}loss_mask' are not two lists of a length")
    if not all(isinstance(token, int) for token in [*ids, *mask]):
        raise RowFault(f"'{prefix}token_ids' or '{prefix}loss_mask' has an entry of another kind")
    return {
        "token_ids": tuple(ids),
        "loss_mask": tuple(map(bool, mask)),
        "tokens_of": str(row.get(f"{prefix}tokens_of") or ""),
    }


def _truth(row: Mapping[str, Any], column: str) -> bool | None:
    value = row.get(column)
    if value is not None and (not isinstance(value, bool | int) or value not in (0, 1)):
        raise RowFault(f"{column!r} is {value!r}, not true or false")
    return None if value is None else bool(value)


def _number(row: Mapping[str, Any], column: str) -> float | None:
    value = row.get(column)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RowFault(f"{column!r} is {value!r}, not a number")
    return float(value)


def _weight(value: object) -> float:
    weight = 1.0 if value is None else _number({"weight": value}, "weight")
    if weight is None or weight < 0:
        raise RowFault(f"'weight' is {value!r}, below 0")
    return weight
