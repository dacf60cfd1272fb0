"""What to change in a run that does not fit."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from practicum.core.config import LoraConfig
from practicum.hardware.allot import Case, allot
from practicum.hardware.shapes import KNOWN_SHAPES

__all__ = ["Advice", "advise"]

SMALLEST_BATCH_TOKENS = 128
"""Advice goes no lower: below it an update spends its time on overhead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One change that saves memory, as the user would type it."""

    setting: str
    note: str
    saves_bytes: int
    fits: bool
    """Whether this change alone is enough."""


Option = tuple[str, str, Case]
"""What to type, what it costs, and the run with it."""


def advise(case: Case) -> tuple[Advice, ...]:
    """Each lever pulled only as far as needed, or to its end."""
    total = case.total(allot(case))
    found = []
    for lever in (_smaller_batches, _smaller_groups, _lighter_adapter, _half, _models):
        last = None
        for setting, note, changed in lever(case):
            needs = changed.total(allot(changed))
            if needs >= total:
                continue
            last = Advice(
                setting=setting,
                note=note,
                saves_bytes=total - needs,
                fits=needs <= case.free_bytes,
            )
            if last.fits:
                break
        if last is not None:
            found.append(last)
    # The levers are tried gentlest first, and sorting keeps that order among those that fit.
    return tuple(sorted(found, key=lambda a: (not a.fits, 0 if a.fits else -a.saves_bytes)))


def _smaller_batches(case: Case) -> Iterator[Option]:
    tokens = allot(case).batch_tokens // 2
    while tokens >= SMALLEST_BATCH_TOKENS:
        algorithm = case.config.algorithm.model_copy(update={"micro_batch_tokens": tokens})
        changed = case.config.model_copy(update={"algorithm": algorithm})
        note = "the same update in smaller pieces, a little slower"
        yield f"algorithm.micro_batch_tokens={tokens}", note, replace(case, config=changed)
        tokens //= 2


def _smaller_groups(case: Case) -> Iterator[Option]:
    size = case.config.rollouts.group_size // 2
    while size >= 2:
        rollouts = case.config.rollouts.model_copy(update={"group_size": size})
        changed = case.config.model_copy(update={"rollouts": rollouts})
        note = "fewer episodes to compare, so a noisier update"
        yield f"rollouts.group_size={size}", note, replace(case, config=changed)
        size //= 2


def _lighter_adapter(case: Case) -> Iterator[Option]:
    light = LoraConfig.model_validate({"preset": "light"})
    changed = case.config.model_copy(update={"lora": light})
    yield "lora=light", "an adapter on q and v only learns less", replace(case, config=changed)


def _half(case: Case) -> Iterator[Option]:
    if case.dtype == "float32":
        note = "half the bytes a weight"
        if case.device == "cpu":
            note += ", slow on CPUs without bfloat16 instructions"
        yield "model.dtype=bfloat16", note, replace(case, dtype="bfloat16")


def _models(case: Case) -> Iterator[Option]:
    smaller = [
        (name, shape)
        for name, shape in KNOWN_SHAPES.items()
        if name != "tiny" and shape.parameters < case.shape.parameters
    ]
    for name, shape in reversed(smaller):
        note = f"a model of {shape.parameters / 1e9:.1f}B parameters"
        yield f"model={name}", note, replace(case, shape=shape)
