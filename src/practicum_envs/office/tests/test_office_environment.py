"""The environment's tasks, options and sandboxes, without a machine."""

import re
from itertools import islice
from typing import Any

import pytest

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.config.reward_config import RewardConfig
from practicum.core.errors import ConfigError, UserError
from practicum.core.task import Outcome, Split, Task
from practicum.core.trace import Trace
from practicum.environments.registry import build_environment
from practicum.rewards.verifiable import AgentCompanyScore
from practicum.sandboxes.fake_sandbox import FakeSandboxes
from practicum_envs.office.checkpoint_scoring import Points, s_score, with_bonus
from practicum_envs.office.office_environment import LEVELS, OfficeEnvironment
from practicum_envs.office.office_plan import FAMILIES
from practicum_envs.office.office_session import example_messages


def environment(**options: object) -> OfficeEnvironment:
    made = build_environment("office", options)
    assert isinstance(made, OfficeEnvironment)
    return made


def families_of(made: OfficeEnvironment, split: str) -> set[str]:
    tasks = islice(made.tasks(split, 0), 40)  # type: ignore[arg-type]
    return {str(task.data["family"]) for task in tasks}


def test_families_are_trained_on_or_held_out_and_never_both() -> None:
    made = environment()
    assert families_of(made, "train")
    assert families_of(made, "heldout")
    assert not families_of(made, "train") & families_of(made, "heldout")
    names = environment(heldout="names")
    assert families_of(names, "heldout") == families_of(names, "train")


def test_tasks_are_chosen_by_family_domain_and_service() -> None:
    only = environment(families=["file-an-issue"])
    assert families_of(only, "train") == {"file-an-issue"}
    in_gitlab = families_of(environment(services=["gitlab"]), "train")
    assert "file-an-issue" in in_gitlab
    assert all(set(FAMILIES[name].services) == {"gitlab"} for name in in_gitlab)
    of_admin = families_of(environment(domains=["admin"]), "train")
    assert "announce-in-channel" in of_admin
    assert {FAMILIES[name].domain for name in of_admin} == {"admin"}
    with pytest.raises(UserError, match="no family 'none'"):
        environment(families=["none"])


def test_a_task_is_found_again_by_its_id() -> None:
    made = environment()
    for task in islice(made.tasks("heldout", 3), 5):
        assert made.find(task.id) == task
    with pytest.raises(UserError, match="there is no task"):
        made.find("office-train-none-s0-0")


async def test_a_sandbox_without_a_network_is_refused_in_a_sentence() -> None:
    made = environment()
    done = CommandResult(status=CommandStatus.OK, exit_code=0)
    made.use_sandboxes(lambda kind: FakeSandboxes(lambda ran: done))
    with pytest.raises(UserError, match=r"write env\.sandbox=bubblewrap"):
        async with made.open(next(made.tasks("train", 0))):
            pass


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigError, match="protocol"):
        environment(protocoll="text")


def test_the_example_is_in_the_form_of_the_protocol() -> None:
    assert "Act: bash" in example_messages("text")[1].content
    assert '"bash"' in example_messages("tools")[1].content


def test_bonuses_are_those_of_the_benchmark() -> None:
    none, half = Points(total=1, result=0), Points(total=2, result=1)
    full = Points(total=3, result=3)
    assert with_bonus([none, half, full], "bonus_for_completing_final")[:2] == [
        Points(total=1, result=1),
        Points(total=2, result=2),
    ]
    assert with_bonus([none, full, half], "bonus_for_completing_any")[0].result == 1
    assert with_bonus([none, half], "bonus_for_completing_any") == [none, half]
    assert s_score([none, full]) == 0.375
    assert s_score([full]) == 1.0
    with pytest.raises(ValueError, match="2 of 1"):
        Points(total=1, result=2)


async def test_the_reward_is_the_s_score_of_the_evidence() -> None:
    made = environment()
    assert made.default_reward == RewardConfig(name="agent_company").name
    checkpoints = [{"says": "a", "points": 2, "result": 2}, {"says": "b", "points": 2, "result": 1}]
    outcome = Outcome(success=False, evidence={"checkpoints": checkpoints, "s_score": 0.375})
    task = Task(id="a", env="office", split="train")
    trace = Trace(id="t", task_id="a", env="office")
    assert (await AgentCompanyScore().score(task, trace, outcome)).value == 0.375


def first_task(split: Split, **options: Any) -> Task:
    return next(environment(**options).tasks(split, 0))


@pytest.mark.parametrize("split", ["train", "heldout"])
@pytest.mark.parametrize("domain", sorted({one.domain for one in FAMILIES.values()}))
@pytest.mark.parametrize("level", LEVELS)
def test_options_give_a_task_or_say_which_options_do(split: Split, domain: str, level: int) -> None:
    try:
        assert first_task(split, domains=[domain], level=level).level == level
        return
    except UserError as error:
        told = str(error)
    assert f"env.domains=[{domain}] env.level={level}" in told
    if split == "train":
        first_task(split, domains=[domain], level=int(told.rpartition("=")[2]))
    else:
        assert "env.heldout=names" in told
        if wider := re.search(r"write env.level=\[(.*?)\]", told):
            first_task(split, domains=[domain], level=[int(n) for n in wider[1].split(", ")])


@pytest.mark.parametrize("option", ["families", "domains", "services"])
def test_a_name_that_no_office_task_has_is_told_with_those_that_some_have(option: str) -> None:
    with pytest.raises(UserError, match=r"'nosuch' of office tasks; there are [a-z]"):
        environment(**{option: ["nosuch"]})
