"""Accelerators that are not here: a run planned for one, with its time, disk and cost.

Times are for turns as long as they may be, at rates a little below those that were measured on an
H200 (docs/performance.md): learning at 0.45 of a card's matrix rate and 80 ms an update, sampling
at 0.65 of its bandwidth and never faster than 2 ms a token. Runs of short turns take less.
"""

import math
from dataclasses import dataclass, replace

from practicum.core.config.algorithm_config import OfflineConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError, nearest
from practicum.engine.planning.machine import DTYPE_BYTES, Device, Machine
from practicum.engine.planning.memory import (
    CHOSEN_TOKENS,
    EVALUATED_AT_ONCE,
    PROMPT_TOKENS,
    REPLY_TOKENS,
    format_bytes,
)
from practicum.engine.planning.memory_plan import MemoryPlan

GIB = 1 << 30
LEARNING_SHARE = 0.45
SAMPLING_SHARE = 0.65
LEAST_TOKEN_S = 2e-3
LEAST_UPDATE_S = 0.08
START_S = 60.0
"""Loading, compiling and capturing before the first step."""
FREE_PROMPT_TOKENS, FREE_REPLY_TOKENS = 600, 200
"""Assumed for tasks whose turns are free text: instructions with tools, and what a tool answers."""
TRACE_BYTES = 12
"""Bytes a token takes in `traces.sqlite`, with its log-probability."""
FREE_SHARE = 0.95
"""Of a card's memory, what the driver leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a kind of accelerator has, by its maker's data sheet."""

    title: str
    gib: float
    bandwidth_tb: float
    """TB a second."""
    tflops: float
    """Of bfloat16 matrices without sparsity."""
    price: float
    """Dollars an hour that such a card is rented for, about; prices differ and move."""


CARDS: dict[str, Card] = {
    "t4": Card(title="NVIDIA T4", gib=15, bandwidth_tb=0.3, tflops=65, price=0.4),
    "l4": Card(title="NVIDIA L4", gib=22.5, bandwidth_tb=0.3, tflops=121, price=0.7),
    "a10": Card(title="NVIDIA A10", gib=22.5, bandwidth_tb=0.6, tflops=125, price=0.8),
    "rtx3060": Card(title="GeForce RTX 3060", gib=12, bandwidth_tb=0.36, tflops=25, price=0.1),
    "rtx3090": Card(title="GeForce RTX 3090", gib=24, bandwidth_tb=0.94, tflops=71, price=0.3),
    "rtx4060ti": Card(title="GeForce RTX 4060 Ti", gib=16, bandwidth_tb=0.29, tflops=44, price=0.2),
    "rtx4090": Card(title="GeForce RTX 4090", gib=24, bandwidth_tb=1.0, tflops=165, price=0.5),
    "rtx5090": Card(title="GeForce RTX 5090", gib=32, bandwidth_tb=1.8, tflops=210, price=0.8),
    "l40s": Card(title="NVIDIA L40S", gib=45, bandwidth_tb=0.86, tflops=362, price=1.2),
    "a100-40g": Card(title="NVIDIA A100 40 GB", gib=40, bandwidth_tb=1.56, tflops=312, price=1.3),
    "a100-80g": Card(title="NVIDIA A100 80 GB", gib=80, bandwidth_tb=2.0, tflops=312, price=1.8),
    "h100": Card(title="NVIDIA H100", gib=80, bandwidth_tb=3.35, tflops=800, price=2.8),
    "h200": Card(title="NVIDIA H200", gib=139.8, bandwidth_tb=4.3, tflops=790, price=3.5),
    "b200": Card(title="NVIDIA B200", gib=179, bandwidth_tb=8.0, tflops=1800, price=5.5),
    "mi300x": Card(title="AMD MI300X", gib=192, bandwidth_tb=5.3, tflops=1000, price=3.0),
}
"""Cards by the name that `practicum doctor --device` takes."""


def find_card(name: str) -> Card:
    """The card of that name, however it is written: `H200`, `RTX 4090`, `a100_80gb`."""
    wanted = name.casefold().replace(" ", "").replace("_", "-").replace("gb", "g")
    if wanted in CARDS:
        return CARDS[wanted]
    hint = nearest(wanted, CARDS, 0.6)
    raise UserError(f"--device {name!r} is not known; {hint}choose one of: {', '.join(CARDS)}")


