"""A path of a trace as tokens: each with its text, log-probability and mask, prompts in one piece.

The text of a token needs the tokenizer, which a run keeps in its checkpoints. It is read with the
`tokenizers` package alone: the monitor never loads torch.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer

from practicum.core.sample import Episode
from practicum.core.trace import SampledSpan
from practicum.store.run_dir import RunDir

TOKENIZER = "tokenizer.json"
MOST_TOKENS = 60_000
"""Tokens of one page; a longer path says so and ends."""

BOUNDS = (-0.05, -0.5, -1.5, -3.0)
"""Log-probabilities between colours: certain, likely, open, unlikely, surprising."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPiece:
    """A sampled token, or all the tokens that the model was given between two turns."""

    text: str
    ids: tuple[int, ...]
    logprob: float | None = None
    """Of a sampled token."""
    cut: float | None = None
    """Log of the probability mass that top-k, top-p and the grammar left."""
    choices: int | None = None
    """How many tokens were allowed; None where all were."""
    is_learned: bool = False
    """Whether the loss counts it."""
    is_sampled: bool = False

    @property
    def colour(self) -> int:
        """0 for a certain token to 4 for a surprising one."""
        known = 0.0 if self.logprob is None else self.logprob
        return sum(known < bound for bound in BOUNDS)


class Tokenizers:
    """The tokenizer of a run; the one that was used last is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[Path, float, Tokenizer] | None = None

    def of(self, run: RunDir) -> Tokenizer | None:
        """The tokenizer that the run's checkpoints have; None before the first one."""
        found = sorted(run.checkpoints_path.glob(f"[se]*_*/{TOKENIZER}"))
        if not found:
            return None
        path, changed = found[-1], found[-1].stat().st_mtime
        with self._lock:
            if self._last is None or self._last[:2] != (path, changed):
                self._last = (path, changed, Tokenizer.from_file(str(path)))
            return self._last[2]


def token_pieces(episode: Episode, leaf: int, tokenizer: Tokenizer | None) -> list[TokenPiece]:
    """The tokens that the model saw along the path to a leaf, in order."""
    pieces: list[TokenPiece] = []
    left = MOST_TOKENS
    for index in episode.trace.path(leaf):
        node = episode.trace.nodes[index]
        ids = node.token_ids[:left]
        left -= len(ids)
        if node.sampled is None or not node.sampled.logprobs:
            pieces.append(TokenPiece(text=_text(tokenizer, ids), ids=ids))
        else:
            pieces += _sampled(node.sampled, ids, tokenizer)
    return [piece for piece in pieces if piece.ids]


def _sampled(
    span: SampledSpan, ids: tuple[int, ...], tokenizer: Tokenizer | None
) -> Iterator[TokenPiece]:
    @cache
    def text(token: int) -> str:
        return _text(tokenizer, (token,))

    for place, token in enumerate(ids):
        allowed = len(span.choices[place]) if span.choices else 0
        yield TokenPiece(
            text=text(token),
            ids=(token,),
            logprob=span.logprobs[place],
            cut=span.log_kept[place] if span.log_kept else None,
            choices=allowed or None,
            is_learned=bool(span.loss_mask) and span.loss_mask[place],
            is_sampled=True,
        )


def _text(tokenizer: Tokenizer | None, ids: tuple[int, ...]) -> str:
    if tokenizer is None:
        return "".join(f"⟨{token}⟩" for token in ids)
    return str(tokenizer.decode(list(ids), skip_special_tokens=False))
