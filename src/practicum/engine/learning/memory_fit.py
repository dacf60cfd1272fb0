"""Passes over micro-batches in as many parts as the memory asks for (`MemoryFit`)."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from practicum.core.errors import UserError
from practicum.core.sample import Batch, Floats, Ints
from practicum.engine.learning.micro_batches import split_micro_batch

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class MemoryFit:
    """Halves what does not fit a model's memory, and remembers what does.

    Every pass of a model goes through one of these, whether it learns or only measures: what is
    found out in one holds for the next.
    """

    checkpointed: bool
    """Whether passes keep only each layer's input. It changes no bit of what they compute."""
    most_tokens: int = sys.maxsize
    """Tokens of one batch that may fit, as far as is known."""
    out_of_memory: int = 0
    """Times that a micro-batch did not fit."""
    splits: int = 0
    """Micro-batches that were halved, because they did not fit or were known not to."""
    turned_on_checkpointing: bool = False

    def begin_counting(self) -> None:
        """Count anew; what fits is still known."""
        self.out_of_memory, self.splits, self.turned_on_checkpointing = 0, 0, False

    def run(
        self, batch: Batch, work: Callable[[Batch], T], *, whole_samples: bool = False
    ) -> Iterator[tuple[Ints, T]]:
        """Do the work on the parts of a batch: which terms each has, and what it came to.

        The sum over the parts is that over the batch. With `whole_samples` no sample is divided.
        """
        parts = [(batch, np.arange(batch.term_decision.size))]
        while parts:
            part, terms = parts.pop(0)
            if not terms.size:
                continue
            if part.token_ids.size <= self.most_tokens:
                try:
                    done = work(part)
                except torch.OutOfMemoryError:
                    self.out_of_memory += 1
                    self.most_tokens = part.token_ids.size - 1
                else:
                    yield terms, done
                    continue
                torch.cuda.empty_cache()  # the failed pass has let go of its tensors only now
            parts = [*self._smaller(part, terms, whole_samples), *parts]

    def by_term(
        self, batch: Batch, work: Callable[[Batch], dict[str, Floats]]
    ) -> dict[str, Floats]:
        """What the work finds of each term of a batch, by the names it gives, (M,) each."""
        count = batch.term_decision.size
        if not count:
            return work(batch)
        found: dict[str, Floats] = {}
        for terms, part in self.run(batch, work):
            for name, values in part.items():
                found.setdefault(name, np.empty(count, np.float32))[terms] = values
        return found

    def _smaller(
        self, part: Batch, terms: Ints, whole_samples: bool
    ) -> tuple[tuple[Batch, Ints], ...]:
        """What to try instead of a batch that did not fit."""
        halves = split_micro_batch(part, whole_samples=whole_samples)
        if halves is not None:
            self.splits += 1
            first, second, is_first = halves
            return (first, terms[is_first]), (second, terms[~is_first])
        if self.checkpointed:
            raise UserError(
                f"one conversation of {part.token_ids.size} tokens does not fit the memory for "
                "learning; lower rollouts.max_tokens or max_turns, or choose a smaller model"
            )
        self.checkpointed, self.most_tokens = True, sys.maxsize
        self.turned_on_checkpointing = True
        return ((part, terms),)

    def notice(self) -> str:
        """What running out of memory has changed since counting began; nothing if it did not."""
        if not self.out_of_memory:
            return ""
        changed = []
        if self.turned_on_checkpointing:
            changed.append("gradient checkpointing is on from now on, which takes more time")
        if self.most_tokens < sys.maxsize:
            changed.append(
                f"micro-batches of more than {self.most_tokens:,} tokens are halved from now on"
            )
        return (
            f"the update ran out of memory and went on: {' and '.join(changed)}; the gradient is "
            "the same, and a lower algorithm.micro_batch_tokens saves the attempts"
        )
