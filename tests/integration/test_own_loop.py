"""`pr.Policy`: the two ends of a policy in a loop that the user writes."""

import ast
import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

import practicum as pr

REPOSITORY = Path(__file__).parents[2]
SMALL = {"rollouts.max_turns": 4, "algorithm.lr": 1e-3}


def tasks_of(policy: pr.Policy, count: int = 2) -> list[pr.Task]:
    return list(islice(policy.environment.tasks("train", 0), count))


def grpo_by_hand(group: pr.Group) -> list[float]:
    mean, spread = fmean(group.values), stdev(group.values)
    return [(value - mean) / (spread + 1e-4) for value in group.values]


def versions_of(groups: Sequence[pr.Group]) -> set[str]:
    spans = [
        node.sampled for g in groups for e in g.usable for node in e.trace.nodes if node.sampled
    ]
    return {span.fingerprint for span in spans}


def adapter(policy: pr.Policy, folder: Path) -> bytes:
    policy.save(folder)
    return (folder / "adapter_model.safetensors").read_bytes()


@pytest.fixture
async def policy() -> AsyncIterator[pr.Policy]:
    made = pr.Policy("math", model="tiny", **SMALL)
    yield made
    await made.close()


def test_the_loop_on_one_page_imports_the_package_alone() -> None:
    tree = ast.parse((REPOSITORY / "examples" / "00_loop.py").read_text(encoding="utf-8"))
    imported = [
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        )
    ]
    assert [name for name in imported if name and "practicum" in name] == ["practicum"]


async def test_an_update_publishes_what_is_sampled_from_next(policy: pr.Policy) -> None:
    first = policy.version
    groups = await policy.roll_out(tasks_of(policy), group_size=4)
    assert versions_of(groups) == {first}
    report = await policy.update(groups, [[1.0, -1.0, 0.5, -0.5]] * 2)
    assert report is not None
    assert report.applied
    assert report.fingerprint == policy.version == policy.publish() != first
    later = await policy.roll_out(tasks_of(policy), group_size=1)
    assert versions_of(later) == {policy.version}


async def test_advantages_by_hand_move_the_weights_as_the_algorithms_own(tmp_path: Path) -> None:
    given: list[bytes] = []
    for by_hand in (False, True):
        policy = pr.Policy("math", model="tiny", **SMALL, **{"algorithm.credit": "episode"})
        groups = await policy.roll_out(tasks_of(policy, 6), group_size=6)
        informative = [g for g in groups if len(set(g.values)) > 1]
        assert informative
        hand = [grpo_by_hand(group) for group in informative]
        report = await (policy.update(informative, hand) if by_hand else policy.update(groups))
        assert report is not None
        given.append(adapter(policy, tmp_path / str(by_hand)))
    assert given[0] == given[1]


async def test_groups_that_are_worth_the_same_teach_nothing(policy: pr.Policy) -> None:
    first = policy.version
    groups = await policy.roll_out(tasks_of(policy), group_size=1)
    assert await policy.update(groups) is None
    assert policy.version == first


async def test_rollouts_go_on_during_an_update_and_every_token_names_its_weights(
    policy: pr.Policy,
) -> None:
    first = policy.version
    groups = await policy.roll_out(tasks_of(policy), group_size=4)
    going_on = asyncio.create_task(policy.roll_out(tasks_of(policy, 4), group_size=4))
    begun: Any = policy._live.sampler
    passes = begun.passes
    while begun.passes < passes + 2:
        await asyncio.sleep(0)
    await policy.update(groups, [[1.0, -1.0, 0.5, -0.5]] * 2)
    late = await going_on
    assert versions_of(late) <= {first, policy.version}
    assert first in versions_of(late)
    report = await policy.update(late)  # tokens of the first version count with their ratio
    assert report is None or report.applied


async def test_what_is_saved_goes_on_where_it_was(policy: pr.Policy, tmp_path: Path) -> None:
    groups = await policy.roll_out(tasks_of(policy), group_size=4)
    marks = [[1.0, -1.0, 0.5, -0.5]] * 2
    await policy.update(groups, marks)
    saved = adapter(policy, tmp_path / "a")
    other = pr.Policy("math", model="tiny", **SMALL)
    assert other.version != policy.version
    other.load(tmp_path / "a")
    assert other.version == policy.version
    assert adapter(other, tmp_path / "b") == saved
    said = [await one.sample("Solve for x: 3x + 7 = 16", seed=3) for one in (policy, other)]
    assert said[0] == said[1]
    assert said[0].fingerprint == policy.version
    more = [await one.update(groups, marks) for one in (policy, other)]
    assert more[0] is not None
    assert policy.version == other.version != said[0].fingerprint


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        ([[1.0, -1.0]], "advantages for 1 groups and 2 groups"),
        ([[1.0, -1.0], [1.0]], "group 2 has 2 usable episodes and 1 advantages"),
        ([[1.0, -1.0], [[1.0] * 99, 0.0]], "turns and 99 advantages"),
    ],
)
async def test_advantages_that_do_not_fit_are_refused(
    policy: pr.Policy, marks: Any, said: str
) -> None:
    groups = await policy.roll_out(tasks_of(policy), group_size=2)
    first = policy.version
    with pytest.raises(pr.UserError, match=said):
        await policy.update(groups, marks)
    assert policy.version == first


def test_a_method_that_does_not_act_is_refused_before_anything_is_loaded() -> None:
    data = {"source": "none yet"}
    with pytest.raises(pr.UserError, match="learns from recorded examples"):
        pr.Policy("math", model="tiny", algorithm={"name": "sft"}, data=data)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pr.UserError, match="is no folder"):
        pr.Policy("math", model="tiny").load(tmp_path / "nowhere")
