"""Token rows as rollouts leave them: groups that share a prompt, and turns with tokens between."""

from typing import NamedTuple

import numpy as np
from cases import Case

from practicum.core.sample import Sample

__all__ = [
    "GIVEN_TOKENS",
    "Conversation",
    "advantages_of",
    "conversations",
    "prompts_of",
    "samples_of",
    "sizes_at_ratio",
    "vocabulary",
]

GIVEN_TOKENS = 32
"""Tokens the model is given between two turns, as an environment would answer."""


def vocabulary(case: Case) -> int:
    """Token ids below this are used; special tokens lie above it."""
    return 256 if case.model == "tiny" else 40_000


def sizes_at_ratio(unique: int, ratio: float, group: int) -> tuple[int, int]:
    """Prompt and completion of a group with so many unique tokens and so much sharing.

    The group's rows have `ratio` times as many tokens as its prefix tree has.

    >>> sizes_at_ratio(1600, 4.0, 16)
    (320, 80)
    """
    if not 1 <= ratio < group:
        raise ValueError(f"a group of {group} cannot share tokens {ratio} times")
    prompt = round((ratio - 1) * unique / (group - 1))
    return prompt, max(1, round((unique - prompt) / group))


class Conversation(NamedTuple):
    """One row: its tokens, which of them were sampled to be trained on, and by which episode."""

    token_ids: np.ndarray
    sampled: np.ndarray
    episode: int

    @property
    def given(self) -> int:
        """Tokens before the first one that was sampled."""
        return int(np.flatnonzero(self.sampled)[0])


def prompts_of(case: Case, seed: int = 0) -> list[list[int]]:
    """The prompts' tokens."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, vocabulary(case), case.prompt).tolist() for _ in range(case.prompts)]


def conversations(case: Case) -> list[Conversation]:
    """Episodes of every prompt; each turn is a completion, with given tokens between two turns.

    With a `single` history an episode is one row. With a `growing` one each turn is a row of its
    own, whose prompt is all that came before it, as an agent's calls of a chat endpoint leave them.
    """
    rng = np.random.default_rng(1)
    rows: list[Conversation] = []
    for number in range(case.episodes):
        if number % case.group == 0:
            start = rng.integers(0, vocabulary(case), case.prompt)
        tokens, sampled = start, np.zeros(case.prompt, bool)
        for turn in range(case.turns):
            given = GIVEN_TOKENS if turn else 0
            fresh = rng.integers(0, vocabulary(case), given + case.completion)
            tokens = np.concatenate([tokens, fresh])
            if case.history == "growing":
                sampled = np.zeros(sampled.size, bool)
            sampled = np.concatenate([sampled, np.arange(fresh.size) >= given])
            if case.history == "growing" or turn == case.turns - 1:
                rows.append(Conversation(tokens, sampled, number))
    return rows


def advantages_of(case: Case, rows: list[Conversation]) -> np.ndarray:
    """An advantage for each row: evenly spread over its group."""
    spread = np.linspace(-1.0, 1.0, case.group)
    return np.asarray([spread[row.episode % case.group] for row in rows])


def samples_of(rows: list[Conversation], advantages: np.ndarray) -> list[Sample]:
    """Rows as training samples, each row counting the same."""
    return [
        Sample(
            token_ids=row.token_ids.astype(np.int64),
            loss_mask=row.sampled,
            old_logprobs=np.zeros(row.sampled.size, np.float32),
            advantages=np.full(row.sampled.size, advantage, np.float32),
            temperatures=np.ones(row.sampled.size, np.float32),
            choices={},
            weight=1.0 / len(rows) / int(row.sampled.sum()),
            trace_id=str(number),
        )
        for number, (row, advantage) in enumerate(zip(rows, advantages.tolist(), strict=True))
    ]
