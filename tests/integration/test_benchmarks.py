"""Every benchmark runs, at tiny sizes, and its sides do the same work. Nothing here is timed."""

import json
import runpy
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TINY = ("--model", "tiny", "--repeats", "1", "--threads", "1", "--device", "cpu", "--json")
GIVEN = 32

pytestmark = [
    pytest.mark.rare,
    pytest.mark.filterwarnings("ignore"),  # the peers warn as they please
]
with_trl = pytest.mark.skipif(
    find_spec("trl") is None, reason="needs the extra 'peers'; type: pip install 'practicum[peers]'"
)
with_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    """Benchmarks import each other by name, as when run as scripts."""
    threads, before = torch.get_num_threads(), set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCHMARKS)):
            del sys.modules[name]
    torch.set_num_threads(threads)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a script with tiny sizes and returns the JSON it prints."""

    def script(name: str, *options: str) -> dict[str, Any]:
        path = str(BENCHMARKS / name)
        monkeypatch.setattr(sys, "argv", [path, *TINY, *options])
        runpy.run_path(path, run_name="__main__")
        found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return found

    return script


def count_prefixes(rows: list[np.ndarray]) -> int:
    """Tokens of a prefix tree, by brute force: different beginnings."""
    return len({tuple(row[: n + 1]) for row in rows for n in range(row.size)})


SIZES = ("--prompts", "2", "--prompt", "24", "--completion", "6", "--group", "3", "--turns", "2")


@pytest.mark.parametrize("history", ["single", "growing"])
def test_an_update_has_the_padded_batchs_gradients(run: Run, history: str) -> None:
    options = ("--history", history, "--peer-batch", "3", "--micro-batch-tokens", "128")
    found = run("update.py", *SIZES, *options, "--no-trl")
    from cases import Case
    from episodes import conversations

    case = Case(model="tiny", prompts=2, prompt=24, completion=6, group=3, turns=2, history=history)
    rows = [row.token_ids for row in conversations(case)]
    whole = 24 + 6 + GIVEN + 6
    assert found["row_tokens"] == 2 * 3 * (whole if history == "single" else 24 + 6 + whole)
    assert found["unique_tokens"] == count_prefixes(rows)
    assert found["computed_tokens"] > found["unique_tokens"]  # a trunk is in two micro-batches
    assert found["gradient_error"] < 1e-4
    assert set(found["seconds"]) == {"practicum", "padded"}
    assert {"torch", "transformers", "trl"} == set(found["versions"])


@with_trl
@pytest.mark.parametrize("history", ["single", "growing"])
def test_trl_has_the_padded_batchs_gradients(run: Run, history: str) -> None:
    options = ("--history", history, "--peer-batch", "3", "--without", "practicum")
    found = run("update.py", *SIZES, *options)
    assert found["left_out"] == {}
    assert found["trl_gradient_error"] < 1e-4


def test_every_sampler_runs_and_is_held_against_the_roofline(run: Run) -> None:
    found = run("sampling.py", "--prompts", "2", "--prompt", "16", "--completion", "4", "--no-trl")
    sides = {"practicum", "transformers", "paged"}
    assert found["left_out"] == {}
    assert set(found["seconds"]) == set(found["prefill_s"]) == set(found["ms_a_step"]) == sides
    assert found["roofline_ms_a_step"] > 0 < found["roofline_prefill_s"]


@with_trl
def test_trl_samples_the_same_number_of_tokens(run: Run) -> None:
    options = ("--without", "practicum", "transformers", "paged", "--merged-peers")
    found = run("sampling.py", "--prompt", "16", "--completion", "4", "--group", "2", *options)
    assert found["left_out"] == {}
    assert found["tokens_a_second"]["trl"] * found["seconds"]["trl"] == pytest.approx(2 * 4)


@with_trl
@pytest.mark.parametrize("turns", [1, 2])
def test_a_step_goes_from_prompts_to_an_update(run: Run, turns: int) -> None:
    sizes = ("--prompts", "2", "--prompt", "24", "--completion", "6", "--group", "2")
    found = run("step.py", *sizes, "--turns", str(turns), "--peer-batch", "2", "--separate")
    assert found["left_out"] == {}
    assert found["row_tokens"] == 2 * 2 * (24 + 6 * turns + GIVEN * (turns - 1))
    assert found["largest_gap"] < 1e-3  # what was sampled is what was learned from
    assert set(found["stages"]["trl"]) == set(found["stages"]["practicum"])
    assert all(0 <= share < 1 for share in found["outside_share"].values())


@pytest.mark.slow
def test_memory_is_measured_for_rows_that_share_as_asked(run: Run) -> None:
    found = run("memory.py", "--tokens", "256", "--ratio", "4", "--group", "8")
    [point] = found["points"]
    assert point["row_tokens"] / point["unique_tokens"] == pytest.approx(4, rel=0.1)
    assert point["unique_tokens"] == pytest.approx(256, rel=0.1)
    assert point["peak_bytes"].keys() == {"practicum", "padded"}
    assert min(point["peak_bytes"].values()) > 1 << 20
    assert point["planned_bytes"] > 1 << 20


def test_rates_of_this_machine_are_measured(run: Run) -> None:
    found = run("roofline.py")
    assert found["copy_gb_s"] > 0.1
    assert found["matrix_tflop_s"] > 1e-4


@with_matplotlib
def test_series_are_drawn(run: Run, tmp_path: Path) -> None:
    sizes = ("--prompt", "16", "--completion", "4", "--group", "2", "--without", "trl", "paged")
    wanted = ("--series", "prompt=8,16", "--tree-ratio", "2", "--unique", "128")
    found = run("series.py", *sizes, *wanted, "--out", str(tmp_path))
    values = [point["value"] for one in found["series"] for point in one["points"]]
    assert values == [8, 16, 8, 16]
    [point] = found["tree_ratio"]
    assert point["share_of_ideal"] == pytest.approx(point["speed_up"] / point["ideal"])
    assert json.loads((tmp_path / "series.json").read_text()) == found
    charts = {file.name: file.read_bytes() for file in tmp_path.glob("*.png")}
    assert set(charts) == {"update-prompt.png", "sampling-prompt.png", "tree-ratio.png"}
    assert all(content.startswith(b"\x89PNG") for content in charts.values())


def test_a_peer_that_fails_is_left_out_and_practicum_is_not() -> None:
    from cases import Case
    from race import Side, race

    calls: list[str] = []

    def fail() -> dict[str, float]:
        raise RuntimeError("no such kernel\nsecond line")

    def work() -> dict[str, float]:
        calls.append("work")
        return {"part": 2.0}

    sides = {"practicum": lambda: Side(run=work), "peer": lambda: Side(run=fail)}
    found = race(sides, Case(repeats=2))
    assert found.left_out == {"peer": "RuntimeError: no such kernel"}
    assert len(calls) == 3  # one to warm up
    assert found.seconds["practicum"]["part"] == 2.0
    assert found.ratios("part") == {"practicum": 1.0}
    with pytest.raises(RuntimeError, match="no such kernel"):
        race({"practicum": lambda: Side(run=fail)}, Case(repeats=2))


def test_prompt_text_has_exactly_the_prompts_tokens() -> None:
    from peers import prompt_text, word_tokenizer

    tokenizer = word_tokenizer(50)
    ids = [0, 17, 47, 3, 3]
    assert tokenizer(text=[prompt_text(ids)])["input_ids"] == [ids]
    assert tokenizer.decode(ids) == "w0 w17 w47 w3 w3"


def test_products_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ("--layers", "2", "--hidden", "16", "--middle", "32", "--joined", "24")
    path = str(BENCHMARKS / "products.py")
    monkeypatch.setattr(sys, "argv", [path, *sizes, "--rows", "1", "3", "--rounds", "1"])
    runpy.run_path(path, run_name="__main__")
    said = capsys.readouterr().out
    assert all(way in said for way in ("onednn", "plain", "read"))
    assert [line.split()[1] for line in said.splitlines() if line.startswith("│")] == ["1", "3"]


def test_methods_are_trained_and_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- results: tiny -->\nold\n<!-- end of results: tiny -->\nAfter.\n")
    words = ("--model", "tiny", "--device", "cpu", "--methods", "sft", "--steps", "2", "--n", "4")
    places = ("--runs", str(tmp_path / "runs"), "--page", str(page), "--json")
    path = str(BENCHMARKS / "learning.py")
    monkeypatch.setattr(sys, "argv", [path, *words, *places])
    runpy.run_path(path, run_name="__main__")
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    [outcome] = found["outcomes"]
    assert outcome["method"] == "sft"
    assert outcome["before"]["n"] == outcome["after"]["n"] == 4
    assert outcome["gain"]["low"] <= outcome["gain"]["value"] <= outcome["gain"]["high"]
    assert outcome["episodes"] == 0  # the reference's solutions are not the policy's episodes
    text = page.read_text()
    assert text.startswith("Before.\n<!-- results: tiny -->\n")
    assert text.endswith("\n<!-- end of results: tiny -->\nAfter.\n")
    assert found["markdown"] in text
    assert "old" not in text


def test_every_method_of_the_table_is_trained_with_settings_that_are_accepted() -> None:
    from learning import SETTINGS, Bench

    from practicum.core.config.parse_config import apply_overrides, build_config

    seen: list[tuple[str, ...]] = []

    class Watched(Bench):
        def _call(self, *words: str) -> str:
            seen.append(words)
            return ""

    for model, settings in SETTINGS.items():
        bench = Watched(
            model=model,
            device="cpu",
            folder=Path("runs"),
            n=4,
            every=2,
            steps=0,
            level=1,
            threads=1,
            record=4,
            more=(),
        )
        for name, trial in settings.trials.items():
            bench._train(name, trial, "recorded.sqlite")
            words = seen[-1][2 : seen[-1].index("--name")]
            config = build_config(apply_overrides({"env": "math"}, words))
            assert [s.algorithm.name for s in config.stages] == [s[0] for s in trial.stages]
            assert config.steps == sum(steps for _, steps, _ in trial.stages)


def test_the_bar_is_reached_at_the_first_step_whose_lower_bound_is_there() -> None:
    from learning import first_at_bar

    from practicum.core.checkpoint import Interval

    class Report:
        def __init__(self, low: float) -> None:
            self.success = Interval(value=0.9, low=low, high=1.0, n=10, method="wilson")

    lows = {4: 0.81, 0: 0.1, 2: 0.79, 6: 0.5}
    reports: Any = {step: Report(low) for step, low in lows.items()}
    assert first_at_bar(reports) == 4
    assert first_at_bar({0: reports[0]}) is None


def test_named_actions_and_free_text_sample_as_many_tokens(run: Run) -> None:
    found = run("named_actions.py", "--prompts", "2", "--group", "2")
    assert found["sampled_tokens"] > found["turns"] > 4
    assert found["largest_gap"] == 0.0  # on a CPU both ways are the same
    assert set(found["times_free_text"]) == {"named", "planned", "free"}


def test_a_step_beside_busy_loops_has_its_stages_timed(run: Run) -> None:
    found = run("busy.py", *SIZES, "--no-trl")
    assert found["loops"] == 1
    assert set(found["slowdown"]["practicum"]) == {"sampling", "update", "total"}


def test_shapes_are_drawn_the_same_every_time(run: Run) -> None:
    shapes = [run("busy.py", "--shapes", "1", "--no-trl")["shapes"][0] for _ in range(2)]
    assert shapes[0]["prompt"] == shapes[1]["prompt"]
    assert shapes[0]["seconds"]["practicum"] > 0.0


@pytest.mark.parametrize(
    ("script", "options"),
    [("writing_probes.py", ("--tasks", "1")), ("writing_judge.py", ("--judge", "none"))],
)
def test_the_score_of_texts_is_not_earned_without_the_work(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    options: tuple[str, ...],
) -> None:
    path = str(BENCHMARKS / script)
    monkeypatch.setattr(sys, "argv", [path, *options, "--json"])
    runpy.run_path(path, run_name="__main__")
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    if "agreement" in found:
        assert found["agreement"]["measured score"]["right"] >= 95
    else:
        assert all(one["most"] < 0.35 and not one["solved"] for one in found["paid"].values())


def test_a_mix_is_learned_with_and_without_a_curriculum(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(BENCHMARKS / "curriculum_mix.py")
    monkeypatch.setattr(sys, "argv", [path, "--seeds", "1", "--steps", "2", "--json"])
    runpy.run_path(path, run_name="__main__")
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    for kind in ("none", "adaptive"):
        [one] = found[kind]
        assert 0.5 < one["flat"] < 1.0  # four fifths of the tasks are always flat
        assert 0.0 <= one["learned"] <= 1.0


FEW = (
    *("--model", "tiny", "--device", "cpu", "--seeds", "2", "--n", "4"),
    *("--set", "hardware.threads=1", "rollouts.tasks_per_step=1", "rollouts.group_size=2"),
    *("stages.0.data.n=8", "stages.0.algorithm.batch=2"),
)
ONE_STEP = ("stages.0.steps=1", "stages.1.steps=1")


@pytest.mark.parametrize(
    ("what", "options", "rows"),
    [
        (
            "learn",
            ("--domains", "business", *FEW, *ONE_STEP),
            ["before", "sft", "grpo", "business"],
        ),
        (
            "mixed",
            ("--domains", "math", "business", "--steps", "2", "2", *FEW),
            ["base", "math", "business", "all", "math", "business"],
        ),
    ],
)
def test_what_domains_learn_is_measured_alone_and_together(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    what: str,
    options: tuple[str, ...],
    rows: list[str],
) -> None:
    path = str(BENCHMARKS / "domains.py")
    monkeypatch.setattr(sys, "argv", [path, what, "--runs", str(tmp_path), *options])
    runpy.run_path(path, run_name="__main__")
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "[" in line]
    assert [word for word in shown if word in rows] == rows
    if what == "mixed":
        run = json.loads((tmp_path / what / "all" / "study.json").read_text())
        assert "business" in json.dumps(run)
        assert (tmp_path / what / "all" / "seed_1" / "checkpoints" / "step_6").is_dir()
