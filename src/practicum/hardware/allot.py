"""How a run divides the memory: micro-batches, what they keep, and the sampler's cache.

Batch and cache hang on the memory the machine has, not on what is free at the moment: they change
the last bits of a result, and a run that is resumed must end with the same bytes. What is free
decides on checkpointing alone, which changes no bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from practicum.core.config import RunConfig
from practicum.hardware.estimate import (
    Allotment,
    MemoryPart,
    estimate_memory,
    fitting_slots,
    format_bytes,
    needed_slots,
    roomy_batch,
)
from practicum.hardware.sampling import (
    FIRST_SLOTS,
    conversation_tokens,
    evaluation_tokens,
    rollout_tokens,
)
from practicum.hardware.shapes import ModelShape

__all__ = ["Case", "Choice", "allot", "explain_allotment"]

ROOM_SHARE = {"cpu": 0.8, "cuda": 0.92, "mps": 0.7}
"""Of the memory there is, what a run may divide; the rest is the system's, or a screen's."""

BATCH_STEP = 256
SMALLEST_BATCH = 256
"""Batches are chosen in these steps and no smaller, unless a conversation is."""

LARGEST_BATCH = 32_768
"""On a GPU, where a larger batch repeats less of what episodes share."""

LEAST_SLOTS = 8192
"""Slots wanted even of few episodes, whose prompts may be long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run on a device, as the estimate sees it."""

    shape: ModelShape
    config: RunConfig
    device: str
    dtype: str
    compact_heap: bool
    memory_bytes: int
    free_bytes: int

    def parts(self, allotment: Allotment) -> tuple[MemoryPart, ...]:
        """What the run needs with an allotment."""
        return estimate_memory(
            self.shape,
            self.config,
            allotment,
            device=self.device,
            dtype=self.dtype,
            compact_heap=self.compact_heap,
        )

    def total(self, allotment: Allotment) -> int:
        """All of it together."""
        return sum(part.bytes for part in self.parts(allotment))

    @property
    def room_bytes(self) -> int:
        """What may be divided."""
        return int(ROOM_SHARE[self.device] * self.memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One thing the plan chose, and why."""

    name: str
    value: str
    reason: str


def allot(case: Case) -> Allotment:
    """The best allotment that fits; the one that needs least when none does."""
    slots = needed_slots(case.config)
    batches = _batches(case, slots)
    chosen = _first_fitting(case, [*batches, *_smaller_caches(case, batches[-1])])
    if chosen.kv_slots < slots:
        chosen = _first_fitting(case, _batches(case, chosen.kv_slots))
    else:
        chosen = _first_fitting(case, [*_larger_caches(case, chosen), chosen])
    if case.device == "cuda" and not chosen.checkpointed:
        chosen = _first_fitting(case, [*_larger_batches(case, chosen), chosen])
    if case.total(chosen) > case.free_bytes:
        chosen = replace(chosen, checkpointed=True)
    return chosen


def _first_fitting(case: Case, options: Sequence[Allotment]) -> Allotment:
    """The first option that the room holds, or else the first of those that need least."""
    fitting = (option for option in options if case.total(option) <= case.room_bytes)
    found = next(fitting, None)
    # In MiB: parts are rounded, and what differs by a byte is no choice.
    return min(options, key=lambda o: case.total(o) >> 20) if found is None else found


def _batches(case: Case, slots: int) -> list[Allotment]:
    """Micro-batches, the best first: down to one conversation, then again checkpointed."""
    least = max(SMALLEST_BATCH, conversation_tokens(case.config))
    sizes = [*range(roomy_batch(case.config, case.device), least, -BATCH_STEP), least]
    told = case.config.algorithm.micro_batch_tokens
    return [
        Allotment(batch_tokens=tokens, checkpointed=checkpointed, kv_slots=slots)
        for checkpointed in (False, True)
        for tokens in ([told] if told else sizes)
    ]


def _larger_batches(case: Case, chosen: Allotment) -> list[Allotment]:
    """Up to a whole step at once, the largest first, if a roomy batch fits already."""
    if case.config.algorithm.micro_batch_tokens:
        return []
    roomy = roomy_batch(case.config, case.device)
    most = min(rollout_tokens(case.config), LARGEST_BATCH)
    sizes = [roomy << n for n in range(1, 16) if roomy << (n - 1) < most]
    grown = [replace(chosen, batch_tokens=min(size, most)) for size in reversed(sizes)]
    return grown if chosen.batch_tokens == roomy else []


def _smaller_caches(case: Case, least: Allotment) -> list[Allotment]:
    """Half the slots, and again, as long as a conversation has room."""
    found = []
    slots = least.kv_slots // 2
    while slots >= fitting_slots(max(FIRST_SLOTS, conversation_tokens(case.config))):
        found.append(replace(least, kv_slots=slots))
        slots //= 2
    return found


def _larger_caches(case: Case, chosen: Allotment) -> list[Allotment]:
    """Room for an evaluation's episodes, the most first."""
    tokens = max(rollout_tokens(case.config), evaluation_tokens(case.config), LEAST_SLOTS)
    found = []
    slots = fitting_slots(tokens)
    while slots > chosen.kv_slots:
        found.append(replace(chosen, kv_slots=slots))
        slots //= 2
    return found


def explain_allotment(case: Case, chosen: Allotment) -> tuple[Choice, ...]:
    """What was chosen, in words."""
    return (
        Choice(
            name="micro-batch",
            value=f"{chosen.batch_tokens:,} tokens",
            reason=_why_batch(case, chosen),
        ),
        Choice(
            name="checkpointing",
            value="on" if chosen.checkpointed else "off",
            reason=_why_checkpointed(case, chosen),
        ),
        Choice(
            name="KV cache", value=f"{chosen.kv_slots:,} slots", reason=_why_slots(case, chosen)
        ),
    )


def _why_batch(case: Case, chosen: Allotment) -> str:
    if case.config.algorithm.micro_batch_tokens:
        return "as the config says"
    roomy = roomy_batch(case.config, case.device)
    if chosen.batch_tokens > roomy:
        return "there is room for it, and larger batches repeat less"
    if chosen.batch_tokens == roomy:
        return "enough to keep the device busy"
    larger = case.total(replace(chosen, batch_tokens=roomy))
    return f"{roomy:,} would need {format_bytes(larger)} {_of_room(case)}"


def _why_checkpointed(case: Case, chosen: Allotment) -> str:
    if not chosen.checkpointed:
        return "what layers keep for the way back fits"
    kept = format_bytes(case.total(replace(chosen, checkpointed=False)))
    return f"layers are computed again on the way back; to keep them would need {kept}"


def _why_slots(case: Case, chosen: Allotment) -> str:
    rollouts, evaluated = rollout_tokens(case.config), evaluation_tokens(case.config)
    if chosen.kv_slots < rollouts:
        return f"a step's episodes have {rollouts:,} tokens; what has no room is computed again"
    if chosen.kv_slots >= max(rollouts, evaluated):
        return f"holds a step's episodes ({rollouts:,} tokens) and an evaluation's ({evaluated:,})"
    return f"holds a step's episodes ({rollouts:,} tokens)"


def _of_room(case: Case) -> str:
    return f"of the {format_bytes(case.room_bytes)} that a run may take"
