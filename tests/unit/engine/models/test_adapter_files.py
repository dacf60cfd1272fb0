"""Adapters with any config: refused in one sentence, or what they compute is a number."""

import asyncio
import functools
import json
import math
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tests.unit.engine.adapters import write_adapter
from tests.unit.engine.reference import build_policy

from practicum.cli.versions import publish
from practicum.core.checkpoint import other_policy
from practicum.core.config.config_sections import LoraConfig
from practicum.core.errors import CheckpointError
from practicum.core.sampling import SamplingParams, SamplingRequest
from practicum.engine.models.adapter_files import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    read_adapter_config,
    read_adapter_files,
)
from practicum.engine.models.lora import identify_adapter, load_adapter
from practicum.engine.models.publishing import Upload
from practicum.engine.policy import load_adapted_sampler, load_for_policy
from practicum.engine.served_base import ServedBase, load_served_base

LORA = LoraConfig(r=4, alpha=8)


@functools.cache
def sound() -> Path:
    folder = Path(tempfile.mkdtemp()) / "sound"
    write_adapter(folder, 0, LORA)
    return folder


@functools.cache
def base() -> ServedBase:
    return load_served_base(load_for_policy("tiny", "float32", "cpu"), 4096)


def evaluated(folder: Path) -> Any:
    return load_adapted_sampler(load_for_policy("tiny", "float32", "cpu"), folder)


def served(folder: Path) -> Any:
    return base().sampler(folder)


def started_from(folder: Path) -> None:
    load_adapter(build_policy(LORA).model, folder)


def pushed(folder: Path) -> None:
    Upload(folder=folder, hub_id="me/x").files()


def published(folder: Path) -> None:
    identify_adapter(folder, "")


LOADERS: list[Callable[[Path], Any]] = [evaluated, served, published, started_from, pushed]
every_loader = pytest.mark.parametrize("load", LOADERS, ids=[x.__name__ for x in LOADERS])


def changed(folder: Path, change: dict[str, Any]) -> Path:
    """The sound adapter with other settings."""
    shutil.copytree(sound(), folder, dirs_exist_ok=True)
    config = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps({**config, **change}))
    return folder


@every_loader
@pytest.mark.parametrize(
    "change",
    [
        {"lora_alpha": math.nan},
        {"lora_alpha": math.inf},
        {"lora_alpha": 1e300},
        {"lora_alpha": "8"},
        {"lora_alpha": True},
        {"r": 0},
        {"r": 8},
        {"r": 4.5},
        {"lora_dropout": 2.0},
        {"alpha_pattern": {"q_proj": math.nan}},
        {"alpha_pattern": None},
        {"rank_pattern": {"q_proj": -1}},
    ],
    ids=str,
)
def test_a_setting_that_makes_no_sense_is_refused_by_whoever_reads_it(
    load: Callable[[Path], Any], change: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=r"the adapter in .* cannot be used: "):
        load(changed(tmp_path, change))


@every_loader
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_refused_by_whoever_reads_them(
    load: Callable[[Path], Any], value: float, tmp_path: Path
) -> None:
    folder = changed(tmp_path, {})
    tensors = load_file(folder / WEIGHTS_FILE)
    next(iter(tensors.values())).view(-1)[0] = value
    save_file(tensors, folder / WEIGHTS_FILE)
    with pytest.raises(CheckpointError, match="has a value that is not a number"):
        load(folder)


def test_what_would_be_refused_when_served_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for change in ({"lora_alpha": math.nan}, {"use_dora": True}, {"alora_invocation_tokens": [1]}):
        with pytest.raises(CheckpointError):
            publish("x", str(changed(tmp_path / "a", change)))
    assert not (tmp_path / "served").exists()


NUMBERS = st.one_of(st.integers(-10, 2**60), st.floats(), st.booleans(), st.none(), st.text())
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "r": st.one_of(st.just(4), st.just(4.0), NUMBERS),
        "lora_alpha": st.one_of(st.floats(-1e6, 1e6), NUMBERS),
        "use_rslora": st.booleans(),
        "alpha_pattern": st.one_of(
            st.dictionaries(st.sampled_from(["q_proj", "v_proj", "x"]), NUMBERS), NUMBERS
        ),
        "lora_dropout": st.floats(),
        "bias": st.sampled_from(["none", "all"]),
    },
)


@settings(max_examples=10)
@given(CONFIGS)
def test_with_any_settings_an_adapter_is_refused_or_computes_numbers(
    change: dict[str, Any],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = changed(Path(name), change)
        asked = SamplingRequest(prompt_ids=(5, 6, 7), params=SamplingParams(max_tokens=1))
        try:
            sampler = served(folder)
        except CheckpointError:
            return
        said = asyncio.run(sampler.sample(asked))
        assert all(math.isfinite(x) for x in said.logprobs)
        alone = evaluated(folder)
        assert alone.fingerprint() == sampler.fingerprint()
        assert asyncio.run(alone.sample(asked)).logprobs == pytest.approx(said.logprobs, abs=1e-3)


@settings(max_examples=40)
@given(CONFIGS, st.recursive(NUMBERS, lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_any_config_is_read_or_refused_in_one_sentence(change: dict[str, Any], other: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = changed(Path(name), {**change, "other": other})
        said = refusal(published, folder)
        (folder / CONFIG_FILE).write_text(json.dumps(other))
        assert "\n" not in said + refusal(read_adapter_config, folder)


def refusal(read: Callable[[Path], Any], folder: Path) -> str:
    """What is said against an adapter; nothing where it is taken."""
    try:
        read(folder)
    except CheckpointError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "change",
    [
        {"lora_alpha": 9},
        {"use_rslora": True},
        {"alpha_pattern": {"q_proj": 1}},
        {"fan_in_fan_out": True},
        {"alora_invocation_tokens": [5]},
        {"what_peft_will_have": 1},
    ],
    ids=str,
)
def test_whatever_changes_what_an_adapter_computes_changes_its_fingerprint(
    change: dict[str, Any], tmp_path: Path
) -> None:
    from practicum.engine.models.adapter_files import function_digest

    before, after = (read_adapter_files(f).config for f in (sound(), changed(tmp_path, change)))
    assert function_digest(before) != function_digest(after)


@pytest.mark.parametrize(
    "change",
    [{"lora_alpha": 8.0}, {"lora_dropout": 0.5}, {"inference_mode": True}, {"peft_version": "1"}],
    ids=str,
)
def test_what_changes_nothing_leaves_the_fingerprint(
    change: dict[str, Any], tmp_path: Path
) -> None:
    same = served(sound()).fingerprint()
    assert served(changed(tmp_path, change)).fingerprint() == same


def test_two_adapters_that_differ_in_alpha_alone_are_two_policies(tmp_path: Path) -> None:
    other = changed(tmp_path, {"lora_alpha": 16})
    for load in (served, evaluated):
        assert load(sound()).fingerprint() != load(other).fingerprint()


def test_a_checkpoint_of_an_older_version_is_still_its_policy() -> None:
    found = served(sound()).fingerprint()
    older = found.rpartition(".")[0]
    assert other_policy(found, found) == other_policy(older, found) == other_policy("", found) == ""
    assert "base model" in other_policy("x" + older[1:], found)
    assert "weights" in other_policy(older[:-1] + "x", found)
    assert "lora.alpha" in other_policy(f"{older}.00000000", found)