def machine_with(machine: Machine, card: Card, count: int = 1) -> Machine:
    """This machine as if so many of the card were in it, all of them free."""
    kind = "rocm" if card.title.startswith("AMD") else "cuda"
    total = int(card.gib * GIB)
    device = Device(
        kind=kind,  # type: ignore[arg-type]  # one of the two
        name=card.title,
        memory_bytes=total,
        free_bytes=int(FREE_SHARE * total),
    )
    return replace(machine, devices=(device,) * count)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """What a run would take on a card, at most about."""

    sampling_s: float
    """Of all steps."""
    learning_s: float
    """Of all steps."""
    evaluation_s: float
    """Of all evaluations."""
    steps: int
    disk_bytes: int
    price: float
    """Dollars an hour."""

    @property
    def total_s(self) -> float:
        """The whole run."""
        return START_S + self.sampling_s + self.learning_s + self.evaluation_s

    @property
    def cost(self) -> float:
        """Dollars."""
        return self.price * self.total_s / 3600

    def sentences(self) -> list[str]:
        """As a person reads it."""
        shares = (
            f"sampling {format_hours(self.sampling_s)}, learning {format_hours(self.learning_s)}, "
            f"evaluation {format_hours(self.evaluation_s)}"
        )
        return [
            f"time: at most about {format_hours(self.total_s)} for {self.steps} steps, if every "
            f"turn is as long as it may be ({shares}); sandboxes and tools are not counted",
            f"disk: about {format_bytes(self.disk_bytes)} for the model, checkpoints and traces",
            f"cost: at most about ${self.cost:.2f} at ${self.price:.2f} an hour (give yours by "
            "--price)",
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRates:
    """Seconds of a model on a card."""

    weight_bytes: int
    parameters: int
    card: Card

    def learning(self, tokens: int) -> float:
        """Forward and backward; adapters take no gradient through weights."""
        return LEAST_UPDATE_S + tokens * 4 * self.parameters / self._flops

    def sampling(self, rows: int, turns: int, prompt_tokens: int) -> float:
        """Rows that are sampled together, so many tokens each, and what was told them."""
        read = self.weight_bytes / (self.card.bandwidth_tb * 1e12 * SAMPLING_SHARE)
        token = max(LEAST_TOKEN_S, read, rows * 2 * self.parameters / self._flops)
        return turns * token + prompt_tokens * 2 * self.parameters / self._flops

    @property
    def _flops(self) -> float:
        return self.card.tflops * 1e12 * LEARNING_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lengths:
    """Tokens of an episode's parts, at most about."""

    prompt: int
    turn: int
    reply: int

    @classmethod
    def of(cls, config: RunConfig, *, is_free: bool) -> "_Lengths":
        """Free text may be as long as `max_tokens`; an action is a few tokens."""
        most = config.rollouts.max_tokens
        if is_free:
            return cls(prompt=FREE_PROMPT_TOKENS, turn=most, reply=FREE_REPLY_TOKENS)
        return cls(prompt=PROMPT_TOKENS, turn=min(most, CHOSEN_TOKENS), reply=REPLY_TOKENS)

    def unique(self, config: RunConfig, tasks: int, attempts: int) -> int:
        """Tokens of so many groups, which share their prompts."""
        episode = config.rollouts.max_turns * (self.turn + self.reply)
        return tasks * (self.prompt + attempts * episode)


def estimate_run(
    plan: MemoryPlan, config: RunConfig, card: Card, *, is_free: bool, price: float | None = None
) -> RunEstimate:
    """Time, disk and cost of a run on a card, from its size and the tokens it may have.

    Args:
        plan: Its memory.
        config: The run.
        card: Where it would run.
        is_free: Whether turns are free text rather than chosen from a list of actions.
        price: Dollars an hour of a card; its usual one unless given.
    """
    processes = config.hardware.processes
    weights = plan.parameters * DTYPE_BYTES[plan.dtype]
    rates = CardRates(weight_bytes=weights, parameters=plan.parameters, card=card)
    sampling_s = learning_s = 0.0
    tokens = 0
    for stage in config.all_stages:
        view, algorithm = config.of_stage(stage), stage.algorithm
        lengths, rollouts = _Lengths.of(view, is_free=is_free), view.rollouts
        if isinstance(algorithm, OfflineConfig):
            unique = lengths.unique(view, algorithm.batch * algorithm.updates, 1)
            learning_s += stage.steps * rates.learning(unique)
            continue
        unique = lengths.unique(view, rollouts.tasks_per_step, rollouts.group_size)
        rows = rollouts.tasks_per_step * rollouts.group_size
        sampling_s += stage.steps * rates.sampling(rows, rollouts.max_turns * lengths.turn, unique)
        learning_s += stage.steps * getattr(algorithm, "epochs", 1) * rates.learning(unique)
        tokens += stage.steps * unique
    kept = min(config.checkpoints.keep + 1, config.steps)
    return RunEstimate(
        sampling_s=sampling_s,
        learning_s=learning_s / processes,
        evaluation_s=_evaluations(config) * _one_evaluation(config, rates, is_free=is_free),
        steps=config.steps,
        disk_bytes=2 * plan.parameters + kept * 3 * 4 * plan.trainable + tokens * TRACE_BYTES,
        price=processes * (card.price if price is None else price),
    )


def _evaluations(config: RunConfig) -> int:
    if not config.acts or not config.eval.n:
        return 0
    between = config.steps // config.eval.every if config.eval.every else len(config.all_stages)
    return between + int(config.eval.before)


def _one_evaluation(config: RunConfig, rates: CardRates, *, is_free: bool) -> float:
    lengths, rows = _Lengths.of(config, is_free=is_free), config.eval.n * config.eval.k
    rounds, together = math.ceil(rows / EVALUATED_AT_ONCE), min(rows, EVALUATED_AT_ONCE)
    told = lengths.unique(config, together, 1)
    return rounds * rates.sampling(together, config.rollouts.max_turns * lengths.turn, told)


def format_hours(seconds: float) -> str:
    """Seconds in the unit a person would choose.

    >>> format_hours(5400), format_hours(90), format_hours(200_000)
    ('1.5 hours', '2 minutes', '2.3 days')
    """
    if seconds >= 48 * 3600:
        return f"{seconds / 86_400:.1f} days"
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} hours"
    minutes = max(1, round(seconds / 60))
    return f"{minutes} minute{'s' if minutes > 1 else ''}"
