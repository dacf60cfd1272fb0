"""Versions of served models: copies, one atomic link, a history, and going back."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from tests.unit.store.crash_scenario import in_a_fork

from practicum.core.config.run_config import RunConfig
from practicum.core.errors import CheckpointError, RunBusy, UserError
from practicum.store import durable, served_versions
from practicum.store.checkpoints import CheckpointStore, resolve_checkpoint
from practicum.store.run_dir import RunDir, hold_lock
from practicum.store.served_versions import (
    Change,
    ServedVersions,
    find_served,
    list_served,
)

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path, config: RunConfig) -> MakeRun:
    """A run with one checkpoint, whose adapter has these bytes."""

    def make(name: str, weights: bytes = b"weights") -> Path:
        run = RunDir.create(tmp_path / "runs", config, name=name)

        def write(folder: Path) -> None:
            (folder / "adapter_model.safetensors").write_bytes(weights)
            (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "tiny"}')
            (folder / "optimizer.safetensors").write_bytes(bytes(1000))

        CheckpointStore(run.path).save(3, write, fingerprint="base+a", keep=1)
        return run.path

    return make


@pytest.fixture
def served(tmp_path: Path) -> ServedVersions:
    return ServedVersions(tmp_path / "served" / "math")


def weights(served: ServedVersions) -> bytes:
    """What a server that follows the link reads."""
    return (served.path / "current" / "adapter_model.safetensors").read_bytes()


def test_what_is_published_is_copied_verified_and_served(
    served: ServedVersions, make_run: MakeRun
) -> None:
    run = make_run("a", b"first")
    version = served.publish(run)
    shutil.rmtree(run)
    assert os.readlink(served.path / "current") == "versions/0001"
    assert weights(served) == b"first"
    assert (version.version, version.base, version.fingerprint) == ("0001", "tiny", "base+a")
    assert version.sha256 == sha256(b"first").hexdigest()
    assert served.current == version
    kept = sorted(path.name for path in version.path.iterdir())
    assert kept == ["adapter_config.json", "adapter_model.safetensors", *kept[2:]]
    assert kept[2:] == ["config.yaml", "manifest.json"]  # no optimizer: it is not served


@pytest.mark.parametrize("place", ["notes.txt", "notes.txt/shop"])
def test_a_file_is_no_folder_of_versions(place: str, make_run: MakeRun, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is a file or lies in one; give a name or a folder"):
        ServedVersions(tmp_path / place).publish(make_run("a", b"first"))
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_version_is_a_checkpoint_for_every_other_command(
    served: ServedVersions, make_run: MakeRun, tmp_path: Path
) -> None:
    served.publish(make_run("a"))
    found = resolve_checkpoint(served.path / "current", tmp_path / "runs")
    assert found.checkpoint.fingerprint == "base+a"


def test_a_bare_adapter_can_be_published(served: ServedVersions, tmp_path: Path) -> None:
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_model.safetensors").write_bytes(b"bare")
    (tmp_path / "adapter" / "adapter_config.json").write_text('{"base_model_name_or_path": "tiny"}')
    served.publish(tmp_path / "adapter")
    assert served.current.config_path is None


def test_who_publishes_may_look_at_the_adapter_and_say_what_it_is(
    make_run: MakeRun, tmp_path: Path
) -> None:
    asked: list[tuple[str, str]] = []

    def identify(folder: Path, told: str) -> str:
        asked.append((folder.name, told))
        if told == "base+b":
            raise CheckpointError("it is another one")
        return told + ".settings"

    served = find_served(tmp_path / "served" / "math", identify, must_exist=False)
    assert served.publish(make_run("a")).fingerprint == "base+a.settings"
    lineage = {"lineage": {"fingerprint": "base+b"}}
    exported = shutil.copytree(served.current.path, tmp_path / "exported")
    (exported / "manifest.json").unlink()
    (exported / "export_results.json").write_text(json.dumps(lineage))
    with pytest.raises(CheckpointError, match="another one"):
        served.publish(exported)
    assert asked == [("step_3", "base+a"), ("exported", "base+b")]
    assert served.versions() == ["0001"]


def test_going_back_restores_the_same_bytes_and_a_second_time_goes_further(
    served: ServedVersions, make_run: MakeRun
) -> None:
    for name in ("a", "b", "c"):
        served.publish(make_run(name, name.encode()))
    assert served.rollback("it was worse").version == "0002"
    assert weights(served) == b"b"
    assert served.rollback().version == "0001"
    assert weights(served) == b"a"
    with pytest.raises(UserError, match="no version before the current one; the versions are 0001"):
        served.rollback()
    assert served.promote("3", "after all").version == "0003"
    assert weights(served) == b"c"
    assert served.rollback().version == "0001"
    told = [(row["action"], row["from"], row["version"]) for row in served.history()]
    assert told == [
        ("publish", None, "0001"),
        ("publish", "0001", "0002"),
        ("publish", "0002", "0003"),
        ("rollback", "0003", "0002"),
        ("rollback", "0002", "0001"),
        ("promote", "0001", "0003"),
        ("rollback", "0003", "0001"),
    ]
    assert served.history()[3]["why"] == "it was worse"


def test_the_history_keeps_the_evidence(served: ServedVersions, make_run: MakeRun) -> None:
    served.publish(make_run("a"), change=Change("promote", "better", {"difference": 0.2}))
    (row,) = served.history()
    assert row["evidence"] == {"difference": 0.2}
    assert row["fingerprint"] == "base+a"
    assert row["sha256"] == served.current.sha256


def test_what_waits_is_served_only_when_a_person_says_so(
    served: ServedVersions, make_run: MakeRun
) -> None:
    served.publish(make_run("a", b"old"))
    wait = Change("wait", "better", {"difference": 0.2})
    for name in ("b", "c"):
        served.publish(make_run(name, b"new"), change=wait, instead_of=served.current)
    assert weights(served) == b"old"
    assert [row["action"] for row in served.history()] == ["publish"]
    first, second = served.waiting()
    assert (first.version, first.instead_of, first.why) == ("0002", "0001", "better")
    assert first.evidence == {"difference": 0.2}
    served.refuse("3", "it lies")
    assert [one.version for one in served.waiting()] == ["0002"]
    with pytest.raises(UserError, match=r"version 0003 .* does not wait .* those that do: 0002"):
        served.refuse("0003")
    served.promote("0002", "ann looked at it")
    assert weights(served) == b"new"
    assert served.waiting() == []
    row = served.history()[-1]
    assert (row["action"], row["why"]) == ("promote", "ann looked at it; better")
    assert row["evidence"] == {"difference": 0.2}
    # What was refused was never served, so going back does not lead there.
    assert served.rollback().version == "0001"
    assert second.version in served.versions()


def test_a_damaged_proposal_is_one_sentence(served: ServedVersions, make_run: MakeRun) -> None:
    served.publish(make_run("a"))
    served.publish(make_run("b"), change=Change("wait"))
    (served.path / "versions/0002/proposal.json").write_text("{")
    with pytest.raises(UserError, match=r"proposal.json cannot be read .* put back a copy"):
        served.waiting()


def kill_points() -> list[str]:
    """Every durable step of publishing."""
    steps = ("file.stage", "file.rename", "folder.rename")
    return [f"{step}.{side}" for step in steps for side in ("before", "after")]


@pytest.mark.parametrize("point", kill_points())
def test_a_kill_while_a_version_is_proposed_leaves_it_waiting_or_not_there(
    point: str, served: ServedVersions, make_run: MakeRun
) -> None:
    served.publish(make_run("a", b"old"))
    run, reached, wait = make_run("b", b"new"), 0, Change("wait", "better")

    def propose() -> None:
        durable.arm(f"{point}:{reached + 1}")
        served.publish(run, change=wait)

    while in_a_fork(propose) == signal.SIGKILL:
        reached += 1
        assert weights(served) == b"old"
        assert [one.version for one in served.waiting()] == served.versions()[1:]
        assert len(served.history()) == 1
    assert reached >= 1
    served.publish(run, change=wait)  # what was left behind is in nobody's way
    assert not list((served.path / "versions").glob(".*"))


@pytest.mark.parametrize("point", kill_points())
def test_a_kill_at_any_moment_leaves_the_old_version_or_the_new_one(
    point: str, served: ServedVersions, make_run: MakeRun, tmp_path: Path
) -> None:
    served.publish(make_run("a", b"old"))
    new, reached = make_run("b", b"new"), 0
    whole = tmp_path / "whole"
    served.path.rename(whole)
    while True:
        shutil.rmtree(served.path, ignore_errors=True)
        shutil.copytree(whole, served.path, symlinks=True)

        def publish(nth: int = reached + 1) -> None:
            durable.arm(f"{point}:{nth}")
            served.publish(new)

        if in_a_fork(publish) != signal.SIGKILL:
            break
        reached += 1
        seen = weights(served)
        assert seen in (b"old", b"new")
        assert served.history()[-1]["version"] == served.current.version
        assert len(served.history()) == (2 if seen == b"new" else 1)
        served.publish(new)  # what was left behind is in nobody's way
        assert weights(served) == b"new"
        assert served.history()[-1]["version"] == served.current.version
        assert not list((served.path / "versions").glob(".*"))
        assert served.rollback().version == ("0002" if seen == b"new" else "0001")
    assert reached >= 1


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda path: (path / "current").unlink(), "serves no version yet; type: practicum served"),
        (
            lambda path: shutil.rmtree(path / "versions" / "0002"),
            "points to version 0002, which is not there; the versions are 0001; type",
        ),
        (
            lambda path: (path / "versions/0002/adapter_model.safetensors").write_bytes(b"x"),
            "0002 is damaged: .* has 1 bytes where .* practicum served rollback math",
        ),
        (
            lambda path: ((path / "current").unlink(), (path / "current").mkdir()),
            "current is not a link; move it away",
        ),
    ],
    ids=["no link", "broken link", "damaged version", "no link but a folder"],
)
def test_what_cannot_be_served_is_one_sentence(
    break_it: Callable[[Path], object],
    sentence: str,
    served: ServedVersions,
    make_run: MakeRun,
) -> None:
    served.publish(make_run("a"))
    served.publish(make_run("b"))
    break_it(served.path)
    with pytest.raises(UserError, match=sentence) as caught:
        _ = served.current
    assert "\n" not in str(caught.value)


def test_a_link_to_a_version_that_is_gone_can_be_rolled_back(
    served: ServedVersions, make_run: MakeRun
) -> None:
    served.publish(make_run("a", b"first"))
    served.publish(make_run("b"))
    shutil.rmtree(served.path / "versions" / "0002")
    served.rollback()
    assert weights(served) == b"first"


def test_a_version_that_is_missing_or_served_already_is_refused(
    served: ServedVersions, make_run: MakeRun
) -> None:
    served.publish(make_run("a"))
    with pytest.raises(UserError, match="has no version '7'; the versions are 0001"):
        served.promote("7")
    with pytest.raises(UserError, match="serves version 0001 already"):
        served.promote("0001")


def test_a_damaged_history_is_one_sentence(served: ServedVersions, make_run: MakeRun) -> None:
    served.publish(make_run("a"))
    (served.path / "history.jsonl").write_text("{")
    with pytest.raises(UserError, match=r"history.jsonl cannot be read .* put back a copy of it"):
        served.history()


def test_a_full_disk_is_one_sentence_and_the_old_version_stays(
    small_disk: Path, make_run: MakeRun
) -> None:
    served = ServedVersions(small_disk / "math")
    served.publish(make_run("a", b"old"))
    big = make_run("b", bytes(2_000_000))
    with pytest.raises(UserError, match=r"takes 2.0 MB and .* are free there") as caught:
        served.publish(big)
    assert "\n" not in str(caught.value)
    assert weights(served) == b"old"
    assert served.versions() == ["0001"]


def test_a_disk_that_fills_while_copying_keeps_the_old_version(
    small_disk: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ServedVersions(small_disk / "math")
    served.publish(make_run("a", b"old"))
    monkeypatch.setattr(served_versions.ServedVersions, "_require_space", lambda self, size: None)
    with pytest.raises(UserError, match="could not be written: the disk is full"):
        served.publish(make_run("b", bytes(2_000_000)))
    assert weights(served) == b"old"
    assert not list((served.path / "versions").glob(".*"))


def test_two_processes_do_not_change_it_at_once(served: ServedVersions, make_run: MakeRun) -> None:
    served.publish(make_run("a"))
    run = make_run("b")
    with (
        hold_lock(served.path / "lock"),
        pytest.raises(RunBusy, match="being changed by another process; wait for it"),
    ):
        served.publish(run)
    assert served.versions() == ["0001"]


def test_what_was_compared_with_another_version_is_not_served(
    served: ServedVersions, make_run: MakeRun
) -> None:
    compared = served.publish(make_run("a"))
    served.publish(make_run("b", b"meanwhile"))
    with pytest.raises(UserError, match=r"serves version 0002 now, and .* compared with 0001"):
        served.publish(make_run("c"), instead_of=compared)
    assert weights(served) == b"meanwhile"
    assert served.versions() == ["0001", "0002"]


def test_what_is_no_adapter_is_refused(served: ServedVersions, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no run 'nothing'"):
        served.publish("nothing", runs_dir=tmp_path)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"adapter_config.json cannot be read"):
        served.publish(tmp_path)


def test_a_served_model_is_found_by_its_name_its_folder_or_because_it_is_the_only_one(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run("a")
    with pytest.raises(UserError, match=r"say which served model: .* there are: none"):
        find_served(None)
    find_served("math", must_exist=False).publish(run)
    assert find_served(None).name == "math"
    assert find_served("math").path == Path("served/math")
    assert find_served(tmp_path / "served" / "math").versions() == ["0001"]
    find_served("other", must_exist=False).publish(run)
    assert [one.name for one in list_served(Path("served"))] == ["math", "other"]
    with pytest.raises(UserError, match=r"there are: served/math, served/other"):
        find_served(None)
    with pytest.raises(UserError, match=r"no served model 'served/mth'; .* math, other; make it"):
        find_served("mth")
    with pytest.raises(UserError, match="cannot be the name of a served model"):
        find_served("a b", must_exist=False)


def test_versions_are_published_without_loading_torch(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("a")
    code = (
        "import sys; from pathlib import Path\n"
        "from practicum.store.served_versions import ServedVersions\n"
        f"ServedVersions(Path({str(tmp_path / 'served' / 'math')!r})).publish({str(run)!r})\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert json.loads((tmp_path / "served/math/history.jsonl").read_text())["version"] == "0001"
