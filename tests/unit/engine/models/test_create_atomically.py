import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.engine.models.download import create_atomically, require_space, sha256_of, size_of


def test_a_folder_appears_whole_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "model"
    with create_atomically(target) as partial:
        assert partial is not None
        (partial / "weights").write_bytes(b"w")
        assert not target.exists()
    assert (target / "weights").read_bytes() == b"w"
    assert [p.name for p in target.parent.iterdir() if p.is_dir()] == ["model"]


def fail_half_way(target: Path) -> None:
    with create_atomically(target) as partial:
        assert partial is not None
        (partial / "weights").write_bytes(b"half")
        raise RuntimeError("stop")


def test_an_error_leaves_neither_the_folder_nor_a_part_of_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"):
        fail_half_way(tmp_path / "model")
    assert not [p for p in tmp_path.iterdir() if p.is_dir()]


def test_a_folder_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "weights").write_bytes(b"first")
    with create_atomically(target) as partial:
        assert partial is None
    assert (target / "weights").read_bytes() == b"first"


KILLED_HALF_WAY = """
import os, signal, sys
from pathlib import Path
from practicum.engine.models.download import create_atomically
with create_atomically(Path(sys.argv[1])) as partial:
    (partial / "weights").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_not_taken_for_a_model(tmp_path: Path) -> None:
    target = tmp_path / "model"
    killed = subprocess.run([sys.executable, "-c", KILLED_HALF_WAY, str(target)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    with create_atomically(target) as partial:
        assert partial is not None
        assert os.listdir(partial) == []
        (partial / "weights").write_bytes(b"whole")
    assert (target / "weights").read_bytes() == b"whole"
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == ["model"]


def test_only_one_of_two_makers_at_once_makes_the_folder(tmp_path: Path) -> None:
    target = tmp_path / "model"
    first_is_in, second_done = threading.Event(), threading.Event()
    given: list[Path | None] = []

    def second() -> None:
        first_is_in.wait(120)
        with create_atomically(target) as partial:
            given.append(partial)
        second_done.set()

    other = threading.Thread(target=second)
    other.start()
    with create_atomically(target) as partial:
        assert partial is not None
        first_is_in.set()
        # It waits for the lock for as long as this block lasts.
        assert not second_done.wait(0.2)
        (partial / "weights").write_bytes(b"w")
    other.join(120)
    assert given == [None]


def test_too_little_space_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    require_space(tmp_path, 1, "a small model")
    with pytest.raises(UserError, match=r"a huge model needs \d+ MiB.*PRACTICUM_CACHE"):
        require_space(tmp_path, 10**18, "a huge model")


def test_the_digest_is_the_files_and_progress_reaches_its_size(tmp_path: Path) -> None:
    content = os.urandom(9_000_000)
    file = tmp_path / "data.bin"
    file.write_bytes(content)
    seen: list[tuple[str, int, int]] = []
    digest = sha256_of(file, lambda stage, done, total: seen.append((stage, done, total)))
    assert digest == hashlib.sha256(content).hexdigest()
    assert seen[-1] == ("checking data.bin", 9_000_000, 9_000_000)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_the_size_of_a_folder_counts_files_at_every_depth(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"123")
    (tmp_path / "y").write_bytes(b"4567")
    assert size_of(tmp_path) == 7
    assert size_of(tmp_path / "missing") == 0
