import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from practicum.cli.plan import plan, read_sizes
from practicum.core.errors import UserError
from practicum.store.events import EventLog

app = typer.Typer()
app.command()(plan)

SHORT = ("--tasks", "4", "--group", "2", "--turns", "2", "--tokens", "30", "--steps", "1")


def run(*words: str) -> str:
    result = CliRunner().invoke(app, [*words, *SHORT], env={"COLUMNS": "80"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_row_for_each_size_fits_a_terminal_of_80() -> None:
    page = run("--gpus", "8..32", "--model", "qwen2.5-32b")
    assert "qwen2.5-32b on NVIDIA H200: 8 episodes a step" in page
    rows = [line.split() for line in page.splitlines() if line.split()[:1] in (["8"], ["32"])]
    assert len(rows) == 2
    assert "…" not in page


def test_the_object_has_every_figure_and_is_the_same_each_time() -> None:
    words = ("--gpus", "4", "--device", "h100", "--price", "2", "--staleness", "2", "--json")
    told = json.loads(run(*words))
    [size] = told["sizes"]
    assert size["samplers"] + size["learners"] <= 4
    assert size["staleness_max"] <= 2
    per_thousand = 4 * 2 / 3600 * 1000 / size["episodes_per_s"]
    assert size["dollars_per_1000_episodes"] == pytest.approx(per_thousand)
    assert told["rates"]["sampler"]["weights_s"] > 0
    assert json.loads(run(*words)) == told


def test_a_run_of_ones_own_calibrates(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.yaml").write_text("env: math\n")
    (folder / "run.json").write_text("{}")
    row = {
        "episodes": 8,
        "groups": 2,
        "turns": 2.0,
        "sampled_tokens": 480,
        "update_tokens": 600,
        "sampling_s": 48.0,
        "environment_s": 16.0,
        "update_s": 3.0,
    }
    with EventLog(folder / "metrics.jsonl", attempt=1, from_step=0) as log:
        for number in (1, 2):
            log.append("step", step=number, values=row)
    told = json.loads(run("--gpus", "2", "--calibrate", str(folder), "--json"))
    assert told["model"] is None
    assert told["rates"]["token_s"] == pytest.approx(0.005)
    assert told["work"]["environment_s"] == pytest.approx(1.0)
    assert f"as run {folder}" in " ".join(run("--gpus", "2", "--calibrate", str(folder)).split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--gpus", "8..4"), "--gpus '8..4' is no number of GPUs"),
        (("--gpus", "many"), "--gpus 'many' is no number of GPUs"),
        (("--gpus", "1"), "--gpus 1 is too few: .* give at least 2"),
        (("--model", "gpt-5"), "the shape of --model 'gpt-5' is not known"),
        (("--device", "h900"), "--device 'h900' is not known"),
        (("--calibrate", "nothing"), "there is no run 'nothing'"),
    ],
)
def test_a_mistake_is_a_sentence(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        run(*words)


def test_sizes() -> None:
    assert read_sizes("8..512") == [8, 16, 32, 64, 128, 256, 512]
    assert read_sizes("24,8,8..16") == [8, 16, 24]
