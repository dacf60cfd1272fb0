"""What programs earn: the solution all, near-misses no success, tricks next to nothing."""

import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from practicum_envs.code.code_environment import CodeEnvironment, problem_in, task_of
from practicum_envs.code.code_probes import HOSTILE, LARGEST_SHARE, hostile_program, probes
from practicum_envs.code.code_scripts import Scripts, lookup
from practicum_envs.code.families.all_code_families import code_families
from practicum_envs.code.tests.code_play import environment, played, some_tasks

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed"),
    pytest.mark.asyncio(loop_scope="module"),
]
EVERY = sorted(code_families())
A_FEW = ("running_totals", "read_pairs", "total_by_group", "small_cache")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env() -> AsyncIterator[CodeEnvironment]:
    made = environment()
    yield made
    await made.close()


def series_of(family: str) -> str:
    return "kinds" if code_families()[family].heldout else "train"


async def test_the_reference_earns_full_marks_and_near_misses_do_not_succeed(
    env: CodeEnvironment,
) -> None:
    for family in A_FEW:
        for level in (1, 2, 3):
            task = task_of(family, level, 5, 0, series_of(family))  # type: ignore[arg-type]
            _, total, outcome = await played(env, task, env.reference(task))
            assert outcome.success, outcome.evidence
            assert total == pytest.approx(env.full_marks(task))
            for turns in env.near_misses(task):
                _, less, outcome = await played(env, task, turns)
                assert outcome.success is False, (task.id, turns, outcome.evidence)
                assert less < 0.9, (task.id, turns)


async def test_an_episode_without_turns_is_worth_nothing(env: CodeEnvironment) -> None:
    for level in (1, 3):
        _, total, outcome = await played(env, task_of("count_pairs", level, 0, 0, "train"), ())
        assert (total, outcome.success) == (0.0, False)


async def worst_share(env: CodeEnvironment, families: tuple[str, ...], level: int) -> float:
    worst = -1.0
    for family in families:
        task = task_of(family, level, 1, 0, series_of(family))  # type: ignore[arg-type]
        for name, turns in probes(problem_in(task)).items():
            _, total, outcome = await played(env, task, turns)
            assert outcome.success is False
            assert total < LARGEST_SHARE * env.full_marks(task), (task.id, name, total)
            worst = max(worst, total)
    return worst


async def test_no_probe_earns_a_quarter_of_the_honest_reward(env: CodeEnvironment) -> None:
    assert len(probes(problem_in(task_of("count_above", 1, 1, 0, "train")))) >= 8
    assert await worst_share(env, A_FEW, 1) < LARGEST_SHARE
    assert await worst_share(env, ("count_pairs",), 3) < LARGEST_SHARE


@pytest.mark.rare
@pytest.mark.parametrize("level", [1, 2, 3])
async def test_no_probe_earns_a_quarter_of_the_honest_reward_in_any_family(
    env: CodeEnvironment, level: int
) -> None:
    assert await worst_share(env, tuple(EVERY), level) < LARGEST_SHARE


ENDLESS = ("starts processes", "takes all memory", "writes without end")


@pytest.mark.parametrize(
    "what", [pytest.param(one, marks=[pytest.mark.rare] * (one in ENDLESS)) for one in HOSTILE]
)
async def test_a_hostile_program_harms_nothing_and_is_not_paid(
    env: CodeEnvironment, what: str
) -> None:
    task = task_of("count_above", 1, 1, 0, "train")
    problem = problem_in(task)
    turns = [
        Scripts(problem).turn("write_function", hostile_program(problem, what)),
        "test_code",
        "submit",
    ]
    _, total, outcome = await played(env, task, turns)
    assert outcome.success is False
    assert total < LARGEST_SHARE
    _, total, outcome = await played(env, task, env.reference(task))
    assert total == pytest.approx(1.0), outcome.evidence


async def test_the_same_hostile_code_before_a_right_program_changes_no_verdict_for_the_better(
    env: CodeEnvironment,
) -> None:
    task = task_of("count_pairs", 3, 1, 0, "train")
    problem = problem_in(task)
    lie = HOSTILE["changes what compares"] + Scripts(problem).problem.program
    _, _total, outcome = await played(
        env, task, [Scripts(problem).turn("write_function", lie), "submit"]
    )
    assert outcome.success is False
    assert outcome.evidence["operations"] is None


async def test_the_shown_cases_by_heart_fail_the_hidden_ones(env: CodeEnvironment) -> None:
    for task in some_tasks(env, "train", 4, seed=3):
        problem = problem_in(task)
        source = lookup(problem, problem.visible)
        said, _, outcome = await played(
            env, task, [Scripts(problem).turn("write_function", source), "test_code", "submit"]
        )
        assert outcome.evidence["hidden_met"] < outcome.evidence["hidden"]  # type: ignore[operator]
        if problem.via == "call":
            assert said[1].startswith("2 of 2 tests pass")


async def test_operations_pay_only_where_they_are_few_and_can_be_counted(
    env: CodeEnvironment,
) -> None:
    task = task_of("count_pairs", 3, 0, 0, "train")
    problem = problem_in(task)
    write = Scripts(problem).turn

    async def earned(source: str) -> float:
        return (await played(env, task, [write("optimize", source), "submit"]))[1]

    fast = await earned(problem.program)
    slow = (await played(env, task, [write("add_logic", problem.line), "submit"]))[1]
    hidden = await earned(f"import os\n\nHERE = os.getcwd()\n\n\n{problem.program}")
    assert fast == pytest.approx(0.85)  # all but its own tests
    assert slow < 0.75
    assert hidden < 0.75


async def test_tests_of_ones_own_pay_for_the_mutants_they_catch(env: CodeEnvironment) -> None:
    task = task_of("count_above", 2, 0, 0, "train")
    problem = problem_in(task)
    write = Scripts(problem).turn
    begun = write("write_function", problem.program)

    async def earned(*tests: str) -> float:
        turns = [begun, *(write("test_code", one) for one in tests), "submit"]
        return (await played(env, task, turns))[1]

    all_of_them = await earned("\n".join(problem.own_tests))
    none = await earned()
    wrong = f"{problem.function}([1, 2, 3]) == 77"
    diluted = await earned("\n".join([*problem.own_tests, wrong]))
    assert all_of_them == pytest.approx(1.0)
    assert none == pytest.approx(0.8)
    assert none < diluted < all_of_them


async def test_what_is_no_turn_costs_little_and_ends_nothing(env: CodeEnvironment) -> None:
    task = task_of("count_above", 1, 0, 0, "train")
    turns = [
        "",
        "hello",
        "write_function",
        "write_function\nreturn 1",
        "add_logic\n\x00",
        "((" * 999,
    ]
    turns += ["test_code\nf(", "optimize", "debug", "write_function\n" + "(" * 3000]
    said, total, outcome = await played(env, task, turns)
    assert len(said) == len(turns)
    assert all(said)
    assert outcome.success is False
    assert total == pytest.approx(-0.02 * len(turns))
