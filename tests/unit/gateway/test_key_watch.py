"""A key file is read again when it has changed; one that cannot be used changes nothing."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.gateway.key_watch import ControlKey, KeySource, KeyWatch


def watched(path: Path) -> tuple[KeyWatch[str], ControlKey, list[str]]:
    key, said = ControlKey(path.read_text()), list[str]()

    def read() -> str:
        try:
            text = path.read_text()
        except OSError as error:
            raise UserError(f"cannot be read ({error})") from None
        if not text:
            raise UserError("is empty")
        return text

    return KeyWatch(KeySource(path=path, read=read), key.take, said.append), key, said


def write_anew(path: Path, text: str) -> None:
    """As editors and `mv` do: another file in its place."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


def write_over(path: Path, text: str) -> None:
    """The same file, its time as it was."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("write", [write_anew, write_over])
def test_a_key_that_was_replaced_is_the_key_at_the_next_look(
    tmp_path: Path, write: Callable[[Path, str], None]
) -> None:
    path = tmp_path / "key"
    path.write_text("one")
    watch, key, said = watched(path)
    watch.look()
    assert not said
    write(path, "two")
    watch.look()
    watch.look()
    assert key.value == "two"
    assert said == [f"{path} was read again; the control key is another one now"]


def test_a_file_that_cannot_be_used_keeps_the_keys_and_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("one")
    watch, key, said = watched(path)
    write_anew(path, "")
    watch.look()
    watch.look()
    path.unlink()
    watch.look()
    watch.look()
    assert key.value == "one"
    assert len(said) == 2
    assert said[0] == "the keys stay as they were: is empty"
    write_anew(path, "two")
    watch.look()
    assert key.value == "two"


async def test_the_signal_reads_it_again_and_says_so_and_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("one")
    watch, key, said = watched(path)
    async with watch.under_way():
        signal.raise_signal(signal.SIGHUP)
        for _ in range(100):
            await asyncio.sleep(0)
    assert said == [f"{path} was read again; nothing has changed"]
    assert key.value == "one"
    said.clear()
    nothing = KeyWatch(None, key.take, said.append)
    async with nothing.under_way():
        signal.raise_signal(signal.SIGHUP)
        for _ in range(100):
            await asyncio.sleep(0)
    assert said == ["there is no key file to read again; the keys stay as they are"]
