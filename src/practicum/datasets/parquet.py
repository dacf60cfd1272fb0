"""Rows in Parquet files that the `datasets` library loads as they are.

Every file of a kind has the same columns whatever is in its rows. What has no fixed form, the
schemas of tools, is JSON inside a string.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from practicum.core.errors import MissingExtra

__all__ = ["write_parquet"]

ROWS_AT_ONCE = 1000


def write_parquet(path: Path, kind: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows of one kind."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra.for_extra("parquet", "writing a Parquet file") from None
    schema = _schema(pyarrow, kind)
    with parquet.ParquetWriter(path, schema) as file:
        left = iter(rows)
        while chunk := list(islice(_flat(left), ROWS_AT_ONCE)):
            file.write_table(pyarrow.Table.from_pylist(chunk, schema=schema))


def _flat(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield {**row, "tools": json.dumps(row["tools"])} if "tools" in row else row


def _schema(pyarrow: Any, kind: str) -> Any:
    """The columns of a kind; see `rows`."""
    text, real, integer = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
    function = pyarrow.struct({"name": text, "arguments": text})
    call = pyarrow.struct({"id": text, "type": text, "function": function})
    message = pyarrow.struct(
        {
            "role": text,
            "content": text,
            "tool_calls": pyarrow.list_(call),
            "tool_call_id": text,
            "reasoning_content": text,
            "is_error": pyarrow.bool_(),
            "weight": integer,
        }
    )
    messages, ids = pyarrow.list_(message), pyarrow.list_(integer)
    tokens = {"token_ids": ids, "loss_mask": pyarrow.list_(pyarrow.bool_()), "tokens_of": text}
    side = {"id": text, "reward": real, **tokens}
    weighed = {"weight": real, "reward": real, **tokens}
    columns: dict[str, dict[str, Any]] = {
        "sft": {"messages": messages, "given": integer, **weighed},
        "kto": {
            "prompt": messages,
            "completion": messages,
            "label": pyarrow.bool_(),
            **weighed,
        },
        "dpo": {
            "prompt": messages,
            "chosen": messages,
            "rejected": messages,
            "weight": real,
            **{f"chosen_{name}": column for name, column in side.items()},
            **{f"rejected_{name}": column for name, column in side.items()},
        },
        "grpo": {
            "prompt": messages,
            "completions": pyarrow.list_(messages),
            **{name: pyarrow.list_(real) for name in ("rewards", "weights")},
            "ids": pyarrow.list_(text),
            **{name: pyarrow.list_(column) for name, column in tokens.items()},
        },
    }
    about = {"id": text, "task_id": text, "env": text, "tools": text}
    return pyarrow.schema({**about, **columns[kind]})
