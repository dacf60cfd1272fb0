import errno
import subprocess
from pathlib import Path

import pytest

from practicum.core.errors import CheckpointError, UserError
from practicum.store.durable import publish_folder, storage_errors, sync_tree, write_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_written_file_holds_the_new_content_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_file(path, b"old")
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["run.json"]


def test_a_full_disk_is_one_sentence_and_the_old_file_stays(small_disk: Path) -> None:
    path = small_disk / "run.json"
    write_file(path, b"old")
    with pytest.raises(UserError, match="the disk is full") as caught:
        write_file(path, bytes(2_000_000))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert names(small_disk) == ["run.json"]


def test_a_disk_that_may_not_be_written_is_one_sentence(small_disk: Path) -> None:
    path = small_disk / "run.json"
    write_file(path, b"old")
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(remount, check=True)
    with pytest.raises(UserError, match=r"Read-only file system; .* runs_dir=DIR"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_refused_permission_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"Permission denied; .* write permission"),
        storage_errors(tmp_path),
    ):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_a_library_that_words_a_full_disk_its_own_way_is_understood(small_disk: Path) -> None:
    def save_badly() -> None:
        try:
            with (small_disk / "big").open("wb", buffering=0) as file:
                while file.write(bytes(4096)) == 4096:
                    pass
        except OSError:
            raise RuntimeError("unexpected position 576") from None

    with pytest.raises(UserError, match="the disk is full"), storage_errors(small_disk):
        save_badly()


def test_the_system_words_for_a_full_disk_are_enough(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the disk is full"), storage_errors(tmp_path):
        raise RuntimeError("I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("error", [ValueError("a bug"), CheckpointError("a sentence")])
def test_other_errors_pass_through_unchanged(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as caught, storage_errors(tmp_path):
        raise error
    assert caught.value is error


def test_a_published_folder_has_its_files_under_its_final_name(tmp_path: Path) -> None:
    staged = tmp_path / ".tmp"
    (staged / "inner").mkdir(parents=True)
    (staged / "inner" / "a").write_text("a")
    publish_folder(staged, tmp_path / "final")
    assert (tmp_path / "final" / "inner" / "a").read_text() == "a"
    assert names(tmp_path) == ["final"]


def test_a_folder_in_the_way_is_displaced(tmp_path: Path) -> None:
    for name, text in (("final", "old"), (".tmp", "new")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(text)
    publish_folder(tmp_path / ".tmp", tmp_path / "final", displaced=tmp_path / ".old")
    assert (tmp_path / "final" / "a").read_text() == "new"
    assert (tmp_path / ".old" / "a").read_text() == "old"


def test_a_folder_in_the_way_is_never_merged_with(tmp_path: Path) -> None:
    for name in ("final", ".tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    with pytest.raises(OSError, match="not empty"):
        publish_folder(tmp_path / ".tmp", tmp_path / "final")
    assert (tmp_path / "final" / "a").read_text() == "final"


def test_syncing_a_tree_that_is_not_there_fails(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        sync_tree(tmp_path)
