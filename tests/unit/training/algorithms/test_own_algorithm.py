"""An algorithm of the user's own: found by its name, its options checked, tried before a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.training.algorithms.cases import group, make_episode, paid, random_terms

from practicum.core.config.algorithm_config import ALGORITHMS, GroupConfig, OwnAlgorithmConfig
from practicum.core.config.config_sections import RolloutConfig
from practicum.core.config.parse_config import build_config
from practicum.core.errors import ConfigError, UserError
from practicum.core.loss import LossReport, LossTerms
from practicum.core.trusted_code import NotTrusted
from practicum.training.algorithms.build_algorithms import build_algorithm
from practicum.training.algorithms.grpo import Grpo
from practicum.training.algorithms.own_algorithm import checked_own, try_algorithm

HEAD = """
import torch

import practicum as pr
from practicum.training.algorithms.grpo import Grpo

"""
MINE = (
    HEAD
    + """
class Mine(Grpo):
    class Options(pr.GroupConfig):
        push: float = 2.0
        clip: float = 0.1

    def own_loss(self, terms):
        report = super().own_loss(terms)
        return pr.LossReport(loss=self.config.push * report.loss, clipped=report.clipped)
"""
)
ROLLOUTS = RolloutConfig()


def save(folder: Path, body: str) -> str:
    file = folder / "mine.py"
    file.write_text(body)
    return f"{file}:Mine"


def given(name: str, **options: Any) -> OwnAlgorithmConfig:
    config = build_config({"env": "math", "algorithm": {"name": name, **options}})
    assert isinstance(config.algorithm, OwnAlgorithmConfig)
    return config.algorithm


class Pushed(Grpo):
    name = "pushed"

    class Options(GroupConfig):
        push: float = 2.0

    def own_loss(self, terms: LossTerms) -> LossReport:
        report = super().own_loss(terms)
        return replace(report, loss=self.config.push * report.loss)  # type: ignore[attr-defined]


def test_its_own_options_stand_beside_those_it_inherits(tmp_path: Path) -> None:
    options = checked_own(given(save(tmp_path, MINE), push="3", lr="1e-3"), ROLLOUTS)
    assert options.model_dump(include={"push", "clip", "lr", "scale"}) == {
        **{"push": 3.0, "clip": 0.1},  # the class's own default, not that of GRPO
        **{"lr": 1e-3, "scale": "std"},
    }


def test_it_is_made_with_its_options_by_name_and_refuses_others() -> None:
    terms = random_terms(0)
    loss = Pushed(push=3.0, clip=0.1).own_loss(terms).loss
    torch.testing.assert_close(loss, 3.0 * Grpo(clip=0.1).own_loss(terms).loss)
    with pytest.raises(ConfigError, match=r"algorithm.pushh is not an option of pushed, which"):
        Pushed(pushh=3.0)


def test_a_method_that_says_nothing_of_options_has_those_it_derives_from() -> None:
    class Plain(Grpo):
        name = "plain"

    assert Plain(clip=0.3).config.clip == 0.3
    assert Plain().config.scale == "std"


def test_a_config_with_it_is_read_and_written_without_its_code() -> None:
    values = {"env": "math", "algorithm": {"name": "gone.py:Mine", "push": 2, "epochs": 3}}
    config = build_config(values)
    again = build_config(config.model_dump(mode="json"))
    assert again.model_dump() == config.model_dump()
    assert again.algorithm.model_extra == {"push": 2}


def test_what_its_class_has_checked_is_saved_whole_and_read_again(tmp_path: Path) -> None:
    name = save(tmp_path, MINE)
    config = build_config({"env": "math", "algorithm": name})
    checked = config.model_copy(update={"algorithm": checked_own(given(name), ROLLOUTS)})
    saved = checked.model_dump(mode="json")
    assert (saved["algorithm"]["push"], saved["algorithm"]["clip"]) == (2.0, 0.1)
    save(tmp_path, MINE.replace("push: float = 2.0", "push: float = 9.0"))
    again = build_config(saved).algorithm
    assert isinstance(again, OwnAlgorithmConfig)
    assert again.given["push"] == 2.0  # a run keeps the defaults it began with


def test_it_is_built_where_an_algorithm_is_built(tmp_path: Path) -> None:
    made = build_algorithm(given(save(tmp_path, MINE), push=3.0), ROLLOUTS)
    terms = random_terms(1)
    torch.testing.assert_close(made.loss(terms).loss, 3.0 * Grpo(clip=0.1).loss(terms).loss)
    stale = RolloutConfig(staleness=1)
    assert build_algorithm(given(save(tmp_path, MINE)), stale).config.max_ratio == 2.0  # type: ignore[attr-defined]


LOSS = "    def own_loss(self, terms):\n        "
WRONG = {
    "no-loss": ("class Mine(pr.OnlineMethod):\n    pass\n", "has no credit and no is_informative"),
    "no-own-loss": (
        "class Mine(pr.GroupMethod):\n    pass\n",
        "gave None; return a practicum.LossReport",
    ),
    "raising-needs": (
        "class Mine(Grpo):\n    @property\n    def loss_needs(self):\n        return 1 / 0\n",
        "`loss_needs` (mine.py, line 10, in loss_needs) failed: ZeroDivisionError",
    ),
    "raises": (
        f"class Mine(Grpo):\n{LOSS}raise KeyError('x')\n",
        "`own_loss` (mine.py, line 9, in own_loss) failed on a made-up step: KeyError: 'x'; mend",
    ),
    "nan": (
        f"class Mine(Grpo):\n{LOSS}return pr.LossReport(loss=(terms.logprobs - 9).log().sum(), "
        "clipped=0)\n",
        "`own_loss` (mine.py, line 8) gave a loss of nan; keep it finite",
    ),
    "signature": (
        "class Mine(Grpo):\n    def credit(self, groups):\n        ...\n",
        "Mine.credit' takes (self, groups) and is called with (self, groups, estimates) (mine.py",
    ),
    "detached": (
        f"class Mine(Grpo):\n{LOSS}return pr.LossReport(loss=terms.logprobs.detach().sum(), "
        "clipped=0)\n",
        "gave a loss without a gradient; compute it from terms.logprobs",
    ),
    "many-numbers": (
        f"class Mine(Grpo):\n{LOSS}return pr.LossReport(loss=terms.logprobs, clipped=0)\n",
        "gave a loss that is no single number; sum it over the terms",
    ),
    "undeclared": (
        f"class Mine(Grpo):\n{LOSS}return pr.LossReport(loss=(terms.logprobs - "
        "terms.base_logprobs).sum(), clipped=0)\n",
        "failed on a made-up step: TypeError",
    ),
    "no-credit": (
        "class Mine(Grpo):\n    def credit(self, groups, estimates):\n        return []\n",
        "does not give a list for each group with a Credit for each usable episode",
    ),
    "bare-credit": (
        "class Mine(Grpo):\n    def credit(self, groups, estimates):\n"
        "        return [[1.0 for e in g.usable] for g in groups]\n",
        "gave 1.0 for an episode of two turns; give a practicum.Credit",
    ),
    "infinite-credit": (
        "class Mine(Grpo):\n    def credit(self, groups, estimates):\n"
        "        return [[pr.Credit(advantages=(1.0, float('inf'))) for e in g.usable]"
        " for g in groups]\n",
        "gave advantages that are not finite",
    ),
    "constructor": (
        "class Mine(Grpo):\n    def __init__(self):\n        ...\n",
        "cannot be made: TypeError",
    ),
    "options": (
        "class Mine(Grpo):\n    class Options:\n        push = 1.0\n",
        "are none of an algorithm that acts; write `class Options(practicum.GroupConfig)`",
    ),
    "function": ("def Mine(terms):\n    ...\n", "is a function (mine.py, line 7), not a class"),
    "broken": ("class Mine(Grpo:\n", "mine.py cannot be loaded: SyntaxError"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_one_is_told_in_one_sentence_with_its_line(case: str, tmp_path: Path) -> None:
    body, told = WRONG[case]
    with pytest.raises(UserError) as refused:
        checked_own(given(save(tmp_path, HEAD + body)), ROLLOUTS)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "mine.py" in str(refused.value)


def test_groups_of_one_episode_are_refused_where_episodes_are_compared(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="compares the episodes of a group, and"):
        checked_own(given(save(tmp_path, MINE)), RolloutConfig(group_size=1))


@pytest.mark.parametrize("name", [n for n, one in ALGORITHMS.items() if not one.is_offline])
def test_the_trial_refuses_none_of_ours(name: str) -> None:
    extra = {"teacher": "tiny"} if name == "distill" else {}
    for kl in ({}, {"kl": 0.1}, {"kl": 0.1, "kl_in": "reward"}):
        if kl and name == "distill":
            continue
        config = build_config({"env": "math", "algorithm": {"name": name, **extra, **kl}})
        try_algorithm(build_algorithm(config.algorithm, ROLLOUTS), name)


def test_a_trained_group_has_the_credit_of_the_class(tmp_path: Path) -> None:
    body = MINE + (
        "    def credit(self, groups, estimates):\n"
        "        return [[pr.Credit(advantages=(7.0,) * len(e.trace.turns)) for e in g.usable]"
        " for g in groups]\n"
    )
    made = build_algorithm(given(save(tmp_path, body)), ROLLOUTS)
    two = group(make_episode((1, 2), (3,), score=paid(0.0, 1.0)), make_episode((4,), score=paid(0)))
    found = made.credit([two], {})
    assert [one.advantages for one in found[0]] == [(7.0, 7.0), (7.0,)]
    assert np.isfinite(np.asarray(found[0][0].advantages)).all()


def test_code_that_a_config_names_needs_its_owners_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRACTICUM_TRUST", "")
    monkeypatch.setenv("PRACTICUM_TRUST_FILE", str(tmp_path / "trusted"))
    with pytest.raises(NotTrusted, match="if you trust it type: practicum trust"):
        checked_own(given(save(tmp_path, "open('ran', 'w')\n" + MINE)), ROLLOUTS)


def test_an_installed_package_brings_one_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brought.py").write_text(MINE)
    facts = tmp_path / "brought-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[practicum.algorithms]\npushed = brought:Mine\nbroken = nowhere:Mine\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert checked_own(given("pushed"), ROLLOUTS).model_dump()["push"] == 2.0
    with pytest.raises(UserError, match="cannot be loaded from 'nowhere:Mine': ModuleNotFound"):
        checked_own(given("broken"), ROLLOUTS)
    with pytest.raises(ConfigError, match=r"offline_grpo, broken, pushed; did you mean 'pushed'"):
        given("pushd")
