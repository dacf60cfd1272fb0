"""A config of the package is found where there is no clone; a file that is there always wins."""

import tomllib
from pathlib import Path

import pytest

from practicum import shipped_configs
from practicum.shipped_configs import find_config

REPOSITORY = Path(__file__).parents[2]


def test_the_wheel_takes_the_configs_along() -> None:
    build = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["force-include"] == {"configs": "practicum/configs"}
    assert Path(shipped_configs.__file__).parent / "configs" == shipped_configs.FOLDER


def test_a_file_that_is_there_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = tmp_path / "package"
    shipped.mkdir()
    (shipped / "tiny.yaml").write_text("env: math\n")
    monkeypatch.setattr(shipped_configs, "FOLDER", shipped)
    monkeypatch.chdir(tmp_path)
    assert find_config("configs/tiny.yaml") == shipped / "tiny.yaml"
    assert find_config("configs/none.yaml") == Path("configs/none.yaml")
    assert find_config("tiny.yaml") == Path("tiny.yaml")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "tiny.yaml").touch()
    assert find_config("configs/tiny.yaml") == Path("configs/tiny.yaml")
