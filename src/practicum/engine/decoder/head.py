"""From hidden states to log-probabilities and values, only at the positions that need them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from practicum.engine.decoder.layers import can_pack, packed_linear


class Predictions(NamedTuple):
    """For each decision: the target's log-probability and the distribution's entropy."""

    logprobs: torch.Tensor  # (D,)
    entropies: torch.Tensor  # (D,)


def _pick(logits: torch.Tensor, index: torch.Tensor, temperature: torch.Tensor) -> Predictions:
    log_p = torch.log_softmax(logits / temperature[:, None], dim=-1)
    spread = -(log_p.exp() * log_p.masked_fill(log_p == float("-inf"), 0.0)).sum(-1)
    return Predictions(log_p.gather(1, index)[:, 0], spread)


FEW_CHOICES = 32
"""Choices up to which a row of the output layer is read for each of every decision."""

CHUNK_LOGITS = 3 * 2**22
"""Logits that exist at the same time on a CPU, 48 MiB of them."""

CHUNK_LOGITS_CUDA = 2**27
"""And on a GPU, which wants larger products."""


class _ChunkedPredictions(torch.autograd.Function):
    """Decisions over the whole vocabulary, a few at a time; their product never exists as a whole.

    The gradient of a log-probability is its own size times a direction in hidden space,
    (W[target] - p W) / temperature, that is known once the distribution is. So the forward pass
    makes the directions while it has the logits, and the backward pass has nothing to make again.
    An entropy's direction, where it is asked for, is -(p * (log p + entropy)) W / temperature.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        target: torch.Tensor,
        temperature: torch.Tensor,
        head: "Head",
        needs: tuple[bool, bool],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        needs_grad, needs_entropy = needs
        rows = head.chunk_rows()
        room = head.room(min(rows, hidden.shape[0]))
        parts = zip(*(x.split(rows) for x in (hidden, target, temperature)), strict=True)
        found: list[tuple[torch.Tensor, ...]] = [
            head.decide_with_entropy(*part)
            if needs_grad and needs_entropy
            else head.decide(*part, needs_grad=needs_grad, room=room)
            for part in parts
        ]
        logprobs, entropies, *directions = (
            torch.cat(column) for column in zip(*found, strict=True)
        )
        ctx.save_for_backward(*directions)
        if not needs_entropy:
            ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        found = sum(
            grad[:, None] * directions
            for grad, directions in zip(grads, ctx.saved_tensors, strict=False)
        )
        return found.to(ctx.saved_tensors[0].dtype), None, None, None, None


class _Room(NamedTuple):
    """Where one chunk after another puts its logits and probabilities, (rows, V) float32 each."""

    logits: torch.Tensor
    probabilities: torch.Tensor

    def of(self, rows: int) -> "_Room":
        """As much of it as a chunk needs."""
        return _Room(self.logits[:rows], self.probabilities[:rows])


