"""What an adapter that is published is known by: its fingerprint, whoever made it."""

import json
import shutil
from pathlib import Path

import pytest
from tests.unit.engine.adapters import write_adapter

from practicum.core.errors import CheckpointError, UserError
from practicum.engine.models.lora import identify_adapter
from practicum.engine.models.tiny import save_tiny


def test_an_adapter_that_says_nothing_is_known_by_its_weights_and_its_base(tmp_path: Path) -> None:
    fingerprint = write_adapter(tmp_path / "a", 1)
    assert identify_adapter(tmp_path / "a", "") == fingerprint
    assert identify_adapter(shutil.copytree(tmp_path / "a", tmp_path / "b"), "") == fingerprint
    assert identify_adapter(tmp_path / "a", fingerprint) == fingerprint
    older = fingerprint.rpartition(".")[0]
    assert identify_adapter(tmp_path / "a", older) == fingerprint


def test_the_base_of_an_adapter_that_names_it_need_not_be_here(tmp_path: Path) -> None:
    fingerprint = write_adapter(tmp_path / "a", 1)
    rename_base(tmp_path / "a", "someone/elsewhere")
    assert identify_adapter(tmp_path / "a", fingerprint) == fingerprint
    with pytest.raises(UserError, match="'someone/elsewhere' is no folder"):
        identify_adapter(tmp_path / "a", "")


def test_by_name_and_by_hub_id_the_base_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "models" / "smollm2-135m"
    save_tiny(folder)
    record = {"name": "smollm2-135m", "source": "a test", "sha256": []}
    (folder / "practicum.json").write_text(json.dumps(record))
    write_adapter(tmp_path / "a", 1)
    found = set()
    for name in ("smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct"):
        rename_base(tmp_path / "a", name)
        found.add(identify_adapter(tmp_path / "a", ""))
    assert len(found) == 1


def test_an_adapter_that_is_another_than_it_says_is_refused(tmp_path: Path) -> None:
    told = write_adapter(tmp_path / "a", 1)
    write_adapter(tmp_path / "b", 2)
    with pytest.raises(CheckpointError, match="the adapter's weights are not those that were sav"):
        identify_adapter(tmp_path / "b", told)


def rename_base(folder: Path, name: str) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": name}))
