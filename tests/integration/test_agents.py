"""Agents that are programs of their own, with the tiny model behind the gateway."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from practicum.agents.rollout import run_groups
from practicum.assemble.build_policy import build_policy
from practicum.assemble.environments import open_environment
from practicum.assemble.policies import sampling_params, sampling_policy
from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.sample import Group
from practicum.core.trace import StopReason
from practicum.core.trusted_code import remember
from practicum.core.user_code import consents_to
from practicum.store.trace_store import SqliteTraceStore

pytest.importorskip("uvicorn")

AGENTS = '''
import asyncio, sys, time


async def ask(task, client, **options):
    answer = await client.chat.completions.create(
        **{
            "model": "any-name",
            "messages": [{"role": "user", "content": task.instruction}],
            "max_tokens": 6,
            **options,
        }
    )
    return answer.choices[0].message.content or ""


async def rollout(task, client):
    return {"length": float(len(await ask(task, client)))}


async def always_alike(task, client):
    return float(len(await ask(task, client, temperature=0.0, seed=1)))


async def talkative(task, client):
    for _ in range(9):
        await ask(task, client)
    return 1.0


async def long_winded(task, client):
    return float(len(await ask(task, client, messages=[{"role": "user", "content": "x" * 5000}])))


def blocking(task, client):
    answer = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": task.instruction}], max_tokens=6
    )
    return len(answer.choices[0].message.content or "") / 6


STARTED = {"n": 0}


async def troubled(task, client):
    """Each way to go wrong in turn, with sound ones between."""
    STARTED["n"] += 1
    number = STARTED["n"] % 8
    if number == 1:
        raise RuntimeError("broken")
    text = await ask(task, client)
    if number == 3:
        await asyncio.sleep(60)
    if number == 5:
        return float("nan")
    if number == 7:
        sys.exit(1)
    return len(text) % 5


async def hopeless(task, client):
    raise RuntimeError("never works")


REPORT = {
    "type": "object",
    "properties": {"sum": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["sum"],
    "additionalProperties": False,
}
DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}
ADD = {
    "name": "add",
    "parameters": {
        "type": "object", "properties": {"a": DIGIT}, "required": ["a"],
        "additionalProperties": False,
    },
}


async def typed(task, client):
    """Calls a tool until it answers in its form: 1 for each call, and the sum."""
    import json

    messages, calls = [{"role": "user", "content": task.instruction}], 0
    while True:
        answer = await client.chat.completions.create(
            model="m",
            messages=messages,
            max_tokens=200,
            parallel_tool_calls=False,
            tools=[{"type": "function", "function": ADD}],
            response_format={
                "type": "json_schema", "json_schema": {"name": "report", "schema": REPORT},
            },
        )
        said = answer.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        for call in said.tool_calls or ():
            calls += 1
            total = str(json.loads(call.function.arguments)["a"] + 1)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": total})
        if not said.tool_calls:
            return {"calls": calls, "sum": json.loads(said.content)["sum"]}


async def solve(task, client, session):
    for _ in range(3):
        await ask(task, client)
        (first, *_) = session.actions()
        if (await session.act(first.name)).terminated:
            break
'''

COMMAND = """
import json, os, urllib.request

