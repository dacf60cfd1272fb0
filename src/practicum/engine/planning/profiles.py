"""Hardware profiles: suggested config values for kinds of machines, each with its reason."""

from dataclasses import dataclass
from typing import Literal, get_args

from practicum.core.errors import ConfigError
from practicum.engine.planning.machine import Machine
from practicum.engine.planning.memory import format_bytes

ProfileName = Literal["auto", "cpu", "gpu", "ryzen"]
PROFILE_NAMES: tuple[str, ...] = get_args(ProfileName)

GIB = 1 << 30
TIER_SLACK = 0.95
"""A machine sold with 16 GB reports a little less and still counts as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A config value and the reason for it."""

    key: str
    """Dotted, as it is typed on the command line."""
    value: str | int
    reason: str

    @property
    def setting(self) -> str:
        """As it is typed on the command line."""
        return f"{self.key}={self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Settings for a kind of machine."""

    name: str
    summary: str
    suggestions: tuple[Suggestion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tier:
    """Settings for memory of at least `gib` GiB."""

    gib: int
    model: str
    rank: int
    group: int
    tasks: int


MEMORY_TIERS = (
    _Tier(gib=64, model="Qwen/Qwen2.5-3B-Instruct", rank=16, group=8, tasks=4),
    _Tier(gib=32, model="Qwen/Qwen2.5-1.5B-Instruct", rank=16, group=6, tasks=2),
    _Tier(gib=16, model="Qwen/Qwen2.5-0.5B-Instruct", rank=8, group=4, tasks=1),
    _Tier(gib=0, model="Qwen/Qwen2.5-0.5B-Instruct", rank=4, group=2, tasks=1),
)

DEVICE_TIERS = (
    _Tier(gib=24, model="Qwen/Qwen2.5-7B-Instruct", rank=32, group=8, tasks=8),
    _Tier(gib=16, model="Qwen/Qwen2.5-3B-Instruct", rank=16, group=8, tasks=4),
    _Tier(gib=8, model="Qwen/Qwen2.5-1.5B-Instruct", rank=16, group=8, tasks=2),
    _Tier(gib=0, model="Qwen/Qwen2.5-0.5B-Instruct", rank=8, group=4, tasks=1),
)

RYZEN_CPUS = ("5950X", "5900X")
RYZEN = _Tier(gib=40, model="Qwen/Qwen2.5-1.5B-Instruct", rank=16, group=6, tasks=2)
"""A Ryzen 9 5950X with 40 GB."""


def suggest_profile(name: str, machine: Machine) -> Profile:
    """The settings of a profile on this machine; `auto` chooses the profile by the machine."""
    if name == "auto":
        return _choose(machine)
    if name == "cpu":
        return _cpu(machine)
    if name == "gpu":
        return _gpu(machine)
    if name == "ryzen":
        return _ryzen(machine)
    raise ConfigError(
        f"hardware.profile = {name!r} is not known; choose one of: {', '.join(PROFILE_NAMES)}"
    )


def _choose(machine: Machine) -> Profile:
    if any(device.is_usable for device in machine.devices):
        return _gpu(machine)
    if any(model in machine.cpu for model in RYZEN_CPUS):
        return _ryzen(machine)
    return _cpu(machine)


def _cpu(machine: Machine) -> Profile:
    tier = _tier(MEMORY_TIERS, machine.memory_bytes)
    why = f"{format_bytes(machine.memory_bytes)} of memory"
    return Profile(
        name="cpu",
        summary=f"no accelerator is used; {why}",
        suggestions=(
            *_common(tier, why),
            Suggestion(key="model.device", value="cpu", reason="this profile uses no accelerator"),
            Suggestion(
                key="model.dtype", value="float32", reason="fastest and most exact on a CPU"
            ),
        ),
    )


def _gpu(machine: Machine) -> Profile:
    usable = [device for device in machine.devices if device.is_usable]
    if not usable:
        raise ConfigError(
            "hardware.profile = 'gpu' needs a device that the installed torch can use, and there "
            "is none; set hardware.profile to auto, cpu or ryzen"
        )
    device = usable[0]
    tier = _tier(DEVICE_TIERS, device.memory_bytes)
    why = f"{format_bytes(device.memory_bytes)} on {device.name}"
    kind = "mps" if device.kind == "mps" else "cuda"
    return Profile(
        name="gpu",
        summary=why,
        suggestions=(
            *_common(tier, why),
            Suggestion(key="model.device", value=kind, reason=f"{device.name} is here"),
            Suggestion(key="model.dtype", value="bfloat16", reason="half the memory of float32"),
        ),
    )


def _ryzen(machine: Machine) -> Profile:
    why = "a Ryzen 9 with 16 cores and 40 GB"
    return Profile(
        name="ryzen",
        summary=f"settings for {why}; this CPU is {machine.cpu}",
        suggestions=(
            *_common(RYZEN, why),
            Suggestion(key="model.device", value="cpu", reason="this profile uses no accelerator"),
            Suggestion(key="model.dtype", value="bfloat16", reason="half the memory of float32"),
        ),
    )


def _common(tier: _Tier, why: str) -> tuple[Suggestion, ...]:
    return (
        Suggestion(key="model", value=tier.model, reason=f"largest model for {why}"),
        Suggestion(key="lora.r", value=tier.rank, reason=f"adapter's rank for {why}"),
        Suggestion(key="lora.alpha", value=2 * tier.rank, reason="twice the rank"),
        Suggestion(
            key="rollouts.group_size", value=tier.group, reason=f"episodes compared, for {why}"
        ),
        Suggestion(key="rollouts.tasks_per_step", value=tier.tasks, reason=f"batch for {why}"),
    )


def _tier(tiers: tuple[_Tier, ...], memory_bytes: int) -> _Tier:
    return next(tier for tier in tiers if memory_bytes >= TIER_SLACK * tier.gib * GIB)
