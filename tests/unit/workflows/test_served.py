"""What words name, what is followed, and how a problem is solved."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.unit.engine.adapters import write_adapter

from practicum.core.config.parse_config import build_config
from practicum.core.errors import CheckpointError, NotEnoughMemory, UserError
from practicum.core.sampling import SamplingParams
from practicum.engine.planning.machine import detect_machine
from practicum.engine.planning.model_shapes import find_shape
from practicum.engine.planning.serving_memory import plan_serving
from practicum.engine.policy import load_for_policy
from practicum.engine.sampling.scripted_sampler import ScriptedSampler
from practicum.gateway.serving.serve_plan import SolveRequest
from practicum.gateway.serving.served_models import ServedModel
from practicum.store.checkpoints import CheckpointStore
from practicum.store.run_dir import RunDir
from practicum.store.study_dir import StudyDir
from practicum.workflows.served import (
    FollowedRun,
    PromotedFolder,
    ServedSite,
    ServeOptions,
    read_words,
)

SOLVING = ("identify_operation", "subtract_terms", "divide_terms", "state_answer")


def test_the_base_is_served_beside_its_adapters(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_adapter(tmp_path / name, 1)
    words = read_words(ServeOptions(words=(str(tmp_path / "a"), f"other={tmp_path / 'b'}")))
    assert [one.name for one in words] == ["a", "other", "tiny"]
    assert [one.adapter is None for one in words] == [False, False, True]
    assert [one.name for one in read_words(ServeOptions(words=("tiny",)))] == ["tiny"]


def test_a_promoted_folder_is_what_its_link_points_to(tmp_path: Path) -> None:
    for version in ("0001", "0002"):
        write_adapter(tmp_path / "n" / "versions" / version, int(version))
    (tmp_path / "n" / "current").symlink_to("versions/0001")
    [word, _] = read_words(ServeOptions(words=(str(tmp_path / "n"),)))
    assert word.name == "n"
    source = word.source
    assert isinstance(source, PromotedFolder)
    before = source.stamp()
    (tmp_path / "n" / "next").symlink_to("versions/0002")
    os.replace(tmp_path / "n" / "next", tmp_path / "n" / "current")
    assert source.stamp() != before
    assert source.folder() == (tmp_path / "n" / "versions" / "0002").resolve()
    (tmp_path / "n" / "versions" / "0002" / "adapter_config.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no adapter_config\.json"):
        source.folder()


def test_a_copy_without_its_link_is_told_how_to_get_it_back(tmp_path: Path) -> None:
    write_adapter(tmp_path / "n" / "versions" / "0001", 1)
    (tmp_path / "n" / "current").symlink_to("versions/0001")
    shutil.copytree(tmp_path / "n", tmp_path / "links")
    shutil.copytree(tmp_path / "n", tmp_path / "kept", symlinks=True)
    assert read_words(ServeOptions(words=(str(tmp_path / "kept"),)))[0].base == "tiny"
    with pytest.raises(UserError, match=r"is a folder and no link .* served promote .*links VER"):
        read_words(ServeOptions(words=(str(tmp_path / "links"),)))


def write_first(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "tiny"}')


def test_a_study_is_its_seeds_each_by_its_name(tmp_path: Path) -> None:
    config = build_config({"env": "math", "model": "tiny", "runs_dir": str(tmp_path)})
    study = StudyDir.create(config, (3, 5), name="three")
    with pytest.raises(UserError, match=r"no seed of .* has begun; type: practicum train --resume"):
        read_words(ServeOptions(words=(str(study.path),)))
    for seed in (3, 5):
        run = RunDir.create(study.path, study.seed_config(seed), name=f"seed_{seed}")
        CheckpointStore(run.path).save(1, write_first, fingerprint="f1", keep=9)
    for word, names in ((str(study.path), "three"), (f"best={study.path}", "best")):
        words = read_words(ServeOptions(words=(word,)))
        assert [one.name for one in words] == [f"{names}-seed_3", f"{names}-seed_5", "tiny"]
        assert all(one.config is not None for one in words[:2])


def save_step(run: Path, step: int) -> None:
    def write(folder: Path) -> None:
        (folder / "adapter_config.json").write_text("{}")

    CheckpointStore(run).save(step, write, fingerprint=f"f{step}", keep=9)


def test_a_followed_run_is_its_best_checkpoint_or_its_newest(tmp_path: Path) -> None:
    source = FollowedRun(name="r", run=tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint yet"):
        source.folder()
    for step in (1, 2, 3):
        save_step(tmp_path, step)
    assert source.folder().name == "step_3"
    before = source.stamp()
    CheckpointStore(tmp_path).mark_best(2)
    assert source.stamp() != before
    assert source.folder().name == "step_2"
    (source.folder() / "adapter_config.json").write_text("{ }")
    with pytest.raises(CheckpointError, match="damaged"):
        source.folder()


def scripted(answers: tuple[str, ...]) -> ServedModel:
    codec: Any = load_for_policy("tiny", "float32", "cpu").codec
    sampler = ScriptedSampler(answers)
    return ServedModel(name="tiny", sampler=sampler, codec=codec, params=SamplingParams())


async def test_the_solution_is_said_in_words_with_actions_and_rewards() -> None:
    site = ServedSite(ServeOptions(words=("tiny",), env="math"))
    asked = SolveRequest(problem="3x + 7 = 16", env="", trace_id="solve/1")
    solved = await site.solve(scripted(SOLVING), asked)
    assert solved.solution == "x = 3"
    outcome = solved.episode.outcome
    assert outcome is not None
    assert outcome.success
    assert len(outcome.turn_rewards) == 4
    assert solved.episode.score.value == pytest.approx(8.5)
    assert solved.episode.trace.id == "solve/1"
    assert solved.task.env == "math"


async def test_a_problem_needs_an_environment_that_is_served() -> None:
    site = ServedSite(ServeOptions(words=("tiny",)))
    asked = SolveRequest(problem="3x + 7 = 16", env="", trace_id="solve/1")
    with pytest.raises(UserError, match="--env math"):
        await site.solve(scripted(SOLVING), asked)
    site = ServedSite(ServeOptions(words=("tiny",), env="math"))
    asked = SolveRequest(problem="x = 1", env="file.py:Class", trace_id="solve/1")
    with pytest.raises(UserError, match="environments: math"):
        await site.solve(scripted(SOLVING), asked)


def test_what_does_not_fit_is_refused_before_it_is_loaded() -> None:
    machine, shape = detect_machine(), find_shape("smollm2-135m")
    assert shape is not None
    plan = plan_serving("m", shape, [20_000_000] * 3, "float32", machine, "cpu")
    assert plan.kv_slots > 0
    with pytest.raises(NotEnoughMemory, match="with 1 adapters needs about"):
        plan_serving("m", shape, [10**13], "float32", machine, "cpu")


def test_a_step_that_is_written_again_is_other_weights(tmp_path: Path) -> None:
    source = FollowedRun(name="r", run=tmp_path)
    stamps = [source.stamp()]
    for text in ("first", "second", "second"):  # a run that went back saves its steps again

        def write(folder: Path, text: str = text) -> None:
            (folder / "adapter_config.json").write_text(json.dumps({"a": text}))

        CheckpointStore(tmp_path).save(3, write, fingerprint=text, keep=9)
        stamps.append(source.stamp())
    assert len(set(stamps)) == 3
    assert stamps[2] == stamps[3]


def test_a_version_that_is_written_again_is_other_weights(tmp_path: Path) -> None:
    source = PromotedFolder(name="n", path=tmp_path)
    (tmp_path / "versions" / "0001").mkdir(parents=True)
    (tmp_path / "current").symlink_to("versions/0001")
    before = source.stamp()
    (tmp_path / "versions" / "0001" / "manifest.json").write_text("{}")
    assert source.stamp() != before