task = json.load(open(os.environ["PRACTICUM_TASK"]))
body = {"model": "m", "max_tokens": 6, "messages": task["messages"]}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    data=json.dumps(body).encode(),
    headers={
        "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
        "Content-Type": "application/json",
    },
)
print(len(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]))
"""

SCORE = "import sys; print('the program said', text := sys.stdin.read()); print(int(text) % 5)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("agents")
    rows = [{"id": f"t{n}", "prompt": f"Say {n}.", "answer": str(n)} for n in range(40)]
    (made / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (made / "agents.py").write_text(AGENTS)
    (made / "agent_command.py").write_text(COMMAND)
    (made / "score.py").write_text(SCORE)
    return made


def config_of(folder: Path, agent: Any, **changes: Any) -> RunConfig:
    remember(consents_to({"agent": agent}))
    return build_config(
        {
            "env": {"name": "tasks", "data": str(folder / "rows.jsonl")},
            "model": "tiny",
            "rollouts": {"max_tokens": 8, "max_turns": 4, "tasks_per_step": 2, "group_size": 4},
            "agent": agent,
            "hardware": {"threads": 1},
            **changes,
        }
    )


def function(folder: Path, name: str, **options: Any) -> dict[str, Any]:
    return {"name": "function", "path": f"{folder}/agents.py:{name}", **options}


@pytest.fixture(scope="module")
def policy(folder: Path) -> Any:
    return build_policy(config_of(folder, "auto"))


Play = Callable[..., Any]


@pytest.fixture
def play(policy: Any, folder: Path) -> Play:
    async def playing(agent: Any, *, seed: int = 0, **changes: Any) -> Group:
        config = config_of(folder, agent, **changes)
        environment = open_environment(config.env)
        params = sampling_params(config.rollouts, config.rollouts.temperature)
        player = sampling_policy("tiny", policy.sampler, policy.codec, params, policy.tokenizer)
        task = next(environment.tasks("train", 0))
        parts = player.parts(environment, config)
        (group,) = await run_groups(parts, [task], 4, label="x", seed=seed)
        return group

    return playing


async def test_a_function_gets_what_the_model_says_and_all_of_it_is_in_the_trace(
    play: Play, policy: Any, folder: Path
) -> None:
    group = await play(function(folder, "rollout"))
    assert len(group.usable) == 4
    for episode in group.episodes:
        (turn,) = [episode.trace.nodes[at] for at in episode.trace.turns]
        assert turn.sampled.fingerprint == policy.sampler.fingerprint()
        assert len(turn.sampled.logprobs) == len(turn.token_ids) <= 6
        assert turn.sampled.temperature == 1.0
        (said,) = turn.messages
        assert episode.score.components == {"length": float(len(said.content))}
    assert len({e.trace.nodes[-1].token_ids for e in group.episodes}) > 1
    again = await play(function(folder, "rollout"))
    # Requests come over the network: which are computed together, and so the last digits of their
    # log-probabilities, may differ; what is drawn may not.
    assert [_drawn(e) for e in again.episodes] == [_drawn(e) for e in group.episodes]


def _drawn(episode: Any) -> list[tuple[Any, ...]]:
    return [(node.parent, node.messages, node.token_ids) for node in episode.trace.nodes]


async def test_a_typed_result_agent_with_tools_calls_them_and_then_answers_in_its_form(
    play: Play, folder: Path
) -> None:
    limits = {"max_tokens": 200, "max_turns": 30, "tasks_per_step": 2, "group_size": 4}
    group = await play(function(folder, "typed"), rollouts=limits)
    assert len(group.usable) == 4
    calls = [int(episode.score.components["calls"]) for episode in group.episodes]
    assert max(calls) > 0
    for episode, count in zip(group.episodes, calls, strict=True):
        turns = [episode.trace.nodes[at] for at in episode.trace.turns]
        said = [turn.messages[-1] for turn in turns]
        assert [len(message.tool_calls) for message in said] == [1] * count + [0]
        assert json.loads(said[-1].content)["sum"] == episode.score.components["sum"]
        assert len(episode.trace.leaves()) == 1


async def test_the_run_decides_how_turns_are_drawn_unless_told_that_the_program_does(
    play: Play, folder: Path
) -> None:
    by_run = await play(function(folder, "always_alike"))
    by_client = await play(function(folder, "always_alike", sampling="client"))
    assert len({e.trace.nodes[-1].token_ids for e in by_run.episodes}) > 1
    assert len({e.trace.nodes[-1].token_ids for e in by_client.episodes}) == 1


async def test_a_program_that_meets_a_limit_ends_there_and_has_failed(
    play: Play, folder: Path
) -> None:
    group = await play(function(folder, "talkative"))
    assert {e.trace.stop for e in group.episodes} == {StopReason.MAX_TURNS}
    assert {e.trace.failure for e in group.episodes} == {None}
    assert {e.score.value for e in group.usable} == {0.0}
    assert {e.outcome.success for e in group.usable} == {False}
    assert {len(e.trace.turns) for e in group.usable} == {4}


async def test_a_programs_first_request_that_does_not_fit_is_its_own_failure(
    play: Play, folder: Path
) -> None:
    group = await play(function(folder, "long_winded"))
    assert group.usable == ()
    assert {e.trace.stop for e in group.episodes} == {StopReason.AGENT_FAILED}
    assert "maximum context length" in group.episodes[0].trace.failure.message


async def test_a_blocking_function_has_a_blocking_client(play: Play, folder: Path) -> None:
    group = await play(function(folder, "blocking"))
    assert len(group.usable) == 4


async def test_a_function_may_work_in_an_environments_session(play: Play, folder: Path) -> None:
    group = await play(function(folder, "solve"), env="math")
    assert len(group.usable) == 4
    assert all(len(e.outcome.turn_rewards) > 0 for e in group.episodes)
    assert all(e.score.value == pytest.approx(sum(e.outcome.turn_rewards)) for e in group.episodes)


async def test_a_failed_episode_is_tried_again_with_another_seed_and_then_masked(
    play: Play, folder: Path
) -> None:
    group = await play(function(folder, "troubled", deadline_s=5, retries=3))
    assert len(group.episodes) == len(group.usable) == 4
    lost = await play(function(folder, "hopeless", retries=1))
    assert len(lost.episodes) == 4
    assert lost.usable == ()
    assert {e.trace.stop for e in lost.episodes} == {StopReason.AGENT_FAILED}
    assert "RuntimeError: never works" in lost.episodes[0].trace.failure.message


async def test_a_command_is_scored_by_what_its_scorer_prints_last(play: Play, folder: Path) -> None:
    agent = {
        "name": "command",
        "command": [sys.executable, str(folder / "agent_command.py")],
        "score": [sys.executable, str(folder / "score.py")],
    }
    group = await play(agent)
    assert len(group.usable) == 4
    for episode in group.episodes:
        said = episode.trace.nodes[-1].messages[0].content
        assert episode.score.value == len(said) % 5
        assert int(episode.outcome.evidence["command"]["stdout"]) == len(said)


def test_a_run_goes_on_whatever_becomes_of_its_agents(
    practicum: Callable[..., Any], folder: Path, runs_dir: Path
) -> None:
    fresh = runs_dir.parent / "fresh_agents.py"  # whose count of calls begins at 0
    fresh.write_text(AGENTS)
    words = (
        "tasks",
        f"env.data={folder}/rows.jsonl",
        "agent.name=function",
        f"agent.path={fresh}:troubled",
        "agent.deadline_s=5",
        "agent.retries=0",
        "model=tiny",
        "steps=1",
        "rollouts.tasks_per_step=2",
        "rollouts.group_size=8",
        "rollouts.replace_flat_groups=0",
        "eval.n=2",
        "eval.before=false",
        "hardware.threads=1",
        f"runs_dir={runs_dir}",
    )
    answer = practicum("train", *words, "--name", "troubled")
    assert answer.code == 0, answer.err
    with SqliteTraceStore(runs_dir / "troubled" / "traces.sqlite") as store:
        episodes = list(store.episodes(purpose="train"))
    stops = [episode.trace.stop for episode in episodes]
    assert len(stops) == 16
    gone_wrong = stops.count(StopReason.AGENT_FAILED) + stops.count(StopReason.TIMED_OUT)
    assert 8 <= gone_wrong < 16  # every other one goes wrong by itself
    kinds = " ".join(e.trace.failure.message for e in episodes if e.trace.failure)
    for said in ("broken", "returned nan", "exit code 1"):
        assert said in kinds
    late = [e for e in episodes if e.trace.stop is StopReason.TIMED_OUT]
    assert {(e.score.value, e.outcome.success) for e in late} == {(0.0, False)}
