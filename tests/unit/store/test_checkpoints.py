import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from practicum.core.checkpoint import Checkpoint
from practicum.core.errors import CheckpointError, UserError
from practicum.store.checkpoints import CheckpointStore, resolve_checkpoint, verify_checkpoint

FILES = (
    "adapter_config.json",
    "adapter_model.safetensors",
    "optimizer.safetensors",
    "rng.json",
    "state.json",
    "training_stats.json",
)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    (tmp_path / "run").mkdir()
    return CheckpointStore(tmp_path / "run")


def writer(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name in FILES:
            (folder / name).write_text(f"{name} of {text}")

    return write


def save(store: CheckpointStore, *steps: int, keep: int = 99, text: str = "") -> list[Checkpoint]:
    return [
        store.save(s, writer(text or f"step {s}"), fingerprint=f"f{s}", keep=keep) for s in steps
    ]


def hidden(store: CheckpointStore) -> list[str]:
    return [path.name for path in store.folder.glob(".*")]


def test_a_run_without_checkpoints_has_no_latest(store: CheckpointStore) -> None:
    assert store.load_latest() == (None, ())
    assert store.recover() == []


def test_a_saved_checkpoint_is_found_with_everything_in_it(store: CheckpointStore) -> None:
    (saved,) = save(store, 5)
    found = store.load_latest()
    assert found == (saved, ())
    assert saved == Checkpoint(path=store.folder / "step_5", step=5, fingerprint="f5")
    assert {path.name for path in saved.path.iterdir()} == {*FILES, "manifest.json"}
    assert store.pointed("latest") == 5
    assert hidden(store) == []


def test_steps_are_compared_as_numbers(store: CheckpointStore) -> None:
    save(store, 9, 10)
    found = store.load_latest()
    assert found.checkpoint is not None
    assert found.checkpoint.step == 10


def test_only_the_newest_are_kept(store: CheckpointStore) -> None:
    save(store, 1, 2, 3, 4, keep=2)
    assert store.steps() == [3, 4]
    assert hidden(store) == []


def test_the_best_and_protected_steps_are_kept_besides(store: CheckpointStore) -> None:
    save(store, 1, 2)
    store.mark_best(1)
    store.save(3, writer("3"), fingerprint="f", keep=1, protect={2})
    assert store.steps() == [1, 2, 3]
    store.mark_best(3)
    save(store, 4, keep=1)
    assert store.steps() == [3, 4]


def test_a_step_that_is_not_there_cannot_be_the_best(store: CheckpointStore) -> None:
    save(store, 1)
    with pytest.raises(CheckpointError, match="step_2 is not there"):
        store.mark_best(2)


def test_saving_a_step_again_replaces_it(store: CheckpointStore) -> None:
    save(store, 1, 2)
    save(store, 2, text="the replay")
    found = store.load_latest()
    assert found.checkpoint is not None
    assert (found.checkpoint.path / FILES[0]).read_text().endswith("the replay")
    assert hidden(store) == []


def test_steps_of_before_a_roll_back_are_not_taken_for_newer_ones(store: CheckpointStore) -> None:
    save(store, 1, 2, 3)
    (store.folder / "step_3" / FILES[1]).unlink()
    (store.folder / "step_2" / FILES[1]).unlink()
    assert store.load_latest().checkpoint == verify_checkpoint(store.folder / "step_1")
    save(store, 2, text="the replay", keep=1)
    assert store.steps() == [2]
    assert store.load_latest().damaged == ()


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "emptied"])
@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_damaged_checkpoint_is_named_and_the_newest_sound_one_used(
    store: CheckpointStore, name: str, damage: str
) -> None:
    first, second = save(store, 1, 2)
    path = second.path / name
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[:-1] if name != "manifest.json" else content[:-3])
    elif damage == "emptied":
        path.write_bytes(b"")
    else:
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    found = store.load_latest()
    assert found.checkpoint == first
    ((damaged_path, reason),) = found.damaged
    assert damaged_path == second.path
    assert str(second.path) in reason
    assert name in reason


