"""What the card of an exported model says of its training."""

import json
from pathlib import Path

import pytest

import practicum as pr


@pytest.fixture
def chats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run by KTO on recorded chats, without an environment."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "prompt": [{"role": "user", "content": f"Say {n}."}],
            "completion": [{"role": "assistant", "content": str(n)}],
            "label": n % 2 == 0,
        }
        for n in range(12)
    ]
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, rows)))
    values = {"data.source": "chats.jsonl", "hardware.threads": 1}
    pr.train(env="none", model="tiny", steps=2, algorithm="kto", quiet=True, name="chats", **values)
    return tmp_path


def test_a_run_on_chats_is_exported_and_its_card_tells_what_it_learned_from(chats: Path) -> None:
    done = pr.export("runs/chats", "adapter", "out")
    assert done.original is None
    assert done.files[0].agreement is not None
    assert done.files[0].agreement.gap < 1e-3
    card = (chats / "out" / "README.md").read_text()
    assert "trained with Practicum by `kto` on the data `chats.jsonl`.\n" in card
    assert "library_name: peft" in card
    assert "| `seed` | `0` |" in card
    assert "by acting on" not in card


def test_an_environment_that_only_checks_is_not_told_as_training(chats: Path) -> None:
    pr.export("runs/chats", "merged", "out", env="math", n=2)
    card = (chats / "out" / "README.md").read_text()
    assert "tasks of `math`, which it was not trained on, with 95 % intervals" in card
    assert "library_name: transformers" in card
    assert "'n': 100" in next(line for line in card.splitlines() if line.startswith("| `eval`"))


def test_stages_are_told_without_a_method_that_was_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    imitate = {"steps": 1, "algorithm": "sft", "data": {"source": "reference", "n": 2}}
    practise = {"steps": 1, "algorithm": "grpo"}
    small = {"rollouts.tasks_per_step": 1, "rollouts.max_turns": 2, "eval.n": 2}
    pr.train("math", model="tiny", stages=[imitate, practise], quiet=True, name="two", **small)
    pr.export("runs/two", "merged", "out", n=1)
    card = (tmp_path / "out" / "README.md").read_text()
    assert (
        "by `sft` on solutions of the environment `math`, then by `grpo` on the environment "
        "`math`, by acting on its tasks. Figures are for held-out tasks of `math`, with"
    ) in card
    assert "| `algorithm` |" not in card
