"""JSON files of any size, item by item: lines, and arrays that are never held whole."""

import codecs
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from practicum.importers.records import Imported, Malformed, Part
from practicum.importers.values import decode_json, whole_characters

__all__ = ["Item", "array_items", "begins_with_array", "parts_of_items", "parts_of_lines"]

CHUNK = 1 << 20
ENDS = " \t\r\n,:]}"
UNFINISHED = 32
"""An error this near to the end of what has been read may only mean that more is to come."""

Convert = Callable[[Any], tuple[Imported, ...]]


class Item(NamedTuple):
    """One item of an array, the line it begins on, and how far the file has been read."""

    value: Any
    line: int
    offset: int


def parts_of_lines(path: Path, skip: int, convert: Convert) -> Iterator[Part]:
    """One part for each line that is not blank; the first `skip` of them are not looked at."""
    offset = number = 0
    with path.open("rb") as file:
        for raw in file:
            number += 1
            offset += len(raw)
            if not raw.strip():
                continue
            if skip:
                skip -= 1
                continue
            yield _part(partial(_convert_line, raw, convert), number, offset)


def parts_of_items(items: Iterator[Item], skip: int, convert: Convert) -> Iterator[Part]:
    """One part for each item, and a last one for what is wrong with the file as a whole."""
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


def begins_with_array(path: Path) -> bool:
    """Whether the file is one JSON array."""
    with path.open("rb") as file:
        return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def array_items(path: Path, key: str = "") -> Iterator[Item]:
    """The items of the array that the file is, or that lies under a key of the object it is."""
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


def _convert_line(raw: bytes, convert: Convert) -> tuple[Imported, ...]:
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
    """Reads JSON values off the front of a file, with no more of it in memory than one needs."""

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
        """The next sign that is no blank, which stays; empty at the end of the file."""
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
        """Go past a sign that must come next."""
        found = self.peek()
        if found != sign:
            what = repr(found) if found else "the end of the file"
            raise Malformed(f"{problem}: {what} is where {sign!r} should be", self.line)
        self._at += 1

    def find_array(self, key: str) -> None:
        """Go to the value of a key of the object that the file is."""
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
        """Go to the end of the file, where nothing may follow the value that it is."""
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
        """The value that begins here."""
        size = CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_all or not self._may_go_on(error):
                    line = self.line + self._text.count("\n", self._at, error.pos)
                    raise Malformed(f"the JSON breaks off ({error.msg})", line) from None
            except RecursionError:
                raise Malformed("its JSON is nested too deep", self.line) from None
            else:
                # A number could go on: 12 of 12.5e3.
                ends_here = self._text[end : end + 1] in ENDS and end < len(self._text)
                if ends_here or self._is_all or end < len(self._text) - UNFINISHED:
                    text = self._text[self._at : end]
                    self.line += text.count("\n")
                    self._at = end
                    return whole_characters(value, text)
            self._more(size)
            size *= 2  # so that a long value is not begun too often

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated") or error.pos > len(self._text) - UNFINISHED

    def _more(self, size: int) -> None:
        raw = self._file.read(size)
        self._is_all = not raw
        self.offset += len(raw)
        try:
            new = self._decode.decode(raw, final=self._is_all)
        except UnicodeDecodeError as error:
            raise Malformed(f"it is not UTF-8 text ({error.reason})", self.line) from None
        self._text = self._text[self._at :] + new
        self._at = 0
