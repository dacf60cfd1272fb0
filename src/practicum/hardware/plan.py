"""Whether a run fits the machine, how it divides the memory, and what to change if it does not."""

from dataclasses import dataclass, replace

from practicum.core.config import RunConfig
from practicum.core.errors import NotEnoughMemory
from practicum.hardware.advice import Advice, advise
from practicum.hardware.allot import LEAST_SLOTS, Case, Choice, allot, explain_allotment
from practicum.hardware.detect import Machine
from practicum.hardware.estimate import Allotment, MemoryPart, format_bytes
from practicum.hardware.heap import is_heap_compact
from practicum.hardware.placement import (
    available_memory,
    choose_device,
    choose_dtype,
    total_memory,
)
from practicum.hardware.shapes import find_shape, lora_parameters

__all__ = ["Advice", "MemoryPlan", "check_fits", "format_bytes", "plan_allotment", "plan_memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """What a run needs, what there is, what was chosen, and what would help."""

    model: str
    device: str
    dtype: str
    parts: tuple[MemoryPart, ...]
    allotment: Allotment
    choices: tuple[Choice, ...]
    """The allotment in words."""
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


def plan_memory(config: RunConfig, machine: Machine) -> MemoryPlan | None:
    """The plan of a run on this machine; None for a model whose shape is not known here."""
    shape = find_shape(config.model.name)
    if shape is None:
        return None
    device = choose_device(machine, config.model.device)
    case = Case(
        shape=shape,
        config=config,
        device=device,
        dtype=choose_dtype(device, config.model.dtype),
        compact_heap=is_heap_compact(),
        memory_bytes=total_memory(machine, device),
        free_bytes=available_memory(machine, device),
    )
    chosen = allot(case)
    return MemoryPlan(
        model=config.model.name,
        device=device,
        dtype=case.dtype,
        parts=case.parts(chosen),
        allotment=chosen,
        choices=explain_allotment(case, chosen),
        available_bytes=case.free_bytes,
        parameters=shape.parameters,
        trainable=lora_parameters(shape, config.lora),
        advice=() if case.total(chosen) <= case.free_bytes else advise(case),
    )


def plan_allotment(config: RunConfig, machine: Machine) -> Allotment:
    """How a run divides the memory; for a model of unknown shape, as if there were enough."""
    plan = plan_memory(config, machine)
    if plan is not None:
        return plan.allotment
    enough = Allotment.of(config, choose_device(machine, config.model.device))
    return replace(enough, kv_slots=max(enough.kv_slots, LEAST_SLOTS))


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
