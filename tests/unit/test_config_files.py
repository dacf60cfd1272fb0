from pathlib import Path

import pytest

from practicum.config_files import read_config, resumed_config
from practicum.core.config.parse_config import apply_overrides
from practicum.core.errors import RunBusy
from practicum.engine.planning.machine import detect_machine
from practicum.engine.planning.profiles import suggest_profile
from practicum.store.run_dir import RunDir


def test_paths_in_a_config_are_looked_for_beside_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job").mkdir()
    for place in ("job/rows.jsonl", "rows.jsonl", "job/mine.py", "here.py"):
        (tmp_path / place).write_text("")
    (tmp_path / "job/run.yaml").write_text(
        "env: {name: tasks, data: rows.jsonl}\n"
        "reward: mine.py:short\n"
        "agent: here.py:act\n"
        "runs_dir: rows.jsonl\n"
    )
    monkeypatch.chdir(tmp_path)
    config = read_config("job/run.yaml", [])
    assert config.env is not None
    assert config.env.options == {"data": "job/rows.jsonl"}
    assert config.reward.components[0].name == "job/mine.py:short"
    assert config.agent.path == "here.py:act"
    assert config.runs_dir == "rows.jsonl"


def test_a_name_that_a_folder_beside_the_config_has_too_stays_a_name(tmp_path: Path) -> None:
    (tmp_path / "math").mkdir()
    (tmp_path / "run.yaml").write_text("env: math\nmodel: tiny\n")
    assert read_config(str(tmp_path / "run.yaml"), []).env_name == "math"


def test_the_profile_auto_fills_in_what_doctor_suggests() -> None:
    suggested = {s.key: s.value for s in suggest_profile("auto", detect_machine()).suggestions}
    config = read_config("math", ["hardware.profile=auto", "rollouts.group_size=5"])
    assert config.model.name == suggested["model"]
    assert config.rollouts.tasks_per_step == suggested["rollouts.tasks_per_step"]
    assert config.rollouts.group_size == 5
    assert read_config("math", []).model.name == "smollm2-135m"


@pytest.mark.parametrize(
    "words", [["model.device=mps", "model=tiny"], ["model=tiny", "model.device=mps"]]
)
def test_the_order_of_words_does_not_matter(words: list[str]) -> None:
    assert apply_overrides({}, words) == {"model": {"name": "tiny", "device": "mps"}}


def test_a_run_that_is_being_trained_is_not_resumed_and_nothing_is_loaded_to_say_so(
    tmp_path: Path,
) -> None:
    run = RunDir.create(tmp_path, read_config("math", ["model=tiny"]), name="r")
    before = sorted(run.path.iterdir())
    with run.hold():
        with pytest.raises(RunBusy, match="is being trained by process"):
            resumed_config(run.path, [])
        config, _ = resumed_config(run.path, [], makes=False)  # a plan disturbs nobody
    assert resumed_config(run.path, [])[0] == config
    assert set(run.path.iterdir()) - set(before) <= {run.lock_path}
