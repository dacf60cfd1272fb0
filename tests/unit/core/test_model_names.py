"""A known model has two names, and every place takes them for one model."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.cli.key_file import read_key_file
from practicum.core.config.parse_config import build_config, changed_keys
from practicum.core.model_names import HUB_IDS, model_name
from practicum.core.sampling import SamplingParams
from practicum.engine.models.catalog import KNOWN_MODELS, find_known, known_base
from practicum.engine.planning.model_shapes import find_shape
from practicum.engine.sampling.scripted_sampler import ScriptedSampler
from practicum.gateway.serving.served_models import ServedModel, ServedModels
from practicum.store.checkpoints import base_of_adapter
from practicum.workflows.served import ServeOptions, read_words

SPELLINGS = [
    (known, spelling)
    for known, hub_id in HUB_IDS.items()
    for name in dict.fromkeys((known, hub_id or known))
    for spelling in dict.fromkeys((name, name.lower(), name.upper()))
]
every_spelling = pytest.mark.parametrize(("known", "spelling"), SPELLINGS)


def test_the_names_are_those_of_the_known_models() -> None:
    assert list(HUB_IDS) == list(KNOWN_MODELS)


@every_spelling
def test_a_name_and_a_hub_id_are_one_known_model(known: str, spelling: str) -> None:
    assert model_name(spelling) == known
    assert find_known(spelling) is KNOWN_MODELS[known]
    assert known_base(spelling)[0] == (HUB_IDS[known] or known)
    assert find_shape(spelling) == find_shape(known) is not None


@every_spelling
def test_configs_of_one_model_are_one_config(known: str, spelling: str) -> None:
    one, other = (build_config({"env": "math", "model": name}) for name in (known, spelling))
    assert one == other
    assert changed_keys(one, other) == []  # a run goes on under either name


@every_spelling
def test_adapters_of_either_name_are_of_one_base(known: str, spelling: str, tmp_path: Path) -> None:
    for folder, name in (("ours", known), ("theirs", spelling)):
        (tmp_path / folder).mkdir()
        told = json.dumps({"base_model_name_or_path": name})
        (tmp_path / folder / "adapter_config.json").write_text(told)
        assert base_of_adapter(tmp_path / folder) == known
    options = ServeOptions(words=(str(tmp_path / "ours"), str(tmp_path / "theirs"), spelling))
    words = read_words(options)
    assert [word.base for word in words] == [known] * 3
    assert [word.name for word in words] == ["ours", "theirs", known]


@every_spelling
def test_a_served_model_is_asked_for_by_either_name(
    known: str, spelling: str, tmp_path: Path
) -> None:
    codec: object = None
    sampler = ScriptedSampler(["yes"])
    params = SamplingParams()
    model = ServedModel(name=known, sampler=sampler, codec=codec, params=params)  # type: ignore[arg-type]
    assert ServedModels([model]).get(spelling) is model
    keys = tmp_path / "keys.yaml"
    keys.write_text(f"keys: [{{name: a, key: {'k' * 40}, models: [{spelling}]}}]")
    keys.chmod(0o600)
    assert read_key_file(keys, [known])[0].models == (known,)


def test_a_key_for_an_adapter_with_the_models_name_is_not_one_for_the_model(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text(f"keys: [{{name: a, key: {'k' * 40}, models: [SmolLM2-135M]}}]")
    keys.chmod(0o600)
    assert read_key_file(keys, ["SmolLM2-135M", "smollm2-135m"])[0].models == ("SmolLM2-135M",)


@given(st.text())
def test_any_other_name_stays_as_it_is_and_naming_twice_changes_nothing(name: str) -> None:
    known = model_name(name)
    assert known == name or known in HUB_IDS
    assert model_name(known) == known
