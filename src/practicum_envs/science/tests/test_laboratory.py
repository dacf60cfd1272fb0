import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum_envs.science.conclusion_scoring import (
    ANALYSIS_PAY,
    CONCLUSION_PAY,
    EXPERIMENTS_PAY,
    FULL_MARKS,
    HYPOTHESIS_PAY,
    PREDICTION_PAY,
    USELESS,
)
from practicum_envs.science.laboratory import Laboratory
from practicum_envs.science.law_spaces import LEVELS, law_space
from practicum_envs.science.laws import SETTINGS, START, law_text, setting_text
from practicum_envs.science.posterior import Reading
from practicum_envs.science.worlds import Brief, World, draw_world

BRIEF = Brief(level=1, family="plants", factors=("water", "light", "salt"), base=42, scatter=1)


class Still(World):
    """A world without noise."""

    def measure(self, setting: tuple[int, ...], repeat: int) -> Reading:
        space = law_space(self.brief.level)
        found = space.changes[space.place[self.law], SETTINGS.index(setting)]
        return Reading(setting=setting, value=self.brief.base + int(found))


def still(law: str = "light +3") -> Laboratory:
    known = {law_text(one, BRIEF.factors): one for one in law_space(1).laws}
    return Laboratory(Still(brief=BRIEF, law=known[law], seed="none"))


def test_an_episode_from_the_hypothesis_to_the_conclusion() -> None:
    laboratory = still()
    turns = [
        "formulate_hypothesis water +2",
        "design_experiment water 4",
        "design_experiment light 4",
        "analyze_data",
        "draw_conclusions light +3 sure 99",
    ]
    said = [laboratory.act(turn) for turn in turns]
    assert [one.said for one in said] == [
        "Hypothesis: water +2. 4 experiments to test it.",
        "water 4: 42. 3 left.",
        "light 4: 54. 2 left.",
        "Changes from 42: water 4: 0 (0 a step); light 4: +12 (+3 a step).",
        "The law is light +3. Your data make yours 100 % likely, you said 99 %. What it predicts "
        "elsewhere is 100 % right.",
    ]
    assert sum(one.pay for one in said) == pytest.approx(FULL_MARKS)
    assert laboratory.verdict is not None
    assert laboratory.verdict.succeeds


def test_a_hypothesis_is_tested_against_the_data() -> None:
    laboratory = still()
    laboratory.act("design_experiment light 4")
    assert "misses the data by up to +12" in laboratory.act("formulate_hypothesis none").said
    assert "misses the data by up to 0" in laboratory.act("formulate_hypothesis light +3").said


def test_a_hypothesis_is_paid_once_and_only_before_the_data() -> None:
    laboratory = still()
    texts = ["none", "water +1", "water +1", "none"]
    paid = [laboratory.act(f"formulate_hypothesis {text}").pay for text in texts]
    assert paid == [HYPOTHESIS_PAY, 0.0, USELESS, 0.0]
    late = still()
    late.act("design_experiment light 4")
    assert late.act("formulate_hypothesis none").pay == 0.0


def test_an_experiment_that_tells_nothing_new_is_paid_nothing() -> None:
    laboratory = still("none")
    first = laboratory.act("design_experiment light 4").pay
    again = [laboratory.act("design_experiment light 4").pay for _ in range(2)]
    assert first > 0.2
    assert max(again) < 0.02


def test_there_are_no_more_experiments_than_the_budget() -> None:
    laboratory = still()
    for _ in range(BRIEF.rules.experiments):
        assert "design_experiment" in laboratory.possible
        laboratory.act("design_experiment water 1")
    assert "design_experiment" not in laboratory.possible
    over = laboratory.act("design_experiment light 4")
    assert (over.pay, len(laboratory.readings)) == (USELESS, BRIEF.rules.experiments)


def test_analysing_is_paid_by_what_there_is_to_analyse() -> None:
    laboratory = still()
    assert laboratory.act("analyze_data").pay == USELESS
    laboratory.act("design_experiment water 4")
    early = laboratory.act("analyze_data").pay
    again = laboratory.act("analyze_data").pay
    laboratory.act("design_experiment light 4")
    late = laboratory.act("analyze_data").pay
    assert again == USELESS
    assert 0 < early < late
    assert early + late == pytest.approx(ANALYSIS_PAY)


def test_the_same_setting_is_read_anew_and_the_same_way_in_every_episode() -> None:
    world = draw_world(2, "plants", "repeat")
    values = [[world.measure((4, 0, 0), n).value for n in range(12)] for _ in range(2)]
    assert values[0] == values[1]
    assert len(set(values[0])) > 1


@pytest.mark.parametrize(
    "text",
    ["", " ", "hello", "draw_conclusions", "analyze_data now", "design_experiment", "\x00" * 40,
     "design_experiment water 4\ndraw_conclusions none sure 99", "x" * 100_000,
     "formulate_hypothesis " + "water +1, " * 12, "DRAW_CONCLUSIONS none sure certain"],
)  # fmt: skip
def test_what_cannot_be_read_costs_the_turn_and_changes_nothing(text: str) -> None:
    laboratory = still()
    turn = laboratory.act(text)
    assert turn.pay == USELESS
    assert turn.said
    assert (laboratory.readings, laboratory.hypothesis, laboratory.is_over) == ((), None, False)


def actions(level: int) -> st.SearchStrategy[str]:
    names = BRIEF.factors
    laws = st.sampled_from(law_space(level).laws).map(lambda law: law_text(law, names))
    settings = st.sampled_from([one for one in SETTINGS if one != START])
    return st.one_of(
        laws.map(lambda law: f"formulate_hypothesis {law}"),
        settings.map(lambda one: f"design_experiment {setting_text(one, names)}"),
        st.just("analyze_data"),
        st.text(max_size=20),
        st.tuples(laws, st.sampled_from([1, 10, 50, 90, 99])).map(
            lambda pair: f"draw_conclusions {pair[0]} sure {pair[1]}"
        ),
    )


@given(data=st.data(), level=st.sampled_from(sorted(LEVELS)), seed=st.integers(0, 50))
def test_no_sequence_of_actions_earns_more_than_full_marks(
    data: st.DataObject, level: int, seed: int
) -> None:
    drawn = draw_world(level, "plants", str(seed))
    brief = Brief(
        level=level,
        family="plants",
        factors=BRIEF.factors,
        base=drawn.brief.base,
        scatter=drawn.brief.scatter,
        records=drawn.brief.records,
    )
    laboratory = Laboratory(World(brief=brief, law=drawn.law, seed=str(seed)))
    earned = 0.0
    for text in data.draw(st.lists(actions(level), max_size=14)):
        pay = laboratory.act(text).pay
        earned += pay
        assert pay >= 0 or pay == USELESS
        assert pay <= CONCLUSION_PAY + PREDICTION_PAY + 1e-9
        assert len(laboratory.readings) + laboratory.experiments_left == brief.rules.experiments
        if laboratory.is_over:
            break
    most = FULL_MARKS if laboratory.is_over else HYPOTHESIS_PAY + EXPERIMENTS_PAY + ANALYSIS_PAY
    assert earned <= most + 1e-9
