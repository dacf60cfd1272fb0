"""The next tokens of rows, and where a completion ends."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch

from practicum.core.sample import Bools, Floats, Ints
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.compute_thread import give_way
from practicum.engine.sampling.completions import GrammarMasks, PendingCompletion
from practicum.engine.sampling.draw import Draw, draw_among, draw_rows, likeliest, not_numbers

STOP_SLACK = 8
"""Characters by which a decoded piece of a text may differ from the text: an incomplete character
at its start, a blank that the tokenizer drops."""

MOST_CHOICES = 256
"""Tokens that a grammar allows and that are listed, so that the learner chooses among the same.
Where there are more, as inside a text, their mass is recorded as kept, and the learner decides over
the whole vocabulary."""


class OutputLayer(Protocol):
    """Gives logits for hidden states."""

    @property
    def vocabulary(self) -> int:
        """Tokens there are."""

    def logits(self, hidden: torch.Tensor, /) -> torch.Tensor:
        """(N, H) to (N, V), float32."""

    def choice_logits(self, hidden: torch.Tensor, choice_ids: torch.Tensor, /) -> torch.Tensor:
        """(N, H) and (N, K) ids padded with -1 to (N, K), padding at minus infinity."""


class TokenSampler:
    """Draws tokens for rows, free or constrained, and notices their ends."""

    def __init__(self, head: OutputLayer, codec: TemplateCodec) -> None:
        self._head, self._codec = head, codec
        self._end_ids = np.asarray(sorted(codec.end_of_turn_ids), np.int64)
        self._masks = GrammarMasks(codec.turn_end_id, codec.end_of_turn_ids)

    def choose(self, rows: Sequence[PendingCompletion], states: torch.Tensor) -> None:
        """Draw the next token of every row from its hidden state, and the forced ones after it."""
        acting = [i for i, row in enumerate(rows) if row.walk is not None]
        free = [i for i, row in enumerate(rows) if row.walk is None]
        if acting:
            self._choose_actions([rows[i] for i in acting], states[acting])
        if free:
            logits = self._head.logits(states[free])
            chosen = [rows[i] for i in free]
            for row, drawn in zip(chosen, self.draw(chosen, logits), strict=True):
                give_way()
                self._accept(row, drawn)

    def _choose_actions(self, rows: Sequence[PendingCompletion], states: torch.Tensor) -> None:
        allowed = [row.allowed for row in rows]
        width = max(map(len, allowed))
        ids = torch.tensor([[*a, *[-1] * (width - len(a))] for a in allowed])
        logits = self._head.choice_logits(states, ids.to(states.device)).cpu()
        for number, (row, drawn) in enumerate(zip(rows, _draw(rows, logits), strict=True)):
            among, asked = row.allowed, row.request.top_logprobs
            row.failure = not_numbers(drawn.logprob)
            if row.failure is not None:
                continue
            if asked:
                own = logits[number : number + 1, : len(among)]
                [tops] = likeliest(own, [row.request.params], asked)
                row.tops.append(tuple((among[column], value) for column, value in tops))
            row.append(among[drawn.column], drawn, among)
            row.append_forced()

    def draw(self, rows: Sequence[PendingCompletion], logits: torch.Tensor) -> list[Draw]:
        """The next token of each row without actions, from logits over the whole vocabulary."""
        if all(row.grammar is None for row in rows):
            _note_likeliest(rows, logits)
            return _draw(rows, logits)
        found: list[Draw] = [Draw(0, 0.0, 0.0)] * len(rows)  # stays so for a row that has failed
        masks = {
            i: mask
            for i, row in enumerate(rows)
            if row.grammar is not None and (mask := self._mask(row)) is not None
        }
        _note_likeliest(rows, logits, {i: mask for i, mask in masks.items() if rows[i].allowed})
        free = [i for i, row in enumerate(rows) if row.grammar is None]
        if free:
            for i, drawn in zip(free, _draw([rows[i] for i in free], logits[free]), strict=True):
                found[i] = drawn
        if masks:
            bound = list(masks)
            allowed = torch.from_numpy(np.stack(list(masks.values()))).to(logits.device)
            params = [rows[i].request.params for i in bound]
            uniforms = [rows[i].stream.next() for i in bound]
            listed = [bool(rows[i].allowed) for i in bound]
            draws = draw_among(logits[bound], allowed, params, uniforms, listed)
            for i, drawn in zip(bound, draws, strict=True):
                found[i] = drawn
        return found

    def _mask(self, row: PendingCompletion) -> Bools | None:
        """What the row's grammar allows; None where it fails, which ends the row."""
        assert row.grammar is not None
        if row.mask is None:
            try:
                row.mask = self._masks.of(row.grammar, self._head.vocabulary)
                row.allowed = _listed(row.mask)
            except Exception as error:  # noqa: BLE001 - a grammar is the caller's
                row.failure = error
        return row.mask

    def _accept(self, row: PendingCompletion, drawn: Draw) -> None:
        row.failure = row.failure or not_numbers(drawn.logprob)
        if row.failure is not None:
            return
        row.append(drawn.column, drawn, row.allowed)
        self._look_for_end(row)
        if row.grammar is not None:
            self._append_certain(row)

    def _append_certain(self, row: PendingCompletion) -> None:
        """Add what the grammar leaves no choice about: it costs no step of the model."""
        while not row.is_over:
            if self._mask(row) is None or len(row.allowed) != 1:
                return
            row.append_certain(row.allowed[0])
            self._look_for_end(row)

    def _look_for_end(self, row: PendingCompletion) -> None:
        if row.tokens[-1] in self._codec.end_of_turn_ids:
            row.finished = row.ended_turn = True
            return
        if row.grammar is not None:
            try:
                row.grammar.advance(row.tokens[-1])
                row.finished = row.is_cut and row.grammar.done  # all is said, but for the end token
            except Exception as error:  # noqa: BLE001 - a grammar is the caller's
                row.failure = error
        if row.request.params.stop:
            row.stopped_by = self._find_stop(row)
            row.finished = row.finished or bool(row.stopped_by)

    def _find_stop(self, row: PendingCompletion) -> str:
        """The stop text that comes first in the text, where the last token completed one.

        The end of the text is looked at alone, or long completions would be decoded at each token.
        """
        stops, begin = row.request.params.stop, len(row.request.prompt_ids)
        reach = max(map(len, stops)) + STOP_SLACK + len(self._codec.decode(row.tokens[-1:]))
        first, count = len(row.tokens), reach
        text = ""
        while len(text) < reach and first > begin:
            first = max(begin, len(row.tokens) - count)
            text = self._codec.decode(row.tokens[first:])
            count *= 2
        if not any(stop in text for stop in stops):
            return ""
        text = self._codec.decode(row.sampled)
        found = [(text.index(stop), number) for number, stop in enumerate(stops) if stop in text]
        return stops[min(found)[1]] if found else ""

    def extend(
        self, row: PendingCompletion, tokens: Ints, logprobs: Floats, log_kept: Floats
    ) -> None:
        """Add tokens until one ends the completion; what comes after it was not asked for."""
        give_way()
        if not row.request.params.stop and row.grammar is None:
            ends = np.flatnonzero(np.isin(tokens, self._end_ids))
            count = int(ends[0]) + 1 if ends.size else tokens.size
            if row.request.params.temperature > 0.0:  # a greedy draw on the device has none
                row.failure = not_numbers(logprobs[:count])
            if row.failure is not None:
                return
            row.extend(tokens[:count], logprobs[:count], log_kept[:count])
            self._look_for_end(row)
            return
        for drawn in zip(tokens.tolist(), logprobs.tolist(), log_kept.tolist(), strict=True):
            self._accept(row, Draw(*drawn))
            if row.is_over:
                return


