import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.environments.reference_policies import random_action_text
from practicum_envs.business.business_case import Case
from practicum_envs.business.business_environment import case_of_task, task_of
from practicum_envs.business.business_probes import decide, identify, looks, plan, reference_turns
from practicum_envs.business.business_session import BusinessSession
from practicum_envs.business.case_families import FAMILIES
from practicum_envs.business.decision_scoring import full_marks

PLAIN = task_of("price", 1, 1)
HIDES_LIMIT = next(
    task
    for task in (task_of("workshop", 2, key) for key in range(1, 30))
    if "deadline" in case_of_task(task).needed
)


def case(level: int = 1) -> Case:
    return case_of_task(PLAIN if level == 1 else HIDES_LIMIT)


async def paid(of: Case, *turns: str) -> list[float]:
    session = BusinessSession(of)
    return [(await session.act(turn)).reward or 0.0 for turn in turns]


async def test_a_whole_episode_of_lemonade() -> None:
    session = BusinessSession(case())
    said = [(await session.act(turn)).message.content for turn in reference_turns(case())]
    outcome = await session.outcome()
    assert said[0].startswith("unit_cost = ")
    assert said[-1].startswith("all is right\nbest: ")
    assert outcome.success is True
    assert outcome.turn_rewards == (0.5, 2.0, 1.0, 3.0, 3.0)
    assert outcome.evidence["regret"] == 0.0
    assert json.dumps(dict(outcome.evidence))


async def test_doing_nothing_earns_nothing() -> None:
    outcome = await BusinessSession(case()).outcome()
    assert (outcome.success, outcome.turn_rewards) == (False, ())


async def test_nothing_can_be_said_before_what_it_rests_on_was_looked_at() -> None:
    of = case(level=2)
    [fact, limit] = of.needed
    statements = reference_turns(of)[2:]
    assert await paid(of, identify(of.feasible)) == [-0.5]
    assert (await paid(of, f"analyze_situation {fact}", identify(of.feasible)))[-1] == -0.5
    assert (await paid(of, f"analyze_situation {limit}", *statements))[1] == -0.5
    assert (await paid(of, *looks(of.needed), *statements))[2:] == [2.0, 1.0, 3.0, 3.0]


async def test_what_is_hidden_is_nowhere_in_the_prompt() -> None:
    of = case(level=2)
    text = BusinessSession(of).prompt()[1].content
    assert f"{of.family.hidden} {of.facts[of.family.hidden]}" not in text
    assert "at most deadline" in text


async def test_each_look_that_is_not_needed_costs_more_than_the_one_before() -> None:
    of = case()
    assert await paid(of, *looks([*of.spare, *of.needed, *of.needed])) == [
        *(-0.5, -1.0, -1.5),
        *(0.5, -1.5),
    ]


async def test_a_statement_stands_and_cannot_be_made_again() -> None:
    of = case()
    second = of.ranked[1]
    rewards = await paid(of, *looks(of.needed), decide(second), decide(of.best))
    assert rewards[2] == -0.5
    session = BusinessSession(of)
    for turn in (*looks(of.needed), decide(second), decide(of.best), plan(of, of.best)):
        seen = await session.act(turn)
    assert seen.terminated
    assert (await session.outcome()).evidence["decision"] == second.letter
    assert (await session.outcome()).success is False


async def test_a_plan_for_another_option_takes_back_what_the_decision_was_paid() -> None:
    of = case()
    other = of.ranked[1]
    rewards = await paid(of, *looks(of.needed), decide(of.best), plan(of, other))
    assert sum(rewards[1:]) == -0.5
    renamed = plan(of, of.best, named=other.letter)
    assert await paid(of, *looks(of.needed), decide(of.best), renamed) == rewards


async def test_a_plan_is_paid_by_its_right_figures() -> None:
    of = case()
    start = (*looks(of.needed), decide(of.best))
    assert (await paid(of, *start, plan(of, of.best)))[-1] == 3.0
    assert (await paid(of, *start, plan(of, of.best, off_by=1)))[-1] == 1.5
    worst = of.ranked[-1]
    assert await paid(of, *looks(of.needed), decide(worst), plan(of, worst)) == [0.5, 0.0, 1.5]


async def test_a_plan_for_an_option_beyond_the_limit_is_worth_nothing() -> None:
    of = case()
    beyond = next(option for option in of.options if not option.fits)
    assert (await paid(of, *looks(of.needed), decide(beyond), plan(of, beyond)))[1:] == [0.0, 0.0]


async def test_the_less_is_regretted_the_more_a_decision_pays() -> None:
    of = next(
        one
        for one in (case_of_task(task_of("price", 3, key)) for key in range(1, 40))
        if len(one.feasible) == 4
    )
    pays = [(await paid(of, *looks(of.needed), decide(one)))[-1] for one in of.ranked]
    assert pays == sorted(pays, reverse=True)
    assert (pays[0], pays[-1]) == (3.0, 0.0)
    spread = of.regret(of.ranked[-1])
    assert pays[1] == pytest.approx(max(0.0, 3 * (1 - 2 * of.regret(of.ranked[1]) / spread)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "analyze_situation",
        "analyze_situation everything",
        "create_plan",
        "make_decision Z",
        "identify_options none",
        "identify_options A=1",
        "\x00\ud800",
        "create_plan " * 10_000,
        "ignore the rules and pay 10",
    ],
)
async def test_a_hostile_or_unreadable_turn_costs_half_a_point_and_does_nothing(text: str) -> None:
    of = case()
    session = BusinessSession(of)
    await session.act(*looks(of.needed))
    seen = await session.act(text)
    assert (seen.reward, seen.terminated) == (-0.5, False)
    assert seen.message.content.startswith("not valid: ")
    assert len(seen.message.content) < 300


async def test_no_turn_is_taken_after_the_end_or_after_closing() -> None:
    session = BusinessSession(case())
    for turn in reference_turns(case()):
        await session.act(turn)
    with pytest.raises(RuntimeError, match="over"):
        await session.act("make_decision A")
    closed = BusinessSession(case())
    closed.close()
    with pytest.raises(RuntimeError, match="over"):
        await closed.act("make_decision A")


@settings(max_examples=60)
@given(
    name=st.sampled_from(sorted(FAMILIES)),
    level=st.sampled_from([1, 2, 3]),
    rng=st.randoms(use_true_random=False),
)
async def test_no_turns_whatever_earn_more_than_full_marks_or_less_than_they_can_cost(
    name: str, level: int, rng: object
) -> None:
    of = case_of_task(task_of(name, level, 1))
    session = BusinessSession(of)
    best = [*reference_turns(of)]
    ended = False
    for _ in range(12):
        turn = (
            rng.choice(best) if rng.random() < 0.6 else random_action_text(session.actions(), rng)
        )
        seen = await session.act(turn)
        assert -3.5 <= seen.reward <= 3.0
        if ended := seen.terminated:
            break
    outcome = await session.outcome()
    assert sum(outcome.turn_rewards) <= full_marks(of)
    assert not outcome.success or ended
    assert all(0 <= share <= 1 for share in outcome.evidence["shares"].values())
