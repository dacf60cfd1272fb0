"""Whether a run begins with imitation."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from practicum.agents.loops import DiscreteAgent
from practicum.agents.rollout import RolloutParts
from practicum.core.config.config_sections import EvalConfig, WarmStartConfig
from practicum.core.config.parse_config import build_config
from practicum.core.errors import UserError
from practicum.core.task import Split, Task
from practicum.environments.reference_policies import ReferenceConversation, random_conversation
from practicum.rewards.verifiable import TurnRewards
from practicum.training.warm_start import (
    fitting_eval,
    may_end,
    settle_warm_start,
    shortened,
)
from practicum_envs.math.math_environment import MathEnvironment, MathOptions


class Unsolved(MathEnvironment):
    """Tasks without solutions."""

    def reference(self, task: Task) -> Sequence[str]:
        return ()


def parts(environment: MathEnvironment, *, able: bool) -> RolloutParts:
    solver = MathEnvironment(MathOptions())

    def converse(task: Task, seed: int) -> Any:
        return ReferenceConversation(solver, task) if able else random_conversation(seed)

    return RolloutParts(
        environment=environment,
        agent=DiscreteAgent(max_turns=6 if able else 1),
        reward=TurnRewards(),
        converse=converse,
    )


async def settled(
    steps: int = 24, able: bool = False, solved: bool = True, turns: int = 6, **more: Any
) -> Any:
    config = build_config({"env": "math", "steps": steps, **more})
    environment = (MathEnvironment if solved else Unsolved)(MathOptions())
    solver = parts(environment, able=turns > 1)
    return await settle_warm_start(config, environment, parts(environment, able=able), solver)


async def test_a_policy_that_solves_nothing_imitates_first() -> None:
    config, reason = await settled()
    assert (config.warm_start.name, config.warm_start.steps) == ("reference", 18)
    assert [(s.algorithm.name, s.steps) for s in config.all_stages] == [("sft", 18), ("grpo", 6)]
    assert reason == (
        "the model solves 0 of 16 training tasks: first it imitates solutions, until it solves "
        "50%, at most 18 steps (warm_start=none leaves that out)"
    )


async def test_a_policy_that_solves_them_practises_at_once() -> None:
    config, reason = await settled(able=True)
    assert config.warm_start.name == "none"
    assert [(s.algorithm.name, s.steps) for s in config.all_stages] == [("grpo", 24)]
    assert reason == "the model solves 16 of 16 training tasks: no warm start"


@pytest.mark.parametrize(("steps", "warm"), [(2, 0), (7, 0), (8, 6), (30, 22), (80, 60)])
async def test_imitation_is_at_most_three_quarters_of_the_steps(steps: int, warm: int) -> None:
    config, _ = await settled(steps)
    assert config.warm_start.steps == warm
    assert sum(stage.steps for stage in config.all_stages) == steps


async def test_what_is_asked_for_is_done_without_trying() -> None:
    config, reason = await settled(warm_start={"name": "reference", "steps": 3}, able=True)
    assert (config.warm_start.steps, reason) == (3, "")
    assert (await settled(warm_start="none")).config.warm_start.name == "none"


@pytest.mark.parametrize(
    ("asked", "until"), [({}, 0.5), ({"steps": 9}, 0.0), ({"steps": 9, "until": 0.9}, 0.9)]
)
async def test_imitation_ends_early_unless_its_steps_are_told(asked: Any, until: float) -> None:
    config, _ = await settled(warm_start={"name": "reference", **asked})
    assert config.warm_start.until == until


def test_it_is_looked_at_after_twice_as_many_steps_each_time() -> None:
    warm = WarmStartConfig(name="reference", steps=60, until=0.5)
    assert [n for n in range(80) if may_end(warm, n)] == [2, 4, 8, 16, 32]
    assert not any(may_end(WarmStartConfig(name="reference", steps=60), n) for n in range(80))


async def test_practice_begins_when_enough_is_solved() -> None:
    warm = {"name": "reference", "steps": 60, "until": 0.5}
    config = build_config({"env": "math", "steps": 80, "warm_start": warm})
    environment = MathEnvironment(MathOptions())
    assert await shortened(config, environment, parts(environment, able=False), 8) is None
    found = await shortened(config, environment, parts(environment, able=True), 8)
    assert found is not None
    assert [stage.steps for stage in found.all_stages] == [8, 72]
    assert found.warm_start.until == 0.0  # decided, also for whoever resumes the run


async def test_without_solutions_there_is_nothing_to_imitate() -> None:
    assert (await settled(solved=False)).config.warm_start.name == "none"
    with pytest.raises(UserError, match="type warm_start=none"):
        await settled(solved=False, warm_start="reference")


async def test_an_environment_that_knows_no_solutions_is_practised_in() -> None:
    class Bare:
        name = "bare"
        tasks = MathEnvironment(MathOptions()).tasks
        open = MathEnvironment(MathOptions()).open

    bare: Any = Bare()
    config = build_config({"env": "math", "steps": 24})
    found = await settle_warm_start(config, bare, parts(bare, able=False), parts(bare, able=False))
    assert found.config.warm_start.name == "none"


async def test_solutions_that_solve_nothing_are_not_imitated() -> None:
    config, reason = await settled(turns=1)
    assert config.warm_start.name == "none"
    assert reason == (
        "warning: no imitation first: the reference solves 0 of 4 training tasks; see why with "
        "practicum tasks math --check 20"
    )


async def test_without_solutions_it_is_said_that_nothing_is_imitated() -> None:
    told = "no imitation first: 16 of 16 training tasks have no reference"
    assert (await settled(solved=False)).reason == told


async def test_solutions_with_too_many_turns_are_told_with_what_to_type() -> None:
    config, reason = await settled(rollouts={"max_turns": 3})
    assert config.warm_start.name == "none"
    assert reason == (
        "warning: no imitation first: 1000 of 1000 references have more than 3 turns; type "
        "rollouts.max_turns=4"
    )


class Mixed(MathEnvironment):
    """Every other task has a solution that no episode has room for."""

    def reference(self, task: Task) -> Sequence[str]:
        return [*super().reference(task)] * (3 if len(task.instruction) % 2 else 1)


async def test_where_some_solutions_fit_imitation_comes_first_and_the_limit_is_told() -> None:
    config = build_config({"env": "math", "steps": 24})
    mixed = Mixed(MathOptions())
    able, unable = parts(mixed, able=True), parts(mixed, able=False)
    config, reason = await settle_warm_start(config, mixed, unable, able)
    assert config.warm_start.name == "reference"
    told = reason.partition("\n")[2]
    assert told.startswith("warning: ")
    assert "more than 8 turns; type rollouts.max_turns=12, since practice cuts them off" in told


def test_a_run_that_was_settled_may_be_made_longer() -> None:
    config = build_config(
        {"env": "math", "steps": 40, "warm_start": {"name": "reference", "steps": 6}}
    )
    assert [stage.steps for stage in config.all_stages] == [6, 34]


@pytest.mark.parametrize(
    "values",
    [
        {"env": "math", "steps": 8, "algorithm": "sft", "data": "reference"},
        {"env": "math", "stages": [{"steps": 8, "algorithm": "grpo"}]},
        {"env": "math", "steps": 1},
    ],
)
def test_other_runs_do_not_warm_start(values: dict[str, Any]) -> None:
    assert not build_config(values).may_warm_start
    assert len(build_config({**values, "warm_start": "reference"}).all_stages) == 1


class Few:
    """An environment with three held-out tasks."""

    name = "few"

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        return (Task(id=str(n), env=self.name, split=split) for n in range(3))


@pytest.mark.parametrize(("usual", "given"), [(100, 3), (2, 2)])
def test_no_more_held_out_tasks_are_taken_than_there_are(usual: int, given: int) -> None:
    assert fitting_eval(EvalConfig(n=usual), Few()).n == given  # type: ignore[arg-type]
