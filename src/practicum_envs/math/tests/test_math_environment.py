from itertools import islice

import pytest

from practicum.core.interfaces import Environment
from practicum_envs.math.math_environment import MathEnvironment, MathOptions


def environment(**options: object) -> MathEnvironment:
    return MathEnvironment(MathOptions.model_validate(options))


async def test_a_whole_episode_is_the_equation_getting_simpler() -> None:
    math = environment()
    task = math.find("3x + 7 = 16")
    said, paid = [], []
    async with math.open(task) as session:
        for text in math.reference(task):
            seen = await session.act(text)
            said.append(seen.message.content)
            paid.append(seen.reward)
        outcome = await session.outcome()
    assert said == ["plus: 3x + 7 = 16", "3x = 9", "x = 3", "right: x = 3"]
    assert paid == [1.5, 2.0, 2.0, 3.0]
    assert seen.terminated
    assert outcome.success is True
    assert outcome.turn_rewards == (1.5, 2.0, 2.0, 3.0)
    assert outcome.evidence == {
        "problem": "3x + 7 = 16",
        "final_equation": "x = 3",
        "solution": "3",
        "stated_answer": "3",
        "ending": "right",
        "actions": ["identify_operation", "subtract_terms", "divide_terms", "state_answer"],
    }


async def test_a_wrong_answer_ends_the_episode_without_success() -> None:
    math = environment(level=3)
    task = next(math.tasks("train", 0))
    async with math.open(task) as session:
        early = await session.act("state_answer 9999")
        for text in math.reference(task)[:-1]:
            await session.act(text)
        seen = await session.act("state_answer 9999")
        outcome = await session.outcome()
    assert (early.terminated, early.reward) == (False, -0.5)
    assert (seen.terminated, seen.reward) == (True, -0.5)
    assert (outcome.success, outcome.turn_rewards[-1]) == (False, -0.5)
    assert outcome.evidence["stated_answer"] == "9999"


async def test_doing_nothing_earns_nothing_and_solves_nothing() -> None:
    math = environment()
    async with math.open(math.find("x = 5")) as session:
        outcome = await session.outcome()
    assert (outcome.success, outcome.turn_rewards) == (False, ())


async def test_a_session_takes_no_action_after_its_end_or_after_it_is_closed() -> None:
    math = environment()
    task = math.find("x = 5")
    async with math.open(task) as session:
        await session.act("state_answer")
        with pytest.raises(RuntimeError, match="over"):
            await session.act("state_answer")
    async with math.open(task) as closed:
        pass
    with pytest.raises(RuntimeError, match="over"):
        await closed.act("subtract_terms")


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
async def test_the_prompt_is_short_and_names_every_action(level: int) -> None:
    math = environment(level=level)
    task = next(math.tasks("train", 0))
    async with math.open(task) as session:
        rules, problem = session.prompt()
        assert (rules.role, problem.role) == ("system", "user")
        assert len(rules.content.split()) <= 60
        assert all(form.name in rules.content for form in session.actions())
        assert problem.content == task.instruction
        assert len(session.actions()) == 8


async def test_arguments_are_written_from_level_3() -> None:
    for level, with_argument in ((1, 0), (2, 0), (3, 5), (4, 5), (5, 5)):
        math = environment(level=level)
        async with math.open(next(math.tasks("train", 0))) as session:
            forms = session.actions()
        assert sum(form.argument is not None for form in forms) == with_argument


async def test_free_actions_are_read_from_what_is_written() -> None:
    math = environment(actions="free")
    async with math.open(math.find("3x + 7 = 16")) as session:
        assert session.actions() == ()
        assert (await session.act("Action: Subtract_Terms.")).reward == 2.0
        assert (await session.act("let me think about it")).reward == -0.5


def test_tasks_come_from_the_levels_asked_for() -> None:
    levels = {t.level for t in islice(environment(level=[2, 4]).tasks("heldout", 0), 60)}
    assert levels == {2, 4}


def test_levels_are_kept_once_and_in_order() -> None:
    assert MathOptions(level=[3, 1, 3]).levels == (1, 3)
    assert MathOptions().levels == (1,)


def test_it_is_an_environment() -> None:
    accepted: Environment = environment()
    assert accepted.name == "math"
