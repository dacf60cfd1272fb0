import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from practicum.cli.doctor import doctor
from practicum.core.errors import ConfigError, UserError
from practicum.engine.planning.machine import detect_machine

app = typer.Typer()
app.command()(doctor)

TOO_LARGE = "model=Qwen/Qwen2.5-32B-Instruct"

too_much_memory = pytest.mark.skipif(
    detect_machine(look_for_devices=False).available_bytes > 150 << 30,
    reason="the largest known model fits this machine",
)


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "100"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def test_the_page_shows_machine_extras_and_profile() -> None:
    page = run()

    machine = detect_machine(look_for_devices=False)
    assert machine.cpu in page
    assert f"{machine.allowed_cores} may be used" in page
    assert "extra train" in page
    assert "rollouts.group_size=" in page
    assert "memory to train" not in page


def test_with_a_config_the_page_shows_the_plan() -> None:
    page = run("--config", "math", "model=tiny")

    assert "memory to train tiny (float32 on" in page
    assert "activations" in page
    assert "fits: needs about" in page


def test_a_config_file_is_read_with_overrides(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("env: math\nmodel: tiny\nlora: light\n")

    plain = json.loads(run("--config", str(file), "--json"))
    changed = json.loads(run("--config", str(file), "lora=full", "--json"))

    assert plain["plan"]["model"] == "tiny"
    assert plain["plan"]["trainable"] < changed["plan"]["trainable"]


def test_json_is_one_object_and_nothing_else() -> None:
    value = json.loads(run("--config", "math", "model=tiny", "--json"))

    assert value["ok"] is True
    assert value["problems"] == []
    assert value["plan"]["total_bytes"] == sum(p["bytes"] for p in value["plan"]["parts"])
    assert value["machine"]["threads"] >= 1
    assert {s["key"] for s in value["profile"]["suggestions"]} >= {"model", "lora.r"}
    assert all("install_command" in extra for extra in value["machine"]["extras"])


def test_json_without_a_config_has_no_plan() -> None:
    assert json.loads(run("--json"))["plan"] is None


@too_much_memory
def test_a_run_that_does_not_fit_ends_with_code_1_and_advice() -> None:
    page = run("--config", "math", TOO_LARGE, code=1)

    assert "does not fit" in page
    assert "model=" in page
    assert "problem: the run needs about" in page


@too_much_memory
def test_json_of_a_run_that_does_not_fit_says_so() -> None:
    value = json.loads(run("--config", "math", TOO_LARGE, "--json", code=1))

    assert value["ok"] is False
    assert value["plan"]["fits"] is False
    assert value["plan"]["advice"]
    assert len(value["problems"]) == 1


def test_a_model_of_unknown_shape_is_said_and_is_no_failure() -> None:
    page = run("--config", "math", "model=someone/never-heard-of")

    assert "practicum models pull someone/never-heard-of" in " ".join(page.split())


def test_a_profile_can_be_asked_for() -> None:
    assert "profile ryzen" in run("--profile", "ryzen")


@pytest.mark.parametrize(
    ("config", "card", "fits"),
    [
        ("math_qwen2.5_0.5b", "rtx4090", True),
        ("shell_qwen2.5_7b", "a100-80g", True),
        ("shell_qwen2.5_32b", "h200", True),
        ("shell_qwen2.5_32b", "RTX 4090", False),
    ],
)
def test_a_run_is_planned_for_a_card_that_is_not_here(config: str, card: str, fits: bool) -> None:
    path = Path(__file__).parents[3] / "configs" / f"{config}.yaml"
    words = ("--config", str(path), "--device", card)
    value = json.loads(run(*words, "--json", code=0 if fits else 1))

    assert value["plan"]["fits"] is fits
    assert value["plan"]["device"] == "cuda"
    assert value["plan"]["dtype"] == "bfloat16"
    estimate = value["estimate"]
    assert estimate["total_s"] > 60
    assert estimate["disk_bytes"] > 2 * value["plan"]["parameters"]
    page = " ".join(run(*words, "--price", "2", code=0 if fits else 1).split())
    assert f"at most about ${2 * estimate['total_s'] / 3600:.2f} at $2.00 an hour" in page
    assert "GiB for the model, checkpoints and traces" in page


def test_a_larger_card_is_faster_and_a_longer_run_dearer() -> None:
    def seconds(card: str, *words: str) -> float:
        told = run(
            "--config", "math", "model=Qwen/Qwen2.5-7B-Instruct", *words, "--device", card, "--json"
        )
        return float(json.loads(told)["estimate"]["total_s"])

    assert seconds("h200") < seconds("a100-80g")
    assert seconds("h200", "steps=160") > 1.5 * seconds("h200", "steps=80")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--device", "h200"], "practicum doctor --config math --device h200"),
        (["--config", "math", "--device", "h20"], "did you mean 'h200'?"),
        (["--price", "2"], "--device h200"),
        (["--config", "nowhere.yaml"], "there is no config file 'nowhere.yaml'"),
        (["--config", "maths"], "did you mean 'math'"),
        (["--config", "math", "stepz=3"], "unknown key 'stepz'"),
        (["steps=3"], "practicum doctor --config math steps=3"),
        (["--profile", "tpu"], "choose one of: auto, cpu, gpu, ryzen"),
        (["--config", "math", "hardware.profile=tpu"], "hardware.profile = 'tpu'"),
    ],
)
def test_mistakes_are_sentences_for_the_user(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as mistake:
        run(*words)

    assert sentence in str(mistake.value)


def test_a_config_that_is_no_config_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("env: math\nenv: math\n")

    with pytest.raises(ConfigError, match="given twice"):
        run("--config", str(file))


def test_processes_have_a_card_each_and_share_what_is_learned() -> None:
    words = ("--config", "math", "model=Qwen/Qwen2.5-7B-Instruct", "--device", "h200", "--json")
    one, two = (json.loads(run(*words, f"hardware.processes={n}")) for n in (1, 2))
    assert two["estimate"]["learning_s"] == one["estimate"]["learning_s"] / 2
    assert two["estimate"]["sampling_s"] == one["estimate"]["sampling_s"]
    assert two["estimate"]["price"] == 2 * one["estimate"]["price"]
    assert two["plan"]["total_bytes"] == one["plan"]["total_bytes"]
    ((device, needed, free),) = two["plan"]["replicas"]
    assert (device, one["plan"]["replicas"]) == ("cuda:1", [])
    assert needed < one["plan"]["total_bytes"] < free
