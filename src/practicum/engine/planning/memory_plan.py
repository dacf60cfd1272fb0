"""Plans a run's memory: whether it fits, its micro-batch and KV cache, and what to change if not.

Order: `plan_memory` and what it returns, `allot` (the choice of settings), `advise` (changes that
save memory). Micro-batch and cache depend on the memory the machine has, not on what is free now:
they change the last bits of a result, and a resumed run must end with the same bytes. Free memory
decides on gradient checkpointing only, which changes no bit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from practicum.core.config.config_sections import LoraConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import NotEnoughMemory
from practicum.engine.planning.machine import (
    Machine,
    available_memory,
    choose_device,
    choose_dtype,
    device_kind,
    is_heap_compact,
    process_devices,
    total_memory,
)
from practicum.engine.planning.memory import (
    FIRST_SLOTS,
    Allotment,
    FrozenModel,
    MemoryPart,
    conversation_tokens,
    estimate_memory,
    evaluation_tokens,
    fitting_slots,
    format_bytes,
    frozen_part,
    needed_slots,
    preferred_batch,
    rollout_tokens,
)
from practicum.engine.planning.model_shapes import (
    KNOWN_SHAPES,
    ModelShape,
    find_shape,
    lora_parameters,
)

USABLE_SHARE = {"cpu": 0.8, "cuda": 0.92, "mps": 0.7}
"""The share of the memory that a run may use; the rest is left to the system and a display."""

BATCH_STEP = 256
SMALLEST_BATCH = 256
"""Micro-batches are multiples of the first and at least the second, or one conversation."""

LARGEST_BATCH = 32_768
"""On a GPU, where a larger micro-batch computes shared prefixes less often."""

UPDATE_PARTS = frozenset({"gradients", "activations", "attention", "logits"})
"""Parts that exist only while learning."""

RANK_0_PARTS = frozenset({"KV cache", "captured steps", "sampling"})
"""Parts that only the process has that samples, where several learn together."""

LEAST_SLOTS = 8192
"""KV slots wanted even for few episodes, whose prompts may be long."""

SMALLEST_BATCH_TOKENS = 128
"""Advice goes no lower: with less an update spends its time on overhead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run on a device: all that its memory depends on but the `Allotment`."""

    shape: ModelShape
    config: RunConfig
    device: str
    dtype: str
    compact_heap: bool
    memory_bytes: int
    free_bytes: int
    frozen: tuple[FrozenModel, ...] = ()
    """Those of known shape on this device."""
    replicas_beside: int = 0
    """Processes that learn with this one in the same memory."""

    def parts(self, allotment: Allotment) -> tuple[MemoryPart, ...]:
        """The run's memory with an allotment, part by part."""
        own = self._own_parts(allotment)
        update = sum(part.bytes for part in own if part.name in UPDATE_PARTS)
        others = [frozen_part(model, self.config, allotment, update) for model in self.frozen]
        if self.replicas_beside:
            size = self.replicas_beside * self.replica_bytes(allotment)
            others.append(MemoryPart(name="replicas", bytes=size, depends_on="hardware.processes"))
        return (*own, *others)

    def replica_bytes(self, allotment: Allotment) -> int:
        """What another process needs that learns with this one and does not sample."""
        own = self._own_parts(allotment)
        return sum(part.bytes for part in own if part.name not in RANK_0_PARTS)

    def _own_parts(self, allotment: Allotment) -> tuple[MemoryPart, ...]:
        return estimate_memory(
            self.shape,
            self.config,
            allotment,
            device=self.device,
            dtype=self.dtype,
            compact_heap=self.compact_heap,
        )

    def total(self, allotment: Allotment) -> int:
        """The run's memory with an allotment, in bytes."""
        return sum(part.bytes for part in self.parts(allotment))

    @property
    def usable_bytes(self) -> int:
        """Bytes that the run may use."""
        return int(USABLE_SHARE[self.device] * self.memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A setting that the plan chose, and why."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One change that saves memory."""

    setting: str
    note: str
    saves_bytes: int
    fits: bool
    """Whether this change alone is enough."""


class Least(NamedTuple):
    """The least memory that a run can be told to take."""

    settings: tuple[str, ...]
    """What to add to the command line."""
    bytes: int


class ReplicaPlace(NamedTuple):
    """A GPU of its own for a process that learns with the one that samples."""

    device: str
    needed_bytes: int
    available_bytes: int

    @property
    def fits(self) -> bool:
        """Whether it is within the memory that is free now."""
        return self.needed_bytes <= self.available_bytes

    @property
    def told(self) -> str:
        """The same as a person reads it."""
        needed, free = format_bytes(self.needed_bytes), format_bytes(self.available_bytes)
        return f"the process on {self.device} needs about {needed} and {free} are free there"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """A run's memory, the memory there is, the settings chosen, and advice if it does not fit.

    For a run of several stages, the memory of the stage that needs most.
    """

    model: str
    device: str
    dtype: str
    parts: tuple[MemoryPart, ...]
    allotment: Allotment
    choices: tuple[Choice, ...]
    """The allotment in words."""
    stage_batch_tokens: tuple[int, ...]
    """The micro-batch of each stage."""
    available_bytes: int
    parameters: int
    trainable: int
    advice: tuple[Advice, ...] = ()
    """Changes that are enough alone, the gentlest first; then the others, the largest saving
    first. Empty when the run fits."""
    least: Least | None = None
    """With all that saves, where the run fits and could take less; not for runs of stages."""
    uncounted: tuple[str, ...] = ()
    """Frozen models that are not counted, and why."""
    replicas: tuple[ReplicaPlace, ...] = ()
    """The other GPUs of a run of several processes."""

    @property
    def total_bytes(self) -> int:
        """All parts together."""
        return sum(part.bytes for part in self.parts)

    @property
    def fits(self) -> bool:
        """Whether it is within the memory that is free now."""
        here = self.total_bytes <= self.available_bytes
        return here and all(replica.fits for replica in self.replicas)


def plan_memory(
    config: RunConfig, machine: Machine, frozen: Sequence[FrozenModel] = ()
) -> MemoryPlan | None:
    """The memory plan of a run on this machine; None for a model of unknown shape.

    Call it once and before loading anything: loaded weights would count twice, once in the plan
    and once as memory that is not free.

    Args:
        config: The run's config.
        machine: The machine before the run.
        frozen: Models that the run loads beside the policy.
    """
    run = _planned_run(config, machine, frozen)
    if run is None:
        return None
    slots = allot(run).kv_slots  # all stages share one KV cache
    stages = [replace(run, config=config.of_stage(stage)) for stage in config.all_stages]
    given = [replace(allot(stage), kv_slots=slots) for stage in stages]
    pairs = list(zip(stages, given, strict=True))
    checkpointed = any(g.checkpointed or s.total(g) > run.free_bytes for s, g in pairs)
    pairs = [(s, replace(g, checkpointed=checkpointed)) for s, g in pairs]
    largest, chosen = max(pairs, key=lambda pair: pair[0].total(pair[1]))
    return MemoryPlan(
        model=config.model.name,
        device=run.device,
        dtype=run.dtype,
        parts=largest.parts(chosen),
        allotment=chosen,
        choices=_choices(pairs, (largest, chosen)),
        stage_batch_tokens=tuple(g.batch_tokens for g in given),
        available_bytes=run.free_bytes,
        parameters=run.shape.parameters,
        trainable=lora_parameters(run.shape, config.lora),
        least=None if config.stages else _least(largest, chosen),
        advice=() if largest.total(chosen) <= run.free_bytes else advise(largest),
        uncounted=tuple(_uncounted(model) for model in frozen if model not in run.frozen),
        replicas=_replicas(largest, chosen, machine),
    )


def _replicas(run: PlannedRun, chosen: Allotment, machine: Machine) -> tuple[ReplicaPlace, ...]:
    """What the processes on other GPUs need there."""
    first, *others = process_devices(run.config, machine)
    needed = run.replica_bytes(chosen)
    return tuple(
        ReplicaPlace(place, needed, available_memory(machine, place))
        for place in others
        if place != first
    )


def _planned_run(
    config: RunConfig, machine: Machine, frozen: Sequence[FrozenModel]
) -> PlannedRun | None:
    shape = find_shape(config.model.name)
    if shape is None:
        return None
    places = process_devices(config, machine)
    place, device = places[0], device_kind(places[0])
    return PlannedRun(
        shape=shape,
        config=config,
        device=device,
        dtype=choose_dtype(device, config.model.dtype),
        compact_heap=is_heap_compact(),
        memory_bytes=total_memory(machine, place),
        free_bytes=available_memory(machine, place),
        frozen=tuple(m for m in frozen if m.shape is not None and device_kind(m.device) == device),
        replicas_beside=places.count(place) - 1,
    )


def _uncounted(model: FrozenModel) -> str:
    why = "its shape is not known here" if model.shape is None else f"it goes to {model.device}"
    return f"{model.role} {model.name}: {why}"


def _choices(
    pairs: Sequence[tuple[PlannedRun, Allotment]], largest: tuple[PlannedRun, Allotment]
) -> tuple[Choice, ...]:
    """The largest stage's choices; of several stages, the micro-batch of each."""
    batch, *others = explain_allotment(*largest)
    if len(pairs) == 1:
        return (batch, *others)
    batches = [explain_allotment(*pair)[0] for pair in pairs]
    named = [replace(one, name=f"{one.name}, stage {n}") for n, one in enumerate(batches, start=1)]
    return (*named, *others)


def plan_allotment(
    config: RunConfig, machine: Machine, frozen: Sequence[FrozenModel] = ()
) -> Allotment:
    """The allotment of a run of one stage; for a model of unknown shape, the fastest one.

    Free memory decides on checkpointing only: the rest is the same before and after loading.
    """
    run = _planned_run(config, machine, frozen)
    if run is not None:
        return allot(run)
    device = device_kind(choose_device(machine, config.model.device))
    enough = Allotment.of(config, device)
    return replace(enough, kv_slots=max(enough.kv_slots, LEAST_SLOTS))


def check_fits(plan: MemoryPlan, machine: Machine) -> None:
    """Raises `NotEnoughMemory`, with the gentlest change that is enough, unless the plan fits."""
    if plan.fits:
        return
    small = next((replica for replica in plan.replicas if not replica.fits), None)
    if small is not None and plan.total_bytes <= plan.available_bytes:
        raise NotEnoughMemory(
            f"training {plan.model} with this config does not fit: {small.told}; close what uses "
            "it, or give fewer --processes"
        )
    where = "this machine" if plan.device == "cpu" else f"the {plan.device} device"
    limited = " as its control group allows" if machine.is_memory_limited else ""
    enough = [advice for advice in plan.advice if advice.fits]
    first = enough[0].setting if enough else " ".join(a.setting for a in plan.advice[:2])
    raise NotEnoughMemory(
        f"training {plan.model} with this config needs about {format_bytes(plan.total_bytes)} and "
        f"{where} has {format_bytes(plan.available_bytes)} free{limited}; "
        f"try {first} (practicum doctor --config shows every part)"
    )


def allot(run: PlannedRun) -> Allotment:
    """The fastest allotment that fits, or the smallest if none does."""
    slots = needed_slots(run.config)
    batches = _batches(run, slots)
    chosen = _first_fitting(run, [*batches, *_smaller_caches(run, batches[-1])])
    if chosen.kv_slots < slots:
        chosen = _first_fitting(run, _batches(run, chosen.kv_slots))
    else:
        chosen = _first_fitting(run, [*_larger_caches(run, chosen), chosen])
    if run.device == "cuda" and not chosen.checkpointed:
        chosen = _first_fitting(run, [*_larger_batches(run, chosen), chosen])
    if run.total(chosen) > run.free_bytes:
        chosen = replace(chosen, checkpointed=True)
    return chosen


def _first_fitting(run: PlannedRun, options: Sequence[Allotment]) -> Allotment:
    """The first option that fits into the usable memory, or else the smallest."""
    fitting = (option for option in options if run.total(option) <= run.usable_bytes)
    found = next(fitting, None)
    # Compared in MiB, so that rounding of the parts does not decide between equal options.
    return min(options, key=lambda o: run.total(o) >> 20) if found is None else found


def _batches(run: PlannedRun, slots: int) -> list[Allotment]:
    """Micro-batch sizes, the best first, down to one conversation; then all with checkpointing."""
    least = max(SMALLEST_BATCH, conversation_tokens(run.config))
    sizes = [*range(preferred_batch(run.config, run.device), least, -BATCH_STEP), least]
    configured = run.config.algorithm.micro_batch_tokens
    return [
        Allotment(batch_tokens=tokens, checkpointed=checkpointed, kv_slots=slots)
        for checkpointed in (False, True)
        for tokens in ([configured] if configured else sizes)
    ]


def _larger_batches(run: PlannedRun, chosen: Allotment) -> list[Allotment]:
    """Larger micro-batches, up to a whole step, largest first, if the preferred one fits."""
    if run.config.algorithm.micro_batch_tokens:
        return []
    preferred = preferred_batch(run.config, run.device)
    most = min(rollout_tokens(run.config), LARGEST_BATCH)
    sizes = [preferred << n for n in range(1, 16) if preferred << (n - 1) < most]
    grown = [replace(chosen, batch_tokens=min(size, most)) for size in reversed(sizes)]
    return grown if chosen.batch_tokens == preferred else []


def _smaller_caches(run: PlannedRun, least: Allotment) -> list[Allotment]:
    """The KV cache halved again and again, as long as it holds one conversation."""
    found = []
    slots = least.kv_slots // 2
    while slots >= fitting_slots(max(FIRST_SLOTS, conversation_tokens(run.config))):
        found.append(replace(least, kv_slots=slots))
        slots //= 2
    return found


def _larger_caches(run: PlannedRun, chosen: Allotment) -> list[Allotment]:
    """KV caches up to the size that an evaluation needs, largest first."""
    tokens = max(rollout_tokens(run.config), evaluation_tokens(run.config), LEAST_SLOTS)
    found = []
    slots = fitting_slots(tokens)
    while slots > chosen.kv_slots:
        found.append(replace(chosen, kv_slots=slots))
        slots //= 2
    return found


def explain_allotment(run: PlannedRun, chosen: Allotment) -> tuple[Choice, ...]:
    """The settings chosen, with a reason for each."""
    batch, slots = f"{chosen.batch_tokens:,} tokens", f"{chosen.kv_slots:,} slots"
    checkpointing = "on" if chosen.checkpointed else "off"
    why = _why_checkpointing(run, chosen)
    return (
        Choice(name="micro-batch", value=batch, reason=_why_batch(run, chosen)),
        Choice(name="checkpointing", value=checkpointing, reason=why),
        Choice(name="KV cache", value=slots, reason=_why_slots(run, chosen)),
    )


def _why_batch(run: PlannedRun, chosen: Allotment) -> str:
    if run.config.algorithm.micro_batch_tokens:
        return "as the config says"
    preferred = preferred_batch(run.config, run.device)
    if chosen.batch_tokens > preferred:
        return "there is room for it, and larger batches repeat less"
    if chosen.batch_tokens == preferred:
        return "enough to keep the device busy"
    larger = run.total(replace(chosen, batch_tokens=preferred))
    return f"{preferred:,} would need {format_bytes(larger)} {_of_usable(run)}"


def _why_checkpointing(run: PlannedRun, chosen: Allotment) -> str:
    if not chosen.checkpointed:
        return "what layers keep for the backward pass fits"
    kept = format_bytes(run.total(replace(chosen, checkpointed=False)))
    return f"layers are computed again in the backward pass; to keep them would need {kept}"


def _why_slots(run: PlannedRun, chosen: Allotment) -> str:
    rollouts, evaluated = rollout_tokens(run.config), evaluation_tokens(run.config)
    if chosen.kv_slots < rollouts:
        return f"a step's episodes have {rollouts:,} tokens; what has no room is computed again"
    if chosen.kv_slots >= max(rollouts, evaluated):
        return f"holds a step's episodes ({rollouts:,} tokens) and an evaluation's ({evaluated:,})"
    return f"holds a step's episodes ({rollouts:,} tokens)"


def _of_usable(run: PlannedRun) -> str:
    return f"of the {format_bytes(run.usable_bytes)} that a run may take"


Option = tuple[str, str, PlannedRun]
"""A setting as it is typed on the command line, what it costs, and the run with it."""


def advise(run: PlannedRun) -> tuple[Advice, ...]:
    """Changes that save memory, each only as large as needed, or as large as possible."""
    total = run.total(allot(run))
    found = []
    for changes in (_smaller_batches, _smaller_groups, _lighter_adapter, _half, _models):
        last = None
        for setting, note, changed in changes(run):
            needs = changed.total(allot(changed))
            if needs >= total:
                continue
            fits = needs <= run.free_bytes
            last = Advice(setting=setting, note=note, saves_bytes=total - needs, fits=fits)
            if last.fits:
                break
        if last is not None:
            found.append(last)
    # Changes come gentlest first, and sorting is stable, so those that fit keep that order.
    return tuple(sorted(found, key=lambda a: (not a.fits, 0 if a.fits else -a.saves_bytes)))


def _least(run: PlannedRun, chosen: Allotment) -> Least | None:
    """Every change that saves memory, each as far as it goes, one over the other."""
    least, settings = run, []
    for changes in (_half, _smaller_batches, _smaller_groups, _lighter_adapter):
        options = list(changes(least))
        if options and options[-1][2].total(allot(options[-1][2])) < least.total(allot(least)):
            settings.append(options[-1][0])
            least = options[-1][2]
    needs = least.total(allot(least))
    saves = run.free_bytes >= run.total(chosen) > needs
    return Least(tuple(settings), needs) if saves else None


def _smaller_batches(run: PlannedRun) -> Iterator[Option]:
    tokens = allot(run).batch_tokens // 2
    while tokens >= SMALLEST_BATCH_TOKENS:
        algorithm = run.config.algorithm.model_copy(update={"micro_batch_tokens": tokens})
        changed = run.config.model_copy(update={"algorithm": algorithm})
        note = "the same update in smaller pieces, a little slower"
        yield f"algorithm.micro_batch_tokens={tokens}", note, replace(run, config=changed)
        tokens //= 2


def _smaller_groups(run: PlannedRun) -> Iterator[Option]:
    size = run.config.rollouts.group_size // 2
    while size >= 2:
        rollouts = run.config.rollouts.model_copy(update={"group_size": size})
        changed = run.config.model_copy(update={"rollouts": rollouts})
        note = "fewer episodes to compare, so a noisier update"
        yield f"rollouts.group_size={size}", note, replace(run, config=changed)
        size //= 2


def _lighter_adapter(run: PlannedRun) -> Iterator[Option]:
    light = LoraConfig.model_validate({"preset": "light"})
    changed = run.config.model_copy(update={"lora": light})
    yield "lora=light", "an adapter on q and v only learns less", replace(run, config=changed)


def _half(run: PlannedRun) -> Iterator[Option]:
    if run.dtype == "float32":
        note = "half the bytes a weight"
        if run.device == "cpu":
            note += ", slow on CPUs without bfloat16 instructions"
        yield "model.dtype=bfloat16", note, replace(run, dtype="bfloat16")


def _models(run: PlannedRun) -> Iterator[Option]:
    smaller = [
        (name, shape)
        for name, shape in KNOWN_SHAPES.items()
        if name != "tiny" and shape.parameters < run.shape.parameters
    ]
    for name, shape in reversed(smaller):
        note = f"a model of {shape.parameters / 1e9:.1f}B parameters"
        yield f"model={name}", note, replace(run, shape=shape)
