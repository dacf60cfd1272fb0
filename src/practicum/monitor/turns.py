"""A stored episode, turn by turn."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from practicum.core.sample import Episode
from practicum.core.trace import Message, StopReason

__all__ = ["EpisodeTurn", "ending", "episode_turns", "opening"]

ENDINGS = {
    StopReason.FINISHED: "not solved",
    StopReason.MAX_TURNS: "cut off at the turn limit",
    StopReason.CONTEXT_FULL: "cut off: the context is full",
    StopReason.ENVIRONMENT_FAILED: "masked: the environment failed",
    StopReason.AGENT_FAILED: "masked: the agent failed",
    StopReason.CANCELLED: "masked: cancelled",
}


class EpisodeTurn(NamedTuple):
    """One turn of the policy and what it came to."""

    action: str
    observation: str | None
    """None after the last turn, which the policy was shown no answer to."""
    reward: float | None
    """What the turn was worth; None where the reward is for the episode as a whole."""


def opening(episode: Episode) -> str:
    """What the policy was asked last before its first turn."""
    for node in episode.trace.nodes:
        if node.messages:
            return node.messages[-1].content
    return ""


def episode_turns(episode: Episode) -> list[EpisodeTurn]:
    """The turns along the episode's last path."""
    trace = episode.trace
    if not trace.nodes:
        return []
    path = trace.path(trace.leaves()[-1])
    rewards = _rewards_by_turn(episode)
    turns = []
    for place, index in enumerate(path):
        if trace.nodes[index].sampled is not None:
            answer = path[place + 1] if place + 1 < len(path) else None
            turns.append(
                EpisodeTurn(
                    action=_text(trace.nodes[index].messages),
                    observation=None if answer is None else _text(trace.nodes[answer].messages),
                    reward=rewards.get(index),
                )
            )
    return turns


def ending(episode: Episode) -> str:
    """How the episode ended, in a few words."""
    if episode.trace.is_masked:
        return ENDINGS[episode.trace.stop]
    success = episode.outcome.success if episode.outcome else None
    if success:
        return "solved"
    if success is None and episode.trace.stop is StopReason.FINISHED:
        return "ended"
    return ENDINGS[episode.trace.stop]


def _rewards_by_turn(episode: Episode) -> dict[int, float]:
    """What each sampled node was worth; nothing when not every turn has a worth of its own."""
    paid = episode.score.turn_values
    if not paid and episode.outcome is not None:
        paid = episode.outcome.turn_rewards
    turns = episode.trace.turns
    return dict(zip(turns, paid, strict=True)) if len(turns) == len(paid) else {}


def _text(messages: Sequence[Message]) -> str:
    """What messages say, tool calls written as calls."""
    parts = []
    for message in messages:
        calls = [f"{c.name}({json.dumps(dict(c.arguments))})" for c in message.tool_calls]
        parts += [part for part in (message.content, *calls) if part]
    return " ".join(parts)
