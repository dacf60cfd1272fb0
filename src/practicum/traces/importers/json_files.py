"""Streaming JSON lines and JSON arrays of any size, one record in memory at a time."""

import codecs
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from practicum.core.json_values import MOST_BYTES, TOO_LONG, lines_within
from practicum.traces.importers.lenient_json import decode_json, whole_characters
from practicum.traces.importers.records import Imported, Malformed, Part

CHUNK = 1 << 20
ENDS = " \t\r\n,:]}"
UNFINISHED = 32
"""An error within so many characters of the buffer's end may mean that more must be read."""

Convert = Callable[[Any], tuple[Imported, ...]]


class Item(NamedTuple):
    """An array item, the line it starts on, and the bytes of the file read so far."""

    value: Any
    line: int
    offset: int


def parts_of_lines(path: Path, skip: int, convert: Convert) -> Iterator[Part]:
    """One part per line that is not blank, after the first `skip`."""
    offset = number = 0
    with path.open("rb") as file:
        for raw, length in lines_within(file):
            number += 1
            offset += length
            if raw is not None and not raw.strip():
                continue
            if skip:
                skip -= 1
                continue
            yield _part(partial(_convert_line, raw, convert), number, offset)


def parts_of_items(items: Iterator[Item], skip: int, convert: Convert) -> Iterator[Part]:
    """One part per item, and a last one for an error of the file itself."""
    line = offset = 0
    while True:
        try:
            item = next(items, None)
        except Malformed as error:
            if not skip:
                yield Part(line=error.line or line, offset=offset, problem=str(error))
            return
        if item is None:
            return
        line, offset = item.line, item.offset
        if skip:
            skip -= 1
            continue
        yield _part(partial(convert, item.value), line, offset)


def parts_of_rows(path: Path, skip: int, convert: Convert) -> Iterator[Part]:
    """One part per line, or per item if the file is one array."""
    if begins_with_array(path):
        return parts_of_items(array_items(path), skip, convert)
    return parts_of_lines(path, skip, convert)


def begins_with_array(path: Path) -> bool:
    """Whether the file is one JSON array."""
    with path.open("rb") as file:
        return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def array_items(path: Path, key: str = "") -> Iterator[Item]:
    """The items of a file that is an array, or of the array under `key` if it is an object."""
    with path.open("rb") as file:
        reader = _Reader(file)
        if key:
            reader.find_array(key)
        reader.take("[", "the file is not a JSON array")
        is_first = True
        while reader.peek() != "]":
            if not is_first:
                reader.take(",", "two items are not parted by a comma")
                reader.peek()
            is_first = False
            line = reader.line
            yield Item(reader.value(), line, reader.offset)
        reader.take("]", "")
        reader.finish(is_object=bool(key))


def whole_text(path: Path) -> str:
    """The text of a file that is one record."""
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise Malformed(TOO_LONG)
    return raw.decode("utf-8")


def _convert_line(raw: bytes | None, convert: Convert) -> tuple[Imported, ...]:
    if raw is None:
        raise Malformed(TOO_LONG)
    return convert(decode_json(_text(raw)))


def _part(convert: Callable[[], tuple[Imported, ...]], line: int, offset: int) -> Part:
    try:
        return Part(line=line, offset=offset, found=convert())
    except Malformed as error:
        return Part(line=line, offset=offset, problem=str(error))


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Malformed(f"it is not UTF-8 text ({error.reason})") from None


class _Reader:
    """An incremental JSON parser that keeps only the current value in memory."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._decoder = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._is_all = False
        self.line = 1
        self.offset = 0

    def peek(self) -> str:
        """The next character after whitespace, not consumed; empty at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self.line += self._text[self._at] == "\n"
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._is_all:
                return ""
            self._more(CHUNK)

    def take(self, sign: str, problem: str) -> None:
        """Consume a character that must come next."""
        found = self.peek()
        if found != sign:
            what = repr(found) if found else "the end of the file"
            raise Malformed(f"{problem}: {what} is where {sign!r} should be", self.line)
        self._at += 1

    def find_array(self, key: str) -> None:
        """Advance to the value of a key of the top-level object."""
        self.take("{", "the file is not a JSON object")
        while True:
            self.peek()
            name = self.value()
            self.take(":", "a key has no value")
            self.peek()
            if name == key:
                return
            self.value()
            if self.peek() == "}":
                raise Malformed(f"the object has no key {key!r}", self.line)
            self.take(",", "two keys are not parted by a comma")

    def finish(self, is_object: bool) -> None:
        """Check that nothing follows the top-level value."""
        while is_object and self.peek() == ",":
            self._at += 1
            self.peek()
            self.value()
            self.take(":", "a key has no value")
            self.peek()
            self.value()
        if is_object:
            self.take("}", "the object is not closed")
        if self.peek():
            raise Malformed("something follows the JSON value that the file is", self.line)

    def value(self) -> Any:
        """Parse the value that starts here."""
        size = CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_all or not self._may_be_incomplete(error):
                    line = self.line + self._text.count("\n", self._at, error.pos)
                    raise Malformed(f"the JSON breaks off ({error.msg})", line) from None
            except RecursionError:
                raise Malformed("its JSON is nested too deep", self.line) from None
            else:
                # At the buffer's end a number may be incomplete: 12 of 12.5e3.
                ends_here = self._text[end : end + 1] in ENDS and end < len(self._text)
                if ends_here or self._is_all or end < len(self._text) - UNFINISHED:
                    text = self._text[self._at : end]
                    self.line += text.count("\n")
                    self._at = end
                    return whole_characters(value, text)
            self._more(size)
            size *= 2  # parsing starts again each time: keep the total cost linear

    def _may_be_incomplete(self, error: json.JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated") or error.pos > len(self._text) - UNFINISHED

    def _more(self, size: int) -> None:
        if len(self._text) - self._at > MOST_BYTES:
            raise Malformed(TOO_LONG, self.line)
        raw = self._file.read(size)
        self._is_all = not raw
        self.offset += len(raw)
        try:
            new = self._decode.decode(raw, final=self._is_all)
        except UnicodeDecodeError as error:
            raise Malformed(f"it is not UTF-8 text ({error.reason})", self.line) from None
        self._text = self._text[self._at :] + new
        self._at = 0
