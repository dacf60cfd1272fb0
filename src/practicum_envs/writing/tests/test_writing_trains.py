import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from practicum.cli.main import app


@pytest.mark.slow
def test_a_run_on_briefs_goes_from_imitation_to_practice(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app,
        [
            *("train", "writing", "model=tiny", "steps=2", "warm_start.name=reference"),
            *("warm_start.steps=1", "rollouts.tasks_per_step=2", "rollouts.group_size=2"),
            *("rollouts.replace_flat_groups=0", "eval.n=2", f"runs_dir={tmp_path}", "--name", "a"),
        ],
    )
    assert done.exit_code == 0, done.output
    lines = (tmp_path / "a" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if "step" in row]
    assert {row["step"] for row in rows} >= {1, 2}
    imitated = [row["loss"] for row in rows if row.get("loss") is not None]
    # Practice alone teaches this model nothing: none of its random bytes are an action.
    assert len(imitated) >= 1
    assert all(0 < loss < 100 for loss in imitated)
