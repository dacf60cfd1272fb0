"""What is learned from without acting: a sample, and what is known of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from practicum.batching import episode_samples
from practicum.core.errors import UserError
from practicum.core.example import Example, TokenisedExample
from practicum.core.sample import Credit, Episode, Sample

__all__ = ["Row", "episode_rows", "example_row", "units"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One conversation."""

    sample: Sample
    task_id: str = ""
    label: bool | None = None
    pair: str = ""
    chosen: bool | None = None
    weight: float = 1.0
    reward: float | None = None

    @property
    def id(self) -> str:
        """The name of its trace, and of the walk where there are several."""
        return self.sample.id

    def with_completion_of(self, other: "Row") -> Sample:
        """What was given here, followed by what was said there."""
        begin = _given(self.sample)
        rest = slice(_given(other.sample), None)
        one, two = self.sample, other.sample
        nothing = np.zeros(begin, np.float32)
        token_ids = np.concatenate([one.token_ids[:begin], two.token_ids[rest]])
        return replace(
            one,
            token_ids=token_ids,
            loss_mask=np.concatenate([np.zeros(begin, np.bool_), two.loss_mask[rest]]),
            old_logprobs=np.zeros(token_ids.size, np.float32),
            advantages=np.zeros(token_ids.size, np.float32),
            temperatures=np.concatenate([nothing + 1.0, two.temperatures[rest]]),
            choices={at - rest.start + begin: c for at, c in two.choices.items()},
        )


def _given(sample: Sample) -> int:
    """Tokens before the first that is learned from."""
    return int(sample.loss_mask.argmax())


def example_row(example: Example, tokens: TokenisedExample) -> Row:
    """A row of text that has been tokenised."""
    length = tokens.token_ids.size
    sample = Sample(
        token_ids=tokens.token_ids,
        loss_mask=tokens.loss_mask,
        old_logprobs=np.zeros(length, np.float32),
        advantages=np.zeros(length, np.float32),
        temperatures=np.ones(length, np.float32),
        choices={},
        trace_id=example.id,
    )
    return Row(
        sample=sample,
        task_id=example.task_id,
        label=example.label,
        pair=example.pair,
        chosen=example.chosen,
        weight=example.weight,
        reward=example.reward,
    )


def episode_rows(episode: Episode, label: bool | None) -> list[Row]:
    """A recorded episode of the model itself: its own tokens, and what each was drawn from."""
    trace = episode.trace
    credit = Credit(advantages=(0.0,) * len(trace.turns))
    return [
        Row(sample=sample, task_id=trace.task_id, label=label, reward=episode.score.value)
        for sample in episode_samples(trace, credit, 1.0)
    ]


def units(rows: Sequence[Row], kind: str) -> list[tuple[Row, ...]]:
    """What is drawn together: for `dpo` the better and the worse of a pair, else each row alone."""
    if kind != "dpo":
        return [(row,) for row in rows]
    pairs: dict[str, list[Row]] = {}
    for row in rows:
        pairs.setdefault(row.pair, []).append(row)
    found = []
    for name, sides in pairs.items():
        if sorted(bool(row.chosen) for row in sides) != [False, True]:
            raise UserError(
                f"the pair {name!r} has {len(sides)} sides, and a preference needs one that was "
                "chosen and one that was rejected; build the data with --kind dpo"
            )
        found.append(tuple(sorted(sides, key=lambda row: not row.chosen)))
    return found
