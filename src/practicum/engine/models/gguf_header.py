"""Reads what a .gguf file says of itself: its metadata, and the names and shapes of its tensors.

Only the beginning of the file is looked at, and no package is needed, so that a model can be
planned for before anything is installed or converted.
"""

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from practicum.core.errors import UserError
from practicum.engine.models.model_limits import check_sizes_of_model

MAGIC = b"GGUF"
TEXT, ARRAY = 8, 9
NUMBERS = {
    **{0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"},
    **{10: "<Q", 11: "<q", 12: "<d"},
}
"""How values of each type of the format are packed."""

MOST_DIMENSIONS = 4
MOST_ENTRIES = 1 << 22
"""Entries, tensors and texts of one array, of which real files have some hundred thousand: a number
that somebody made up must not keep a reader busy."""

Value = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What stands before the weights."""

    metadata: dict[str, Value]
    """Texts and numbers by their keys; of an array its length."""
    tensors: dict[str, tuple[int, ...]]
    """Shapes, the innermost dimension first."""

    @property
    def elements(self) -> int:
        """Numbers in all tensors."""
        return sum(math.prod(shape) for shape in self.tensors.values())

    def of_model(self, key: str) -> Value | None:
        """A value that the architecture's own name stands before, as in `qwen2.block_count`."""
        return self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}")


def read_gguf_header(file: Path) -> GgufHeader:
    """The header of a .gguf file; `UserError` if it is none, ends too early, or is of no model."""
    try:
        with (
            file.open("rb") as handle,
            mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            header = _Walk(data).header()
    except (ValueError, struct.error, OverflowError) as error:
        raise UserError(
            f"{file.name!r} is not a sound .gguf file ({error}); fetch it again"
        ) from error
    numbers = [(key, value) for key, value in header.metadata.items() if not isinstance(value, str)]
    check_sizes_of_model(numbers, file.name)
    return header


class _Walk:
    """A position in the file, which moves behind what is read."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def header(self) -> GgufHeader:
        if self._data[:4] != MAGIC:
            raise ValueError("it does not begin with GGUF")
        self._at = 8  # behind the version too
        tensors, entries = self._count(), self._count()
        metadata = {self._text(): self._value() for _ in range(entries)}
        shapes = dict(self._tensor() for _ in range(tensors))
        return GgufHeader(metadata=metadata, tensors=shapes)

    def _number(self, form: str) -> int | float | bool:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return value

    def _count(self) -> int:
        count = int(self._number("<Q"))
        if count > MOST_ENTRIES:
            raise ValueError(f"it says that it has {count} entries")
        return count

    def _text(self) -> str:
        length = int(self._number("<Q"))
        if length > len(self._data) - self._at:
            raise ValueError("it ends within a text")
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def _value(self) -> Value:
        kind = int(self._number("<I"))
        if kind == TEXT:
            return self._text()
        if kind == ARRAY:
            return self._skip_array()
        if kind not in NUMBERS:
            raise ValueError(f"it has a value of the unknown type {kind}")
        return self._number(NUMBERS[kind])

    def _skip_array(self) -> int:
        kind, length = int(self._number("<I")), self._count()
        if kind in NUMBERS:
            self._at += length * struct.calcsize(NUMBERS[kind])
        elif kind == TEXT:
            for _ in range(length):
                size = int(self._number("<Q"))
                self._at += size
        else:
            raise ValueError(f"it has an array of values of type {kind}")
        return length

    def _tensor(self) -> tuple[str, tuple[int, ...]]:
        name, dimensions = self._text(), int(self._number("<I"))
        if dimensions > MOST_DIMENSIONS:
            raise ValueError(f"its tensor {name!r} has {dimensions} dimensions")
        shape = tuple(int(self._number("<Q")) for _ in range(dimensions))
        self._at += 12  # its type and its place
        return name, shape
