import subprocess
import sys

import pytest

from practicum.engine.planning.machine import is_heap_compact

PROGRAM = """
import ctypes, sys
from practicum.engine.planning.machine import make_heap_compact
if len(sys.argv) > 1:
    assert make_heap_compact()
class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]
libc = ctypes.CDLL(None)
if not hasattr(libc, "mallinfo2"):
    sys.exit("no counts")
libc.mallinfo2.restype, libc.malloc.restype = Counts, ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free(libc.malloc(24 << 20))  # after which the C library keeps pieces of this size
libc.malloc(8 << 20)
print(libc.mallinfo2().d)  # pieces that go straight back when they are freed
"""


@pytest.mark.parametrize(
    ("value", "is_compact"),
    [(None, False), ("65536", True), ("4194304", True), ("33554432", False), ("much", False)],
)
def test_the_environment_says_whether_freed_pieces_are_given_back(
    monkeypatch, value: str | None, is_compact: bool
) -> None:
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    if value is not None:
        monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", value)

    assert is_heap_compact() == is_compact


@pytest.mark.skipif(sys.platform != "linux", reason="counts pieces as glibc does")
def test_a_compact_heap_gives_large_pieces_back_and_an_ordinary_one_keeps_them(monkeypatch) -> None:
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)

    def direct_pieces(*words: str) -> int:
        command = [sys.executable, "-c", PROGRAM, *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if "no counts" in done.stderr:
            pytest.skip("this C library does not count its pieces")
        return int(done.stdout)

    assert direct_pieces("compact") == direct_pieces() + 1


SCATTERED = """
from pathlib import Path
from practicum.engine.planning.machine import give_back_heap
def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20
pieces = [bytes(2000) for _ in range(50_000)]
kept = pieces[::1000]
full = resident_mb()
del pieces
free = resident_mb()
assert give_back_heap()
print(full - free, free - resident_mb())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at memory as Linux tells it")
def test_pages_that_hold_nothing_are_given_back_from_between_kept_pieces() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCATTERED], capture_output=True, text=True, check=True
    )
    by_freeing, by_giving_back = (float(word) for word in done.stdout.split())
    assert by_freeing < 20
    assert by_giving_back > 70


THREADED = """
import ctypes, sys, threading
from pathlib import Path
from practicum.engine.planning.machine import use_one_heap
if len(sys.argv) > 1:
    assert use_one_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def is_on_main_heap():
    at = libc.malloc(5000)
    [line] = [m for m in Path("/proc/self/maps").read_text().splitlines() if m.endswith("[heap]")]
    first, last = (int(word, 16) for word in line.split()[0].split("-"))
    print(first <= at < last)
thread = threading.Thread(target=is_on_main_heap)
thread.start()
thread.join()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at heaps as Linux names them")
def test_one_heap_serves_all_threads() -> None:
    def found(*words: str) -> str:
        command = [sys.executable, "-c", THREADED, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert (found(), found("one")) == ("False", "True")
