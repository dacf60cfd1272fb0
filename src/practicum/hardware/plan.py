"""Whether a run fits the machine, and what to change if it does not."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from practicum.core.config import LoraConfig, RunConfig
from practicum.core.errors import NotEnoughMemory
from practicum.hardware.detect import Machine
from practicum.hardware.estimate import MemoryPart, estimate_memory, is_heap_compact
from practicum.hardware.placement import available_memory, choose_device, choose_dtype
from practicum.hardware.shapes import KNOWN_SHAPES, ModelShape, find_shape, lora_parameters

__all__ = ["Advice", "MemoryPlan", "check_fits", "format_bytes", "plan_memory"]

GIB = 1 << 30

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """What a run needs, what there is, and what would help."""

    model: str
    device: str
    dtype: str
    parts: tuple[MemoryPart, ...]
    available_bytes: int
    parameters: int
    trainable: int
    advice: tuple[Advice, ...] = ()
    """Changes that are enough alone, the gentlest first; then the others, the largest saving
    first. Empty when the run fits."""

    @property
    def total_bytes(self) -> int:
        """All parts together."""
        return sum(part.bytes for part in self.parts)

    @property
    def fits(self) -> bool:
        """Whether it is within what can be had now."""
        return self.total_bytes <= self.available_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A run as the estimate sees it."""

    shape: ModelShape
    config: RunConfig
    device: str
    dtype: str
    compact_heap: bool

    def parts(self) -> tuple[MemoryPart, ...]:
        return estimate_memory(
            self.shape,
            self.config,
            device=self.device,
            dtype=self.dtype,
            compact_heap=self.compact_heap,
        )

    def total(self) -> int:
        return sum(part.bytes for part in self.parts())


def plan_memory(config: RunConfig, machine: Machine) -> MemoryPlan | None:
    """The plan of a run on this machine; None for a model whose shape is not known here."""
    shape = find_shape(config.model.name)
    if shape is None:
        return None
    device = choose_device(machine, config.model.device)
    case = _Case(
        shape=shape,
        config=config,
        device=device,
        dtype=choose_dtype(device, config.model.dtype),
        compact_heap=is_heap_compact(),
    )
    available = available_memory(machine, device)
    return MemoryPlan(
        model=config.model.name,
        device=device,
        dtype=case.dtype,
        parts=case.parts(),
        available_bytes=available,
        parameters=shape.parameters,
        trainable=lora_parameters(shape, config.lora),
        advice=() if case.total() <= available else _advise(case, available),
    )


def check_fits(plan: MemoryPlan, machine: Machine) -> None:
    """Raise `NotEnoughMemory`, with the change that helps most, unless the plan fits."""
    if plan.fits:
        return
    where = "this machine" if plan.device == "cpu" else f"the {plan.device} device"
    limited = " as its control group allows" if machine.is_memory_limited else ""
    enough = [advice for advice in plan.advice if advice.fits]
    first = enough[0].setting if enough else " ".join(a.setting for a in plan.advice[:2])
    raise NotEnoughMemory(
        f"training {plan.model} with this config needs about {format_bytes(plan.total_bytes)} and "
        f"{where} has {format_bytes(plan.available_bytes)} free{limited}; "
        f"try {first} (practicum doctor --config shows every part)"
    )


def format_bytes(count: int) -> str:
    """Bytes in the unit a person would choose.

    >>> format_bytes(1_610_612_736)
    '1.5 GiB'
    """
    if count >= GIB:
        return f"{count / GIB:.1f} GiB"
    return f"{count / (1 << 20):.0f} MiB"


def _advise(case: _Case, available: int) -> tuple[Advice, ...]:
    """Each lever pulled only as far as needed, or to its end."""
    total = case.total()
    found = []
    for lever in (_smaller_batches, _tight_heap, _smaller_groups, _lighter_adapter, _half, _models):
        last = None
        for setting, note, changed in lever(case):
            needs = changed.total()
            if needs >= total:
                continue
            last = Advice(
                setting=setting, note=note, saves_bytes=total - needs, fits=needs <= available
            )
            if last.fits:
                break
        if last is not None:
            found.append(last)
    # The levers are tried gentlest first, and sorting keeps that order among those that fit.
    return tuple(sorted(found, key=lambda a: (not a.fits, 0 if a.fits else -a.saves_bytes)))


Option = tuple[str, str, _Case]
"""What to type, what it costs, and the run with it."""


def _smaller_batches(case: _Case) -> Iterator[Option]:
    tokens = case.config.algorithm.micro_batch_tokens // 2
    while tokens >= SMALLEST_BATCH_TOKENS:
        algorithm = case.config.algorithm.model_copy(update={"micro_batch_tokens": tokens})
        changed = case.config.model_copy(update={"algorithm": algorithm})
        note = "the same update in smaller pieces, a little slower"
        yield f"algorithm.micro_batch_tokens={tokens}", note, replace(case, config=changed)
        tokens //= 2


def _smaller_groups(case: _Case) -> Iterator[Option]:
    size = case.config.rollouts.group_size // 2
    while size >= 2:
        rollouts = case.config.rollouts.model_copy(update={"group_size": size})
        changed = case.config.model_copy(update={"rollouts": rollouts})
        note = "fewer episodes to compare, so a noisier update"
        yield f"rollouts.group_size={size}", note, replace(case, config=changed)
        size //= 2


def _lighter_adapter(case: _Case) -> Iterator[Option]:
    light = LoraConfig.model_validate({"preset": "light"})
    changed = case.config.model_copy(update={"lora": light})
    yield "lora=light", "an adapter on q and v only learns less", replace(case, config=changed)


def _half(case: _Case) -> Iterator[Option]:
    if case.dtype == "float32":
        note = "half the bytes a weight"
        if case.device == "cpu":
            note += ", slow on CPUs without bfloat16 instructions"
        yield "model.dtype=bfloat16", note, replace(case, dtype="bfloat16")


def _tight_heap(case: _Case) -> Iterator[Option]:
    if case.device == "cpu" and not case.compact_heap:
        note = "an environment variable, set before the command; updates take up to 40 % longer"
        yield "MALLOC_MMAP_THRESHOLD_=65536", note, replace(case, compact_heap=True)


def _models(case: _Case) -> Iterator[Option]:
    smaller = [
        (name, shape)
        for name, shape in KNOWN_SHAPES.items()
        if name != "tiny" and shape.parameters < case.shape.parameters
    ]
    for name, shape in reversed(smaller):
        note = f"a model of {shape.parameters / 1e9:.1f}B parameters"
        yield f"model={name}", note, replace(case, shape=shape)
