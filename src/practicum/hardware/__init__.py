"""What is here, and what fits."""

from practicum.hardware.detect import Machine, detect_machine
from practicum.hardware.devices import Device
from practicum.hardware.estimate import Allotment, MemoryPart, estimate_memory
from practicum.hardware.extras import Extra
from practicum.hardware.heap import (
    give_back_heap,
    keep_heap,
    make_heap_compact,
    use_one_heap,
)
from practicum.hardware.placement import choose_device, choose_dtype, plan_threads
from practicum.hardware.plan import (
    Advice,
    MemoryPlan,
    check_fits,
    format_bytes,
    plan_allotment,
    plan_memory,
)
from practicum.hardware.profiles import Profile, Suggestion, suggest_profile
from practicum.hardware.shapes import ModelShape, find_shape, lora_parameters

__all__ = [
    "Advice",
    "Allotment",
    "Device",
    "Extra",
    "Machine",
    "MemoryPart",
    "MemoryPlan",
    "ModelShape",
    "Profile",
    "Suggestion",
    "check_fits",
    "choose_device",
    "choose_dtype",
    "detect_machine",
    "estimate_memory",
    "find_shape",
    "format_bytes",
    "give_back_heap",
    "keep_heap",
    "lora_parameters",
    "make_heap_compact",
    "plan_allotment",
    "plan_memory",
    "plan_threads",
    "suggest_profile",
    "use_one_heap",
]