def test_when_no_checkpoint_is_sound_the_run_does_not_start_from_nothing(
    store: CheckpointStore,
) -> None:
    for saved in save(store, 1, 2):
        (saved.path / FILES[1]).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"no checkpoint of .* can be used") as caught:
        store.load_latest()
    assert "step_1" in str(caught.value)
    assert "step_2" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_under_another_steps_name_is_damaged(store: CheckpointStore) -> None:
    (saved,) = save(store, 1)
    saved.path.rename(store.folder / "step_7")
    with pytest.raises(CheckpointError, match="its manifest is that of step 1"):
        store.load(7)


def test_a_step_that_is_not_there_says_which_are(store: CheckpointStore) -> None:
    save(store, 5, 10)
    with pytest.raises(CheckpointError, match="has no checkpoint step_7; it has: step_5, step_10"):
        store.load(7)


def test_a_full_disk_is_one_sentence_and_the_previous_checkpoint_stays(small_disk: Path) -> None:
    (small_disk / "run").mkdir()
    store = CheckpointStore(small_disk / "run")
    (first,) = save(store, 1)

    def too_much(folder: Path) -> None:
        (folder / "adapter_model.safetensors").write_bytes(bytes(2_000_000))

    with pytest.raises(UserError, match="step_2 could not be written: the disk is full") as caught:
        store.save(2, too_much, fingerprint="f2", keep=1)
    assert "\n" not in str(caught.value)
    assert store.load_latest() == (first, ())
    assert hidden(store) == []


def test_a_disk_that_fills_up_while_a_step_is_replaced_keeps_the_old_one(small_disk: Path) -> None:
    (small_disk / "run").mkdir()
    store = CheckpointStore(small_disk / "run")
    (first,) = save(store, 1)
    with pytest.raises(UserError, match="the disk is full"):
        store.save(
            1,
            lambda folder: _fill(folder / "adapter_model.safetensors"),
            fingerprint="other",
            keep=1,
        )
    assert store.load_latest() == (first, ())
    assert hidden(store) == []


def _fill(path: Path) -> None:
    path.write_bytes(bytes(2_000_000))


