"""Samplers in other processes: what they draw, where it goes, and what happens when one is lost."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.unit.samplers.replica_servers import KEY, ServedApp, replica_app, served, tiny_base
from tests.unit.samplers.vllm_stub import VllmStub

from practicum.core.errors import PolicyMismatch, PracticumError, UserError
from practicum.core.sample import Group
from practicum.core.sampling import ActionForm, SamplingParams, SamplingRequest
from practicum.engine.sampling.json_grammar import JsonGrammars
from practicum.samplers.policy_elsewhere import PolicyElsewhere
from practicum.samplers.practicum_replica import EngineByHttp, PracticumReplica
from practicum.samplers.replica import ReplicaFailed
from practicum.samplers.replica_pool import Member
from practicum.workflows.own_loop import Policy

SHORT: dict[str, Any] = {
    "model": "tiny",
    "lora": "light",
    "algorithm": {"name": "grpo", "lr": 0.01},
    "rollouts": {"max_turns": 3},
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRACTICUM_SAMPLER_KEY", KEY)


def at_math(
    level: int = 1, kind: str = "engine", apps: Sequence[ServedApp] = (), **more: Any
) -> Policy:
    """The tiny model at math, sampled by replicas where there are any."""
    section = {"kind": kind, **({"urls": [app.url for app in apps]} if apps else {}), **more}
    return Policy("math", sampler=section, **{"env.level": level}, **SHORT)


def drawn(groups: Sequence[Group]) -> list[tuple[int, ...]]:
    """Every token of every episode, in order."""
    return [
        node.token_ids
        for group in groups
        for episode in group.episodes
        for node in episode.trace.nodes
        if node.sampled is not None
    ]


def live(policy: Policy) -> PolicyElsewhere:
    assert isinstance(policy._live, PolicyElsewhere)
    return policy._live


async def steps(policy: Policy, count: int) -> list[tuple[Any, Any]]:
    """What some steps sampled, and what they came to."""
    tasks, found = policy.environment.tasks("train", seed=0), []
    for _ in range(count):
        groups = await policy.roll_out(list(islice(tasks, 2)), group_size=4)
        report = await policy.update(groups)
        found.append((drawn(groups), report))
    return found


@pytest.mark.parametrize(
    "level",
    [pytest.param(1, marks=pytest.mark.rare, id="names"), pytest.param(4, id="arguments")],
)
async def test_two_replicas_give_what_one_process_gives(level: int) -> None:
    expected = await steps(at_math(level), 2)
    base = tiny_base()
    with served(lambda: replica_app(base), lambda: replica_app(base)) as apps:
        there = at_math(level, "practicum", apps)
        found = await steps(there, 2)
        counts = live(there)._pool.counts
        used = [member.replica.name for member in set(live(there)._pool._owners.values())]
        await there.close()
    for (tokens, report), (of_one, of_here) in zip(found, expected, strict=True):
        assert tokens == of_one
        assert report.loss == pytest.approx(of_here.loss, abs=1e-5)
        assert report.grad_norm == pytest.approx(of_here.grad_norm, rel=1e-4)
        assert 0.0 < report.logprob_gap < 1e-5
    assert len(used) == 2
    assert counts.strayed == counts.moved == 0 < counts.stayed


async def until(met: Any) -> None:
    """Wait for an event, for minutes at most."""
    async with asyncio.timeout(300):
        while not met():
            await asyncio.sleep(0.002)


async def test_a_replica_lost_in_the_middle_of_a_step_costs_no_episode_and_comes_back() -> None:
    base = tiny_base()
    with served(lambda: replica_app(base), lambda: replica_app(base)) as apps:
        policy = at_math(4, "practicum", apps)
        expected = await steps(at_math(4), 2)
        tasks, pool = next_tasks(policy, 4), live(policy)._pool
        rolling = asyncio.create_task(policy.roll_out(tasks[:2], group_size=4))
        await until(lambda: pool.counts.completions >= 20)
        await asyncio.to_thread(apps[0].kill)
        first = await rolling
        assert await policy.update(first) is not None
        assert pool.counts.lost == 1
        assert pool.counts.moved >= 1
        # The other one has the new weights alone, until the first comes back and is given them.
        await asyncio.to_thread(apps[0].start)
        await until(lambda: pool.counts.returned == 1)
        second = await policy.roll_out(tasks[2:], group_size=4)
        assert set(pool._owners.values()) == set(pool._members)
        await policy.close()
    # Each episode is there once, and is what it would have been.
    assert [drawn(first), drawn(second)] == [tokens for tokens, _ in expected]
    assert pool.counts.lost == pool.counts.returned == 1


@pytest.mark.rare
async def test_an_episode_waits_for_the_only_replica_to_come_back() -> None:
    base = tiny_base()
    with served(lambda: replica_app(base)) as apps:
        policy = at_math(1, "practicum", apps)
        apps[0].kill()
        rolling = asyncio.create_task(policy.roll_out(next_tasks(policy), group_size=2))
        await until(lambda: live(policy)._pool.counts.lost == 1)
        assert not rolling.done()
        apps[0].start()
        [group] = await rolling
        assert len(group.usable) == 2
        await policy.close()


def next_tasks(policy: Policy, count: int = 1) -> list[Any]:
    return list(islice(policy.environment.tasks("train", 0), count))


@pytest.mark.rare
async def test_a_replica_that_stays_away_stops_the_run_and_is_named() -> None:
    base = tiny_base()
    with served(lambda: replica_app(base)) as apps:
        policy = at_math(1, "practicum", apps, startup_timeout_s=1.0)
        apps[0].kill()
        with pytest.raises(ReplicaFailed, match=f"{apps[0].url} did not come back within 1 s"):
            await policy.roll_out(next_tasks(policy), group_size=2)
        await policy.close()


async def test_a_stale_adapter_on_a_replica_stops_the_run_and_names_it() -> None:
    base, other = tiny_base(), tiny_base()
    kept: list[Any] = []

    def keeps_first(folder: Path) -> Any:
        kept.append(base.load(folder))
        return kept[0]

    object.__setattr__(other, "load", keeps_first)
    with served(lambda: replica_app(base), lambda: replica_app(other)) as apps:
        policy = at_math(1, "practicum", apps)
        groups = await policy.roll_out(next_tasks(policy, 2), group_size=4)
        with pytest.raises(PolicyMismatch, match=f"the replica {apps[1].url} has the weights"):
            await policy.update(groups)
        with pytest.raises(PolicyMismatch, match=apps[1].url):  # also where an agent has hidden it
            await policy.roll_out(next_tasks(policy), group_size=2)
        await policy.close()


@pytest.mark.rare
async def test_another_adapter_in_the_published_folder_stops_the_run_at_its_replica() -> None:
    base = tiny_base()
    with served(lambda: replica_app(base)) as apps:
        policy = at_math(1, "practicum", apps)
        publisher = live(policy)._publisher
        write = publisher._write

        def write_another(folder: Path) -> None:
            write(folder)
            import safetensors.numpy as files

            path = folder / "adapter_model.safetensors"
            tensors = {name: one + 1e-3 for name, one in files.load_file(path).items()}
            files.save_file(tensors, path, metadata={"format": "pt"})

        publisher._write = write_another
        groups = await policy.roll_out(next_tasks(policy, 2), group_size=4)
        with pytest.raises(PolicyMismatch, match=f"the replica {apps[0].url} has the weights"):
            await policy.update(groups)
        await policy.close()


@pytest.mark.rare
async def test_vllm_that_goes_on_with_the_first_adapter_stops_the_run_and_is_named() -> None:
    stub, sound = VllmStub(), VllmStub()
    with served(sound.app, stub.app) as apps:
        policy = at_math(1, "vllm", apps)
        groups = await policy.roll_out(next_tasks(policy, 2), group_size=4)
        stub.keeps_first = True
        with pytest.raises(PolicyMismatch, match=f"the vLLM replica {apps[1].url} finds"):
            await policy.update(groups)
        await policy.close()


async def test_a_learner_that_sees_other_weights_says_which_replica_sampled_them() -> None:
    stub = VllmStub()
    with served(stub.app) as apps:
        policy = at_math(1, "vllm", apps)
        groups = await policy.roll_out(next_tasks(policy, 2), group_size=4)
        await policy.update(groups)
        stub._names[stub.loaded[-1]] = "a0"  # it falls back to the first adapter later on
        groups = await policy.roll_out(next_tasks(policy, 2), group_size=4)
        with pytest.raises(PolicyMismatch, match=f"(?s){apps[0].url} finds.*nothing was updated"):
            await policy.update(groups)
        await policy.close()


async def test_vllm_samples_what_the_learner_agrees_with() -> None:
    stub = VllmStub()
    with served(stub.app) as apps:
        policy = at_math(1, "vllm", apps)
        reports = [report for _, report in await steps(policy, 3) if report is not None]
        await policy.close()
    assert len(reports) >= 2
    for report in reports:
        assert 0.0 < report.logprob_gap < 1e-5
    # The first version and one after each update, each under a name of its own.
    assert len(set(stub.loaded)) == len(stub.loaded) == 1 + len(reports)
    assert stub.unloaded == stub.loaded  # the old ones on the way, the others at the end


@pytest.mark.rare
async def test_old_versions_are_given_up_after_staleness_and_two() -> None:
    base = tiny_base()
    with served(lambda: replica_app(base)) as apps:
        policy = Policy(
            "math",
            sampler={"kind": "practicum", "urls": [apps[0].url]},
            **{"rollouts.staleness": 1},
            **{**SHORT, "rollouts": {"max_turns": 3, "staleness": 1}},
        )
        held = []
        for _ in range(4):
            await steps(policy, 1)
            [member] = live(policy)._pool._members
            folders = sorted(path.name for path in live(policy)._publisher._root.iterdir())
            held.append((len(member.loaded), len(folders)))
        root = live(policy)._publisher._root
        await policy.close()
    assert held == [(2, 2), (3, 3), (3, 3), (3, 3)]
    assert not root.exists()


async def test_a_replica_that_does_not_answer_in_time_stops_the_run_and_is_named() -> None:
    stub = VllmStub()
    with served(stub.app) as apps:
        policy = at_math(1, "vllm", apps, timeout_s=1.0)
        stub.hangs = True
        with pytest.raises(ReplicaFailed, match=f"{apps[0].url} did not answer within 1 s"):
            await policy.roll_out(next_tasks(policy), group_size=2)
        stub.hangs = False
        await policy.close()


@pytest.mark.rare
async def test_a_replica_has_no_more_requests_at_once_than_it_is_given() -> None:
    most: list[int] = []
    counter = SamplerCount(tiny_base(), most)
    with served(lambda: replica_app(counter.base, at_once=3)) as apps:
        policy = at_math(1, "practicum", apps, at_once=2)
        [group] = await policy.roll_out(next_tasks(policy), group_size=8)
        await policy.close()
    assert len(group.usable) == 8
    assert max(most) == 2


@pytest.mark.rare
async def test_a_replica_without_room_is_asked_again() -> None:
    base = tiny_base()
    with served(lambda: replica_app(base, at_once=1)) as apps:
        policy = at_math(1, "practicum", apps)
        [group] = await policy.roll_out(next_tasks(policy), group_size=3)
        await policy.close()
    assert len(group.usable) == 3


class SamplerCount:
    """A base whose samplers note how many requests are under way."""

    def __init__(self, base: Any, most: list[int]) -> None:
        self._load, self._most, self._now = base.load, most, 0
        self.base = base
        object.__setattr__(base, "load", self.load)

    def load(self, folder: Path) -> Any:
        inner, outer = self._load(folder), self

        class Counted:
            async def sample(self, request: SamplingRequest) -> Any:
                outer._now += 1
                outer._most.append(outer._now)
                try:
                    return await inner.sample(request)
                finally:
                    outer._now -= 1

            def fingerprint(self) -> str:
                return str(inner.fingerprint())

            def forget(self) -> None:
                pass

        return Counted()


@pytest.mark.rare
async def test_a_turn_held_to_a_schema_is_the_same_on_a_replica_and_refused_by_vllm() -> None:
    base, stub = tiny_base(), VllmStub()
    here = at_math()
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "yz"]}}, "required": ["a"]}
    grammar = JsonGrammars(here._live.tokenizer).of(schema)
    request = SamplingRequest(
        prompt_ids=(70, 71, 72), params=SamplingParams(seed=3, max_tokens=40), grammar=grammar
    )
    expected = await here._live.sampler.sample(request)
    with served(lambda: replica_app(base), stub.app) as [ours, theirs]:
        there = at_math(1, "practicum", [ours])
        found = await there._live.sampler.sample(request)
        await there.close()
        vllm = at_math(1, "vllm", [theirs])
        with pytest.raises(UserError, match=f"{theirs.url} cannot hold a turn to a grammar"):
            await vllm._live.sampler.sample(request)
        await vllm.close()
    assert found.text == expected.text
    assert found.token_ids == expected.token_ids
    assert found.log_kept == pytest.approx(expected.log_kept, abs=1e-5)


@pytest.mark.rare
def test_what_cannot_be_sampled_on_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    base, stub = tiny_base(), VllmStub()
    with served(lambda: replica_app(base), stub.app) as [ours, theirs]:
        for kind, app, patch, sentence in [
            ("practicum", theirs, KEY, "answered 404"),
            ("practicum", ours, "another", "refuses the key"),
            ("vllm", ours, KEY, "answered 404"),
        ]:
            monkeypatch.setenv("PRACTICUM_SAMPLER_KEY", patch)
            with pytest.raises(PracticumError, match=f"{app.url}.* {sentence}"):
                at_math(1, kind, [app])
        ours.kill()
        with pytest.raises(PracticumError, match=f"{ours.url} cannot be reached; start it"):
            at_math(1, "practicum", [ours])
        other = tiny_base()
        object.__setattr__(other, "fingerprint", "0123456789abcdef")
        with served(lambda: replica_app(other)) as [app]:
            monkeypatch.setenv("PRACTICUM_SAMPLER_KEY", KEY)
            with pytest.raises(PracticumError, match=f"{app.url} has the base model '0123"):
                at_math(1, "practicum", [app])


async def test_a_failed_groups_hotter_try_is_no_hotter_than_vllm_takes_and_says_so() -> None:
    stub = VllmStub()
    names = (ActionForm(name="stop"), ActionForm(name="stay"))
    params = SamplingParams(seed=3, max_tokens=9, temperature=2.25)
    with served(stub.app) as apps:
        policy = at_math(1, "vllm", apps)
        asked = SamplingRequest(prompt_ids=(65, 66), params=params, actions=names)
        found = await policy._live.sampler.sample(asked)
        await policy.close()
    assert found.temperature == 2.0  # what the learner computes with
    assert found.text in ("stop", "stay")


@pytest.mark.rare
def test_an_action_written_by_choices_is_what_the_engine_writes() -> None:
    digits = ActionForm(name="add", argument=few_digits)
    forms = (digits, ActionForm(name="stop"), ActionForm(name="stay"))
    here, stub, base = at_math(), VllmStub(), tiny_base()
    requests = [
        SamplingRequest(
            prompt_ids=(65, 66, seed), params=SamplingParams(seed=seed, max_tokens=9), actions=forms
        )
        for seed in range(12)
    ]
    with served(lambda: replica_app(base), stub.app) as [ours, theirs]:
        practicum, vllm = at_math(1, "practicum", [ours]), at_math(1, "vllm", [theirs])

        async def all_of(policy: Policy) -> list[Any]:
            return [await policy._live.sampler.sample(request) for request in requests]

        expected, same, others = (asyncio.run(all_of(p)) for p in (here, practicum, vllm))
        for policy in (practicum, vllm):
            asyncio.run(policy.close())
    for one, two, three in zip(expected, same, others, strict=True):
        assert (two.token_ids, two.choices, two.loss_mask) == (
            one.token_ids,
            one.choices,
            one.loss_mask,
        )
        assert two.logprobs == pytest.approx(one.logprobs, abs=1e-5)
        assert two.text == one.text
        # vLLM draws other numbers; what is allowed where they agree so far is the same.
        alike = 0
        while one.token_ids[alike : alike + 1] == three.token_ids[alike : alike + 1] != ():
            assert three.choices[alike] == one.choices[alike]
            assert three.logprobs[alike] == pytest.approx(one.logprobs[alike], abs=1e-5)
            alike += 1
        assert three.text.split()[0] in ("add", "stop", "stay")


def few_digits(written: str) -> Any:
    from practicum.core.sampling import NextCharacters

    return NextCharacters(allowed="0123456789" if len(written) < 3 else "", may_end=bool(written))


class StartsApp:
    """Implements `RunsReplica`: a replica that is served from when it is started."""

    def __init__(self, app: ServedApp) -> None:
        self._app, self.runs, self.starts = app, False, 0

    def start(self) -> None:
        self.runs, self.starts = True, self.starts + 1

    async def until(self, answers: Any) -> None:
        assert await answers()

    def said(self) -> str:
        return ""

    def close(self) -> None:
        self.runs = False


class EndsWhileStarting(StartsApp):
    """One that ends so many times while it starts."""

    def __init__(self, app: ServedApp, ends: int) -> None:
        super().__init__(app)
        self._ends = ends

    def start(self) -> None:
        super().start()
        self.runs = self.starts > self._ends
        if self.runs:
            self._app.start()

    async def until(self, answers: Any) -> None:
        if not self.runs:
            raise ReplicaFailed("it ended while starting")
        await super().until(answers)


@pytest.mark.parametrize("ends", [3, 4])
async def test_a_replica_that_ends_while_it_starts_again_is_started_up_to_four_times(
    ends: int,
) -> None:
    base = tiny_base()
    with served(lambda: replica_app(base)) as apps:
        policy = at_math(1, "practicum", apps)
        pool, process = live(policy)._pool, EndsWhileStarting(apps[0], ends)
        pool._members[0].process = process
        apps[0].kill()
        if ends < 4:
            [group] = await policy.roll_out(next_tasks(policy), group_size=2)
            assert len(group.usable) == 2
            assert pool.counts.lost == pool.counts.returned == 1
        else:
            with pytest.raises(ReplicaFailed, match="ended 4 times in a row"):
                await policy.roll_out(next_tasks(policy), group_size=2)
        assert process.starts == 4
        await policy.close()


async def test_a_replica_is_added_while_requests_wait_and_ended_when_none_has() -> None:
    base = tiny_base()
    with served(lambda: replica_app(base), lambda: replica_app(base)) as apps:
        policy = at_math(1, "practicum", apps[:1], at_once=1)
        live_policy, pool = live(policy), live(policy)._pool
        engine = EngineByHttp(apps[1].url, KEY)
        added = StartsApp(apps[1])
        known = live_policy.learner.fingerprint().partition("+")[0]
        pool._another = lambda number: Member(
            replica=PracticumReplica(engine, known), process=added
        )
        pool._limits = replace(pool._limits, most=2)
        groups = await policy.roll_out(next_tasks(policy, 2), group_size=4)
        assert [len(group.usable) for group in groups] == [4, 4]
        assert (pool.counts.added, len(pool.replicas), added.runs) == (1, 2, True)
        assert policy._live.sampler.sampling_metrics()["replicas"] == 2  # type: ignore[attr-defined]
        keep = 2
        for version, stays in (("one", 2), ("two", 1)):
            newest = replace(pool.newest, name=f"policy@{version}")
            await live_policy._network.run_async(pool.publish(newest, keep))
            assert len(pool.replicas) == stays
        assert not added.runs
        await policy.close()
