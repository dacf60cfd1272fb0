"""Rewards that a language model gives by comparing the trajectories of a group: RULER.

What differs from ART's own: scores are matched by id and not by place; the attempts are shown in an
order of their own; those with the same messages are shown once and share a score; an answer that
leaves one out or scores out of bounds is asked for again; any OpenAI-compatible server or a local
model can be the judge.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from practicum.compat.art.trajectories import TrajectoryGroup, messages_of
from practicum.core.config.parse_config import explain
from practicum.core.config.reward_config import JudgeComponent
from practicum.core.errors import PracticumError, UserError
from practicum.core.sample import Episode, Group
from practicum.core.score import JudgeModel, JudgeReply, Score, WeighingModel
from practicum.core.task import Task
from practicum.core.trace import Message, Node, Role, ToolCall, Trace
from practicum.core.trusted_code import remember, trust_secret

PROVIDERS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "hosted_vllm": ("http://localhost:8000/v1", "HOSTED_VLLM_API_KEY"),
    "ollama": ("http://localhost:11434/v1", "OLLAMA_API_KEY"),
    "ollama_chat": ("http://localhost:11434/v1", "OLLAMA_API_KEY"),
}
"""Servers that speak OpenAI's chat completions, by the first word of a judge's name: where they
are, and which environment variable holds their key."""

NEEDS_KEY = frozenset({"openai", "openrouter"})
LOCAL = "local"
TAKEN = ("api_base", "base_url", "key_variable", "temperature", "max_tokens", "timeout")


class HeardJudge:
    """A judge whose answers are kept, to be shown."""

    def __init__(self, judge: JudgeModel) -> None:
        self._judge = judge
        self.said: list[str] = []

    @property
    def name(self) -> str:
        """See `JudgeModel`."""
        return self._judge.name

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """See `JudgeModel`."""
        reply = await self._judge.complete(messages)
        self.said.append(reply.text)
        return reply


def find_judge(
    judge: "str | JudgeModel | WeighingModel", options: Mapping[str, Any] | None
) -> JudgeModel | WeighingModel:
    """The judge that is meant.

    Args:
        judge: `PROVIDER/MODEL` with a known provider; `local/MODEL` for a model in this process;
            any name, where `options` has an address; or an object that can be asked.
        options: `api_base` or `base_url`, `key_variable`, `temperature`, `max_tokens`, `timeout`.
    """
    if not isinstance(judge, str):
        return judge
    given = dict(options or {})
    if "api_key" in given:
        raise UserError(
            "api_key would be the judge's key itself, which is read from the environment only; "
            "write key_variable='NAME_OF_THE_VARIABLE' in its place"
        )
    stray = sorted(set(given) - set(TAKEN))
    if stray:
        raise UserError(f"the judge takes no {stray[0]!r}; it takes {', '.join(TAKEN)}")
    provider, _, model = judge.partition("/")
    address = given.pop("api_base", None) or given.pop("base_url", None)
    given.pop("base_url", None)
    if provider == LOCAL and not address:
        return _local(model, given)
    known, variable = PROVIDERS.get(provider, ("", ""))
    if not address and not known:
        raise UserError(
            f"judge {judge!r} is nowhere: write local/MODEL for a model in this process, "
            f"{', '.join(f'{name}/MODEL' for name in PROVIDERS)} for one on a server, or give its "
            "address as extra_litellm_params={'api_base': 'http://HOST:PORT/v1'}"
        )
    variable = given.pop("key_variable", "") or (
        variable if provider in NEEDS_KEY or os.environ.get(variable) else ""
    )
    return _on_server(address or known, model if known else judge, variable, given)


def _local(model: str, given: dict[str, Any]) -> JudgeModel | WeighingModel:
    own = {key: given[key] for key in ("temperature", "max_tokens") if key in given}
    # What is said of how it writes means that it shall write.
    return _judge(model=model, way="compared" if own else "auto", **own)


def _on_server(
    address: str, model: str, variable: str, given: dict[str, Any]
) -> JudgeModel | WeighingModel:
    names = {"temperature": "temperature", "max_tokens": "max_tokens", "timeout": "timeout_s"}
    own = {ours: given[theirs] for theirs, ours in names.items() if theirs in given}
    if variable:
        remember(trust_secret(variable, address))  # the caller's own word
    return _judge(endpoint=address, model=model, key_variable=variable, **own)


def _judge(**values: Any) -> JudgeModel | WeighingModel:
    from practicum.assemble.wired_rewards import REWARDS

    try:
        return REWARDS.judge(JudgeComponent.model_validate(values))
    except ValidationError as error:
        raise UserError(f"the judge: {explain(error, JudgeComponent)}") from None


RETRIES = 2
ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class NotJudged(PracticumError, ValueError):
    """The judge gave no usable score for an attempt, however often it was asked."""


class TrajectoryScore(BaseModel):
    """What the judge made of one trajectory."""

    trajectory_id: str
    """Its place among those given, from "1"."""
    explanation: str
    score: float


async def ruler(
    message_lists: Sequence[Sequence[Mapping[str, Any]]],
    judge_model: str | JudgeModel | WeighingModel = "openai/o3",
    extra_litellm_params: Mapping[str, Any] | None = None,
    rubric: str = "",
    tools: Sequence[Any] | None = None,
    *,
    debug: bool = False,
) -> list[TrajectoryScore]:
    """Scores from 0 to 1 for conversations with the same goal, in the order given.

    Args:
        message_lists: The conversations, as OpenAI's message dictionaries.
        judge_model: `openai/MODEL`, `ollama/MODEL`, `local/MODEL` and others; see
            `practicum.compat.art.rewards.find_judge`.
        extra_litellm_params: `api_base`, `key_variable`, `temperature`, `max_tokens`, `timeout`.
        rubric: What is good, in your words; Practicum's own rubric unless given.
        tools: Tools that were offered; the judge is shown them.
        debug: Whether what the judge wrote is printed.

    Raises:
        NotJudged: when a conversation has no usable score after the judge was asked again.
    """
    if not message_lists:
        return []
    from practicum.assemble.wired_rewards import REWARDS

    asked = find_judge(judge_model, extra_litellm_params)
    judge = asked if isinstance(asked, WeighingModel) else HeardJudge(asked)
    part = JudgeComponent(model="ruler", rubric=rubric, retries=RETRIES)
    reward = REWARDS.judge_reward(part, judge)
    told = f"Tools that were offered: {json.dumps(tools)}" if tools else ""
    task = Task(id="ruler", env="art", split="train", instruction=told)
    group = Group(task=task, episodes=tuple(_episode(task, said) for said in message_lists))
    judged = await reward.rescore(group)
    if debug and isinstance(judge, HeardJudge):
        for text in judge.said:
            print(f"the judge wrote: {text}", file=sys.stderr)
    return [_score(number, episode) for number, episode in enumerate(judged.episodes, start=1)]


def _score(number: int, episode: Episode) -> TrajectoryScore:
    value = episode.score.components.get("judge")
    if value is None:
        raise NotJudged(f"trajectory {number}: {episode.score.reason}")
    return TrajectoryScore(trajectory_id=str(number), explanation=episode.score.reason, score=value)


def _episode(task: Task, messages: Sequence[Mapping[str, Any]]) -> Episode:
    node = Node(parent=None, messages=tuple(_message(one) for one in messages), token_ids=())
    trace = Trace(id="ruler", task_id=task.id, env=task.env, nodes=(node,))
    return Episode(trace=trace, outcome=None, score=Score(components={}))


def _message(given: Mapping[str, Any]) -> Message:
    content = given.get("content")
    return Message(
        role=ROLES.get(str(given.get("role")), "user"),
        content=content if isinstance(content, str) else json.dumps(content) if content else "",
        tool_calls=tuple(_call(call) for call in given.get("tool_calls") or ()),
    )


def _call(given: Mapping[str, Any]) -> ToolCall:
    function = given.get("function") or {}
    written = function.get("arguments") or "{}"
    try:
        arguments = json.loads(written) if isinstance(written, str) else written
    except ValueError:
        arguments = {"unparsed": written}
    plain = arguments if isinstance(arguments, dict) else {"unparsed": arguments}
    return ToolCall(name=str(function.get("name", "")), arguments=plain)


async def ruler_score_group(
    group: TrajectoryGroup,
    judge_model: str | JudgeModel | WeighingModel = "openai/o3",
    extra_litellm_params: Mapping[str, Any] | None = None,
    rubric: str = "",
    *,
    swallow_exceptions: bool = False,
    debug: bool = False,
) -> TrajectoryGroup | None:
    """A copy of the group whose rewards are the judge's scores; to be used as `after_each`.

    The reward of before is in `metrics["independent_reward"]`, the score in
    `metrics["ruler_score"]`. The group that was given is left as it is.

    Args:
        group: Attempts at one task.
        judge_model: See `ruler`.
        extra_litellm_params: See `ruler`.
        rubric: See `ruler`.
        swallow_exceptions: Whether a group that cannot be judged is given up, with a sentence on
            standard error and None for an answer, instead of raising.
        debug: See `ruler`.
    """
    copies = [_copy(trajectory) for trajectory in group.trajectories]
    try:
        scores = await ruler(
            [_all_messages(trajectory) for trajectory in copies],
            judge_model,
            extra_litellm_params,
            rubric,
            copies[0].tools if copies else None,
            debug=debug,
        )
    except Exception as error:
        if not swallow_exceptions:
            raise
        print(f"a group is given up, which could not be judged: {error}", file=sys.stderr)
        return None
    for trajectory, score in zip(copies, scores, strict=True):
        trajectory.metrics["independent_reward"] = trajectory.reward
        trajectory.metrics["ruler_score"] = score.score
        trajectory.reward = score.score
        trajectory.log(f"RULER: {score.explanation}")
    judged: TrajectoryGroup = group.model_copy(update={"trajectories": copies})
    return judged


def _copy(trajectory: Any) -> Any:
    """A trajectory whose figures can be changed; what was sampled is shared."""
    fields = ("messages_and_choices", "metrics", "metadata", "logs")
    return trajectory.model_copy(update={name: getattr(trajectory, name).copy() for name in fields})


def _all_messages(trajectory: Any) -> list[dict[str, Any]]:
    """What was said in a trajectory, its further histories after its own."""
    histories = [trajectory, *trajectory.additional_histories]
    return [message for one in histories for message in messages_of(one.messages_and_choices)]