def _outcomes(
    logits: torch.Tensor, target: torch.Tensor, out: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probabilities of the targets, entropies, and all probabilities.

    Few passes over the vocabulary: the sum of exponentials is that by which the largest logit
    became the largest probability, and an entropy is its logarithm less the expected logit.
    """
    p = torch.softmax(logits, -1, out=out)
    log_sum = logits.amax(-1) - p.amax(-1).log_()
    expected = torch.bmm(p[:, None], logits[:, :, None])[:, 0, 0]
    return logits.gather(1, target[:, None])[:, 0] - log_sum, log_sum - expected, p


class Head:
    """The output layer of a causal language model, with the scaling its family applies."""

    def __init__(self, causal_lm: Any) -> None:
        layer = causal_lm.get_output_embeddings()
        self._layer = layer
        self._packed: Callable[[torch.Tensor], torch.Tensor] | None = None
        config = causal_lm.config
        self._softcap = getattr(config, "final_logit_softcapping", None)
        self._scale = float(getattr(config, "logit_scale", None) or 1.0)
        self._scale /= float(getattr(config, "logits_scaling", None) or 1.0)

    @property
    def vocabulary(self) -> int:
        """How many tokens it decides between."""
        return int(self._layer.weight.shape[0])

    def prepare(self) -> None:
        """Pack the weight, where that makes thin products faster; `predict` does without."""
        if self._packed is None and can_pack(self._layer.weight):
            self._packed = packed_linear(self._layer.weight, self._bias(None))

    def release(self) -> None:
        """Drop the packed copy."""
        self._packed = None

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(N, H) to (N, V), float32."""
        if self._packed is not None:
            return self._adjust(self._packed(hidden))
        return self._adjust(self.raw_logits(hidden))

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
        *,
        with_entropy: bool = False,
    ) -> Predictions:
        """Log-probabilities and entropies of decisions, constrained or not; see `Batch`.

        Entropies carry gradient only `with_entropy`.
        """
        if not choice_ids.shape[1]:
            return self._predict_alike(hidden, target, temperature, choice_ids, with_entropy)
        sizes = (choice_ids >= 0).sum(1)
        logprobs = hidden.new_zeros(target.shape, dtype=torch.float32)
        entropies = torch.zeros_like(logprobs)
        for chosen in (sizes == 0, (sizes > 0) & (sizes <= FEW_CHOICES), sizes > FEW_CHOICES):
            at = chosen.nonzero()[:, 0]
            if at.numel():
                among = choice_ids[at, : int(sizes[at].max())]
                alike = (hidden[at], target[at], temperature[at])
                found = self._predict_alike(*alike, among, with_entropy)
                logprobs = logprobs.index_copy(0, at, found.logprobs)
                entropies = entropies.index_copy(0, at, found.entropies)
        return Predictions(logprobs, entropies)

    def _predict_alike(
        self,
        hidden: torch.Tensor,
        target: torch.Tensor,
        temperature: torch.Tensor,
        choice_ids: torch.Tensor,
        with_entropy: bool,
    ) -> Predictions:
        """Decisions over the whole vocabulary, all among few choices, or all among many."""
        if not choice_ids.shape[1]:
            needs = (torch.is_grad_enabled() and hidden.requires_grad, with_entropy)
            return Predictions(*_ChunkedPredictions.apply(hidden, target, temperature, self, needs))
        is_few = choice_ids.shape[1] <= FEW_CHOICES
        index = (choice_ids == target[:, None]).int().argmax(1, keepdim=True)
        logits = self.choice_logits if is_few else self._repeated_choice_logits
        found = _pick(logits(hidden, choice_ids), index, temperature)
        return found if with_entropy else found._replace(entropies=found.entropies.detach())

    def _repeated_choice_logits(
        self, hidden: torch.Tensor, choice_ids: torch.Tensor
    ) -> torch.Tensor:
        """`choice_logits` where many decisions have the same choices, each read once."""
        sets, which = torch.unique(choice_ids, dim=0, return_inverse=True)
        logits = hidden.new_full(choice_ids.shape, float("-inf"), dtype=torch.float32)
        for number, ids in enumerate(sets):
            at = (which == number).nonzero()[:, 0]
            own = ids[ids >= 0]
            raw = torch.nn.functional.linear(hidden[at].float(), self._layer.weight[own].float())
            bias = self._bias(own)
            found = self._adjust(raw if bias is None else raw + bias)
            padded = torch.nn.functional.pad(
                found, (0, ids.numel() - own.numel()), value=float("-inf")
            )
            logits = logits.index_copy(0, at, padded)
        return logits

    def chunk_rows(self) -> int:
        """How many decisions over the whole vocabulary are made at a time."""
        weight = self._layer.weight
        limit = CHUNK_LOGITS_CUDA if weight.is_cuda else CHUNK_LOGITS
        return max(1, limit // weight.shape[0])

    def room(self, rows: int) -> _Room | None:
        """Memory for chunks of so many decisions, where taking it anew for each costs time."""
        weight = self._layer.weight
        if weight.device.type != "cpu" or weight.dtype != torch.float32:
            return None
        return _Room(*weight.new_empty((2, rows, weight.shape[0])))

    def raw_logits(self, hidden: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """(N, H) to (N, V) before scaling, float32 whatever the weights are."""
        weight, bias = self._layer.weight, self._bias(None)
        if out is not None:
            raw = torch.mm(hidden, weight.t(), out=out)
            return raw if bias is None else raw.add_(bias)
        if weight.is_cuda and weight.dtype != torch.float32:
            raw = torch.mm(hidden, weight.t(), out_dtype=torch.float32)
            return raw if bias is None else raw.add_(bias)
        return torch.nn.functional.linear(hidden, weight, bias).float()

    def decide(
        self,
        hidden: torch.Tensor,
        target: torch.Tensor,
        temperature: torch.Tensor,
        *,
        needs_grad: bool,
        room: _Room | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probabilities, entropies and, where there is need of them, directions (N, H)."""
        logits, probabilities = room.of(hidden.shape[0]) if room else (None, None)
        raw, weight = self.raw_logits(hidden, logits), self._layer.weight
        none = hidden.new_empty((hidden.shape[0], 0))
        factor = self._scale / temperature[:, None]
        if self._softcap is not None:
            adjusted = self._adjust(raw) / temperature[:, None]
            logprobs, entropies, p = _outcomes(adjusted, target, probabilities)
            one = torch.ones_like(target[:, None], dtype=p.dtype)
            slopes = p.neg_().scatter_add_(1, target[:, None], one).mul_(self._bend(raw) * factor)
            return logprobs, entropies, slopes.to(weight.dtype) @ weight if needs_grad else none
        if raw.is_cuda:
            from practicum.engine.kernels.logits_kernels import pick

            logprobs, entropies = pick(raw, target, temperature / self._scale)
            # `pick` has put the slopes where the logits were.
            return logprobs, entropies, raw.to(weight.dtype) @ weight if needs_grad else none
        is_plain = bool((factor == 1.0).all())
        scaled = raw if is_plain else raw.mul_(factor)
        logprobs, entropies, p = _outcomes(scaled, target, probabilities)
        if not needs_grad:
            return logprobs, entropies, none
        directions = weight[target] - p.to(weight.dtype) @ weight
        return logprobs, entropies, directions if is_plain else directions * factor

    def decide_with_entropy(
        self, hidden: torch.Tensor, target: torch.Tensor, temperature: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probabilities, entropies, and the directions (N, H) of both."""
        raw, weight = self.raw_logits(hidden), self._layer.weight
        log_p = torch.log_softmax(self._adjust(raw) / temperature[:, None], dim=-1)
        p = log_p.exp()
        entropies = -(p * log_p.masked_fill(p == 0.0, 0.0)).sum(-1)
        factor = self._scale / temperature[:, None]
        if self._softcap is not None:
            factor = factor * self._bend(raw)
        chosen = torch.zeros_like(p).scatter_(1, target[:, None], 1.0)
        for_logprob = (chosen - p) * factor
        for_entropy = -p * (log_p.masked_fill(p == 0.0, 0.0) + entropies[:, None]) * factor
        directions = (slopes.to(weight.dtype) @ weight for slopes in (for_logprob, for_entropy))
        return log_p.gather(1, target[:, None])[:, 0], entropies, *directions

    def _bend(self, raw: torch.Tensor) -> torch.Tensor:
        """How softcapped logits change with scaled ones."""
        return 1.0 - torch.tanh(raw * self._scale / self._softcap).square()

    def _bias(self, ids: torch.Tensor | None) -> torch.Tensor | None:
        bias = getattr(self._layer, "bias", None)
        return bias if bias is None or ids is None else bias[ids]

    def _adjust(self, logits: torch.Tensor) -> torch.Tensor:
        logits = logits.float() * self._scale if self._scale != 1.0 else logits.float()
        if self._softcap is not None:
            logits = torch.tanh(logits / self._softcap) * self._softcap
        return logits


WEIGHTS_FILE = "value_head.safetensors"


class ValueHead(torch.nn.Module):
    """One number for each hidden state, 0 at first; float32 whatever the model is.

    States are brought to the same size, because families of models differ in it by orders of
    magnitude and the learning rate should not have to.
    """

    def __init__(self, width: int, device: torch.device | str) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, 1, device=device, dtype=torch.float32)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """(N, H) to (N,)."""
        states = hidden.float()
        states = states / states.square().mean(-1, keepdim=True).add(1e-6).sqrt()
        values: torch.Tensor = self.linear(states)[:, 0]
        return values

    def save(self, folder: Path) -> None:
        """Write the weights into an existing folder."""
        from safetensors.torch import save_file

        tensors = {k: v.detach().cpu().contiguous() for k, v in self.state_dict().items()}
        save_file(tensors, folder / WEIGHTS_FILE)

    def load(self, folder: Path) -> None:
        """Read back what `save` wrote; a checkpoint without one leaves the head as it is."""
        from safetensors.torch import load_file

        if (folder / WEIGHTS_FILE).is_file():
            self.load_state_dict(load_file(folder / WEIGHTS_FILE))
