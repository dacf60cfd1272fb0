"""The next tokens of rows, and where a completion ends."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from practicum.core.sample import Floats, Ints
from practicum.policy.draw import Draw, draw_rows
from practicum.policy.head import Head
from practicum.policy.rows import Row

__all__ = ["Chooser"]


class Chooser:
    """Draws tokens for rows, free or constrained, and notices their ends."""

    def __init__(self, head: Head, codec: Any) -> None:
        self._head, self._codec = head, codec
        self._end_ids = np.asarray(sorted(codec.end_of_turn_ids), np.int64)

    def choose(self, rows: Sequence[Row], states: torch.Tensor) -> None:
        """Draw the next token of every row from its hidden state, and the forced ones after it."""
        constrained = [i for i, row in enumerate(rows) if row.walk is not None]
        free = [i for i, row in enumerate(rows) if row.walk is None]
        if constrained:
            allowed = [rows[i].allowed for i in constrained]
            width = max(map(len, allowed))
            ids = torch.tensor([[*a, *[-1] * (width - len(a))] for a in allowed])
            logits = self._head.choice_logits(states[constrained], ids.to(states.device)).cpu()
            for i, among, drawn in zip(
                constrained, allowed, _draw([rows[i] for i in constrained], logits), strict=True
            ):
                row = rows[i]
                row.append(among[drawn.column], drawn, among)
                row.append_forced()
        if free:
            logits = self._head.logits(states[free])
            for i, drawn in zip(free, _draw([rows[i] for i in free], logits), strict=True):
                rows[i].append(drawn.column, drawn, ())
                self._look_for_end(rows[i])

    def _look_for_end(self, row: Row) -> None:
        if row.tokens[-1] in self._codec.end_of_turn_ids:
            row.finished = row.ended_turn = True
        elif row.request.params.stop:
            text = self._codec.decode(row.sampled)
            row.finished = any(stop in text for stop in row.request.params.stop)

    def extend(self, row: Row, tokens: Ints, logprobs: Floats, log_kept: Floats) -> None:
        """Add tokens until one ends the completion; what comes after it was not asked for."""
        if not row.request.params.stop:
            ends = np.flatnonzero(np.isin(tokens, self._end_ids))
            count = int(ends[0]) + 1 if ends.size else tokens.size
            row.extend(tokens[:count], logprobs[:count], log_kept[:count])
            self._look_for_end(row)
            return
        for i in range(tokens.size):
            row.extend(tokens[i : i + 1], logprobs[i : i + 1], log_kept[i : i + 1])
            self._look_for_end(row)
            if row.is_over:
                return


def _draw(rows: Sequence[Row], logits: torch.Tensor) -> list[Draw]:
    params = [row.request.params for row in rows]
    return draw_rows(logits, params, [row.stream.next() for row in rows])
