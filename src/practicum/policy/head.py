"""From hidden states to log-probabilities, at the positions that need them and nowhere else."""

from typing import Any, NamedTuple

import torch

__all__ = ["Head", "Predictions"]


class Predictions(NamedTuple):
    """For each decision: the target's log-probability and the distribution's entropy."""

    logprobs: torch.Tensor  # (D,)
    entropies: torch.Tensor  # (D,)


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
        for chosen, free in (
            (constrained.nonzero()[:, 0], False),
            ((~constrained).nonzero()[:, 0], True),
        ):
            if chosen.numel() == 0:
                continue
            if free:
                logits, index = self.logits(hidden[chosen]), target[chosen][:, None]
            else:
                logits = self.choice_logits(hidden[chosen], choice_ids[chosen])
                index = (
                    (choice_ids[chosen] == target[chosen][:, None]).int().argmax(1, keepdim=True)
                )
            log_p = torch.log_softmax(logits / temperature[chosen][:, None], dim=-1)
            picked = log_p.gather(1, index)[:, 0]
            spread = -(log_p.exp() * log_p.masked_fill(log_p == float("-inf"), 0.0)).sum(-1)
            logprobs = logprobs.index_copy(0, chosen, picked)
            entropies = entropies.index_copy(0, chosen, spread.detach())
        return Predictions(logprobs, entropies)

    def _bias(self, ids: torch.Tensor | None) -> torch.Tensor | None:
        bias = getattr(self._layer, "bias", None)
        return bias if bias is None or ids is None else bias[ids]

    def _adjust(self, logits: torch.Tensor) -> torch.Tensor:
        logits = logits.float() * self._scale if self._scale != 1.0 else logits.float()
        if self._softcap is not None:
            logits = torch.tanh(logits / self._softcap) * self._softcap
        return logits
