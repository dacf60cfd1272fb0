"""Sweeps: which settings they try, what is kept of them, and what may be read into the result."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.analysis.builders import RunBuilder

from practicum.core.config.parse_config import apply_overrides, build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.store.study_dir import StudyDir
from practicum.store.sweep_dir import SweepDir, find_sweep
from practicum.workflows.sweeps import many_looks, settings_of, split_words, sweep_results


def read(words: Sequence[str]) -> RunConfig:
    usual = {"env": {"name": "math", "level": 2}, "steps": 30, "eval": {"every": 10}}
    return build_config(apply_overrides(usual, words))


def evaluated(sweep: SweepDir, solved: Sequence[int]) -> None:
    """A finished study of two seeds for each setting, with so many of 100 tasks solved."""
    for setting, successes in zip(sweep.facts().settings, solved, strict=True):
        study = StudyDir.create(sweep.config(setting), sweep.facts().seeds, name=setting.name)
        for seed in sweep.facts().seeds:
            build = RunBuilder(study.path, f"seed_{seed}").begin().steps(1, 30)
            build.checkpoint(30).evaluate(30, successes + seed).done()


def test_every_combination_is_a_setting_with_its_own_config() -> None:
    words = ["algorithm.lr=1e-4,1e-3", "steps=4", "rollouts.group_size=4,8"]
    settings = settings_of(words, read)
    assert [setting.name for setting in settings] == [
        *("01-lr-1e-4-group_size-4", "02-lr-1e-4-group_size-8"),
        *("03-lr-1e-3-group_size-4", "04-lr-1e-3-group_size-8"),
    ]
    assert [
        (s.config["algorithm"]["lr"], s.config["rollouts"]["group_size"]) for s in settings
    ] == [
        *((1e-4, 4), (1e-4, 8), (1e-3, 4), (1e-3, 8)),
    ]
    assert {setting.config["steps"] for setting in settings} == {4}


def test_a_list_in_brackets_is_one_value_and_a_list_of_them_is_swept() -> None:
    plain, swept = split_words(["lora.targets=[q_proj,k_proj]", "env.tags=[a,b],[c]"])
    assert plain == ["lora.targets=[q_proj,k_proj]"]
    assert swept == {"env.tags": ["[a,b]", "[c]"]}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["steps=4"], "no key has several values to sweep"),
        (["steps=4,4"], "names 4 twice"),
        (["seed=0,1", "seed=2,3"], "seed is swept twice"),
        (["seed=" + ",".join(map(str, range(65)))], "65 settings, and a sweep takes 64"),
        (["algorithm.lr=1e-4,fast"], "algorithm"),
        (["algorithm.rate=1,2"], "rate"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_is_made(
    words: list[str], told: str
) -> None:
    with pytest.raises(UserError, match=told):
        settings_of(words, read)


def test_a_sweep_is_found_again_with_all_it_was_told(tmp_path: Path) -> None:
    settings = settings_of(["algorithm.lr=1e-4,1e-3"], read)
    SweepDir.create(tmp_path, settings, (0, 1), name="lr", parallel=2)
    facts = find_sweep("lr", tmp_path).facts()
    assert (facts.seeds, facts.parallel, facts.settings) == ((0, 1), 2, tuple(settings))
    with pytest.raises(UserError, match="there are lr"):
        find_sweep("rl", tmp_path)
    with pytest.raises(UserError, match="lr"):
        SweepDir.create(tmp_path, settings, (0,), name="lr")


def test_each_setting_is_compared_with_the_first_on_the_same_tasks(tmp_path: Path) -> None:
    words = ["algorithm.lr=1e-4,1e-3,1e-2"]
    sweep = SweepDir.create(tmp_path, settings_of(words, read), (0, 1), name="lr")
    evaluated(sweep, (40, 90, 41))
    first, second, third = sweep_results(sweep)
    assert first.difference is None
    assert second.difference is not None
    assert third.difference is not None
    assert second.difference.value == pytest.approx(0.5)
    assert second.difference.low > 0.3
    assert third.difference.low < 0 < third.difference.high
    assert second.report is not None
    assert second.report.n_tasks == 100
    warned = " ".join(many_looks([first, second, third]))
    assert "2 comparisons" in warned
    assert "up to 10% of sweeps" in warned  # 1 - 0.95² = 0.0975
    assert "The best of 3 looks better than it is" in warned
    assert "algorithm.lr=1e-3" in warned


def test_a_sweep_that_has_not_begun_says_so_and_warns_of_nothing(tmp_path: Path) -> None:
    sweep = SweepDir.create(tmp_path, settings_of(["seed=3,4"], read), (0,), name="s")
    results = sweep_results(sweep)
    assert [result.told for result in results] == ["not begun", "not begun"]
    assert many_looks(results) == []
