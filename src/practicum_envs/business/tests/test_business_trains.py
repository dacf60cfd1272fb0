import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from practicum.cli.main import app


@pytest.mark.rare
@pytest.mark.slow
def test_a_run_on_business_cases_goes_from_imitation_to_practice(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app,
        [
            *("train", "business", "model=tiny", "steps=2", "warm_start.name=reference"),
            *("warm_start.steps=1", "rollouts.tasks_per_step=2", "rollouts.group_size=4"),
            *("eval.n=2", f"runs_dir={tmp_path}", "--name", "a"),
        ],
    )
    assert done.exit_code == 0, done.output
    lines = (tmp_path / "a" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [row for row in map(json.loads, lines) if row["kind"] == "step"]
    assert [row["stage"] for row in steps] == ["sft", "grpo"]
    assert all(row["grad_norm"] > 0 for row in steps)