def test_a_refused_permission_is_one_sentence(store: CheckpointStore) -> None:
    def refused(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    with pytest.raises(UserError, match="Permission denied"):
        store.save(1, refused, fingerprint="f", keep=1)
    assert hidden(store) == []


def test_a_bug_in_the_writer_shows_itself_and_leaves_nothing(store: CheckpointStore) -> None:
    (first,) = save(store, 1)

    def broken(folder: Path) -> None:
        (folder / "half").write_text("")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.save(2, broken, fingerprint="f", keep=1)
    assert store.load_latest() == (first, ())
    assert hidden(store) == []


def test_left_over_folders_are_swept(store: CheckpointStore) -> None:
    save(store, 1)
    left_over = [store.folder / ".step_2.tmp-99999", store.folder / ".step_0.gone-1"]
    for path in left_over:
        path.mkdir()
        (path / "half").write_text("")
    assert sorted(store.recover()) == sorted(left_over)
    assert hidden(store) == []
    assert store.steps() == [1]


def test_a_displaced_checkpoint_whose_replacement_never_came_counts_and_is_put_back(
    store: CheckpointStore,
) -> None:
    (saved,) = save(store, 1)
    saved.path.rename(store.folder / ".step_1.old-99999")
    found = store.load_latest()
    assert found.checkpoint is not None
    assert found.checkpoint.step == 1
    assert store.recover() == []
    assert store.load_latest() == (saved, ())


def test_a_pointer_left_behind_by_a_kill_is_moved_on(store: CheckpointStore) -> None:
    save(store, 1, 2)
    (store.folder / "latest").unlink()
    (store.folder / "latest").symlink_to("step_1")
    store.recover()
    assert store.pointed("latest") == 2


def test_latest_and_best_are_links_to_folders_and_a_name_in_a_file_is_read_too(
    store: CheckpointStore,
) -> None:
    save(store, 1, 2)
    store.mark_best(1)
    for pointer, step in (("latest", 2), ("best", 1)):
        assert (store.folder / pointer / "manifest.json").is_file()
        assert resolve_checkpoint(store.folder / pointer, store.run).checkpoint.step == step
    (store.folder / "best").unlink()
    (store.folder / "best").write_text("step_2\n")
    assert store.pointed("best") == 2


def test_a_copy_of_a_run_whose_links_were_followed_goes_on(
    store: CheckpointStore, tmp_path: Path
) -> None:
    save(store, 1, 2)
    store.mark_best(1)
    copied = CheckpointStore(tmp_path / "copy")
    shutil.copytree(store.folder, copied.folder)  # as zip and many copying programs do
    assert [copied.pointed(name) for name in ("latest", "best")] == [2, 1]
    save(copied, 3)
    assert [copied.pointed(name) for name in ("latest", "best")] == [3, 1]


def test_a_displaced_checkpoint_whose_replacement_came_is_swept(store: CheckpointStore) -> None:
    (saved,) = save(store, 1)
    shutil.copytree(saved.path, store.folder / ".step_1.old-99999")
    assert store.load_latest() == (saved, ())
    assert [path.name for path in store.recover()] == [".step_1.old-99999"]


def test_left_overs_of_a_killed_process_with_the_same_pid_are_no_obstacle(
    store: CheckpointStore,
) -> None:
    save(store, 1, 2)
    for why in ("tmp", "old", "gone"):
        path = store.folder / f".step_2.{why}-{os.getpid()}"
        path.mkdir()
        (path / "half").write_text("")
    save(store, 2, text="the replay", keep=1)
    assert store.steps() == [2]
    assert verify_checkpoint(store.folder / "step_2").step == 2


def test_a_pointer_that_names_nothing_is_one_sentence(store: CheckpointStore) -> None:
    save(store, 1)
    (store.folder / "best").write_bytes(b"\xff\x00")
    with pytest.raises(CheckpointError, match="does not name a checkpoint; remove it"):
        store.pointed("best")


def test_something_that_is_no_folder_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a checkpoint folder; name a run"):
        verify_checkpoint(tmp_path / "nowhere")


def test_checkpoints_may_be_called_epochs_and_whoever_reads_them_need_not_know(
    store: CheckpointStore,
) -> None:
    epochs = CheckpointStore(store.run, layout="epoch")
    saved = save(epochs, 1, 2, 3, keep=2)
    assert [checkpoint.path.name for checkpoint in saved] == ["epoch_1", "epoch_2", "epoch_3"]
    assert sorted(p.name for p in store.folder.glob("epoch_*")) == ["epoch_2", "epoch_3"]
    assert (store.folder / "latest").readlink() == Path("epoch_3")
    epochs.mark_best(2)
    assert (store.pointed("latest"), store.pointed("best"), store.steps()) == (3, 2, [2, 3])
    assert store.load(2) == saved[1]
    assert store.load_latest() == (saved[2], ())
    with pytest.raises(CheckpointError, match="it has: epoch_2, epoch_3"):
        store.load(7)


def test_epochs_that_a_kill_left_in_pieces_are_put_right(store: CheckpointStore) -> None:
    epochs = CheckpointStore(store.run, layout="epoch")
    save(epochs, 1, 2)
    (epochs.folder / "epoch_2").rename(epochs.folder / ".epoch_2.old-99999")
    (epochs.folder / ".epoch_3.tmp-99999").mkdir()
    assert [path.name for path in epochs.recover()] == [".epoch_3.tmp-99999"]
    assert epochs.steps() == [1, 2]
    assert verify_checkpoint(epochs.folder / "epoch_2").step == 2
    (saved,) = save(epochs, 2, text="the replay")
    assert (saved.path / FILES[0]).read_text().endswith("the replay")
    assert hidden(epochs) == []


def test_an_epoch_whose_manifest_is_another_s_is_damaged(store: CheckpointStore) -> None:
    (saved,) = save(CheckpointStore(store.run, layout="epoch"), 1)
    saved.path.rename(store.folder / "epoch_7")
    with pytest.raises(CheckpointError, match="its manifest is that of step 1"):
        store.load_latest()


def test_a_run_that_is_not_there_any_more_is_not_begun_anew(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not there any more"):
        CheckpointStore(tmp_path / "gone").save(1, lambda folder: None, fingerprint="f", keep=1)
    assert list(tmp_path.iterdir()) == []
