"""From hidden states to log-probabilities, at the positions that need them and nowhere else."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

__all__ = ["Head", "Predictions"]


class Predictions(NamedTuple):
    """For each decision: the target's log-probability and the distribution's entropy."""

    logprobs: torch.Tensor  # (D,)
    entropies: torch.Tensor  # (D,)


def _pick(logits: torch.Tensor, index: torch.Tensor, temperature: torch.Tensor) -> Predictions:
    log_p = torch.log_softmax(logits / temperature[:, None], dim=-1)
    spread = -(log_p.exp() * log_p.masked_fill(log_p == float("-inf"), 0.0)).sum(-1)
    return Predictions(log_p.gather(1, index)[:, 0], spread)


CHUNK_LOGITS = 2**23
"""Logits that exist at the same time, 32 MiB of them."""


class _ChunkedPredictions(torch.autograd.Function):
    """Decisions over the whole vocabulary, a few at a time; the backward pass makes them again.

    Decisions times vocabulary never exists as a whole, neither forward nor backward.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        target: torch.Tensor,
        temperature: torch.Tensor,
        logits: Callable[[torch.Tensor], torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        vocabulary = logits(hidden[:1]).shape[-1]
        ctx.rows = max(1, CHUNK_LOGITS // vocabulary)
        ctx.logits = logits
        ctx.save_for_backward(hidden, target, temperature)
        parts = zip(*(x.split(ctx.rows) for x in (hidden, target, temperature)), strict=True)
        found = [_pick(logits(h), at[:, None], heat) for h, at, heat in parts]
        ctx.mark_non_differentiable(entropies := torch.cat([f.entropies for f in found]))
        return torch.cat([f.logprobs for f in found]), entropies

    @staticmethod
    def backward(ctx: Any, grad_logprobs: torch.Tensor, _: Any) -> tuple[Any, ...]:
        hidden, target, temperature = ctx.saved_tensors
        grads = []
        inputs = (hidden, target, temperature, grad_logprobs)
        for h, at, heat, grad in zip(*(x.split(ctx.rows) for x in inputs), strict=True):
            with torch.enable_grad():
                leaf = h.detach().requires_grad_()
                logprobs = _pick(ctx.logits(leaf), at[:, None], heat).logprobs
            grads.append(torch.autograd.grad(logprobs, leaf, grad)[0])
        return torch.cat(grads), None, None, None


class Head:
    """The output layer of a causal language model, with the scaling its family applies."""

    def __init__(self, causal_lm: Any) -> None:
        layer = causal_lm.get_output_embeddings()
        self._layer = layer
        config = causal_lm.config
        self._softcap = getattr(config, "final_logit_softcapping", None)
        self._scale = float(getattr(config, "logit_scale", None) or 1.0)
        self._scale /= float(getattr(config, "logits_scaling", None) or 1.0)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(N, H) to (N, V), float32."""
        return self._adjust(
            torch.nn.functional.linear(hidden, self._layer.weight, self._bias(None))
        )

    def choice_logits(self, hidden: torch.Tensor, choice_ids: torch.Tensor) -> torch.Tensor:
        """(N, H) and (N, K) ids padded with -1 to (N, K), float32, padding at minus infinity.

        Only the rows of the output layer that are asked for are read.
        """
        ids = choice_ids.clamp(min=0)
        rows = self._layer.weight[ids]  # (N, K, H)
        logits = torch.einsum("nkh,nh->nk", rows.float(), hidden.float())
        bias = self._bias(ids)
        logits = self._adjust(logits if bias is None else logits + bias)
        return logits.masked_fill(choice_ids < 0, float("-inf"))

    def predict(
        self,
        hidden: torch.Tensor,
        target: torch.Tensor,
        temperature: torch.Tensor,
        choice_ids: torch.Tensor,
    ) -> Predictions:
        """Log-probabilities and entropies of decisions, constrained or not; see `Batch`."""
        constrained = (
            (choice_ids >= 0).any(dim=1) if choice_ids.shape[1] else torch.zeros_like(target).bool()
        )
        logprobs = hidden.new_zeros(target.shape, dtype=torch.float32)
        entropies = torch.zeros_like(logprobs)
        for chosen, among in ((constrained, choice_ids), (~constrained, None)):
            at = chosen.nonzero()[:, 0]
            if at.numel():
                ids = among[at] if among is not None else None
                found = self._predict_alike(hidden[at], target[at], temperature[at], ids)
                logprobs = logprobs.index_copy(0, at, found.logprobs)
                entropies = entropies.index_copy(0, at, found.entropies)
        return Predictions(logprobs, entropies)

    def _predict_alike(
        self,
        hidden: torch.Tensor,
        target: torch.Tensor,
        temperature: torch.Tensor,
        choice_ids: torch.Tensor | None,
    ) -> Predictions:
        """Decisions that are all constrained, or all over the whole vocabulary."""
        if choice_ids is not None:
            index = (choice_ids == target[:, None]).int().argmax(1, keepdim=True)
            found = _pick(self.choice_logits(hidden, choice_ids), index, temperature)
            return Predictions(found.logprobs, found.entropies.detach())
        return Predictions(*_ChunkedPredictions.apply(hidden, target, temperature, self.logits))

    def _bias(self, ids: torch.Tensor | None) -> torch.Tensor | None:
        bias = getattr(self._layer, "bias", None)
        return bias if bias is None or ids is None else bias[ids]

    def _adjust(self, logits: torch.Tensor) -> torch.Tensor:
        logits = logits.float() * self._scale if self._scale != 1.0 else logits.float()
        if self._softcap is not None:
            logits = torch.tanh(logits / self._softcap) * self._softcap
        return logits