def _listed(mask: Bools) -> tuple[int, ...]:
    """The tokens that a grammar allows, if they are few enough to be listed."""
    few = np.count_nonzero(mask) <= MOST_CHOICES
    return tuple(np.flatnonzero(mask).tolist()) if few else ()


def _draw(rows: Sequence[PendingCompletion], logits: torch.Tensor) -> list[Draw]:
    params = [row.request.params for row in rows]
    return draw_rows(logits, params, [row.stream.next() for row in rows])


def _note_likeliest(
    rows: Sequence[PendingCompletion],
    logits: torch.Tensor,
    listed: Mapping[int, Bools] | None = None,
) -> None:
    """Note them for the rows that ask; among what is `listed` where a row chooses among that."""
    asking = [i for i, row in enumerate(rows) if row.request.top_logprobs]
    if not asking:
        return
    if listed:
        logits = logits.clone()
        for i, mask in listed.items():
            logits[i, torch.from_numpy(~mask).to(logits.device)] = float("-inf")
    params = [rows[i].request.params for i in asking]
    most = max(rows[i].request.top_logprobs for i in asking)
    for i, tops in zip(asking, likeliest(logits[asking], params, most), strict=True):
        possible = [(column, value) for column, value in tops if value > float("-inf")]
        rows[i].tops.append(tuple(possible[: rows[i].request.top_logprobs]))
