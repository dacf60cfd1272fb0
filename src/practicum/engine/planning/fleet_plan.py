"""What a run would do on 8 to 512 GPUs: rates from measured figures, splits tried by simulation.

Order: what was measured on one GPU, what a model takes on a card (`CardModel`), a run of one's own
as calibration (`rates_of_run`), and `plan_sizes`, which tries the splits of each number of GPUs.
docs/planning.md has every assumption.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.engine.planning.cards import GIB, Card
from practicum.engine.planning.memory import (
    LIBRARY_BYTES,
    Allotment,
    conversation_tokens,
    estimate_memory,
    format_bytes,
    slot_bytes,
)
from practicum.engine.planning.memory_plan import RANK_0_PARTS, USABLE_SHARE
from practicum.engine.planning.model_shapes import ModelShape, lora_parameters
from practicum.engine.planning.simulation import (
    Fleet,
    LearnerRates,
    SamplerRates,
    Simulated,
    Work,
    simulate,
)

READING_SHARE = 0.89
"""Of a card's bandwidth, while sampling; with `LAYER_S` what 0.5B and 7B took on an H200: 1.52 and
5.57 ms a step of 64 rows (docs/performance.md)."""

LAYER_S = 48e-6
"""Of a step of sampling for each layer, besides reading."""

TOLD_SHARE = 0.60
"""Of a card's matrix rate, for tokens that are read: 4,096 of them in 113.9 ms (7B, H200)."""

LEARNING_SHARE = 0.70
"""Of a card's matrix rate, with `UPDATE_S`: 12,288 tokens in 663.5 ms (7B, H200)."""

UPDATE_S = 0.08
"""Of an update, however small: launches."""

BESIDE_S = 20e-6
"""Assumed: for two cards of a replica to add up a layer's part, twice a layer."""

NODE_CARDS, NODE_GB_S, FABRIC_GB_S = 8, 200.0, 25.0
"""Assumed: cards of a machine, GB a second between them, and between machines."""

FOLDER_GB_S, LOAD_S = 1.0, 0.05
"""Assumed: GB a second of the folder where adapters are published; seconds to take one (measured
with vLLM and SmolLM2 on a CPU)."""

MOST_ROWS = 256
"""Rows of a replica at once, as vLLM's `--max-num-seqs` is unless told."""

LEARNER_SHARES = (1 / 32, 1 / 16, 3 / 32, 1 / 8, 3 / 16, 1 / 4, 5 / 16, 3 / 8, 1 / 2, 5 / 8, 3 / 4)
"""Of the GPUs, tried as learners."""

TRIED = 3
"""Splits of a size that are simulated: those that two straight lines find best."""

WIDTH = 2
"""Bytes of a weight in bfloat16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one replica and one learning rank are made of, and what they take."""

    replica_gpus: int
    rank_gpus: int
    sampler: SamplerRates
    token_s: float
    """Learner's seconds of a token on one rank."""
    update_s: float
    gradient_bytes: int = 0
    """What ranks add up over the network in each update."""
    publish_s: float = 0.0
    load_s: float = 0.0

    def learner(self, ranks: int) -> LearnerRates:
        """So many ranks together."""
        rate = NODE_GB_S if ranks * self.rank_gpus <= NODE_CARDS else FABRIC_GB_S
        summed = 2 * self.gradient_bytes * (ranks - 1) / ranks / (rate * 1e9)
        return LearnerRates(ranks=ranks, update_s=self.update_s + summed, token_s=self.token_s)


@dataclass(frozen=True, kw_only=True)
class CardModel:
    """A model on a kind of card, by what was measured on an H200 and the card's data sheet."""

    shape: ModelShape
    config: RunConfig
    card: Card
    work: Work

    def unit(self) -> Unit:
        """The fewest cards that a replica and a rank fit, and their rates."""
        adapter = 4 * lora_parameters(self.shape, self.config.lora)
        copied = adapter / (FOLDER_GB_S * 1e9)
        replica, rank = self.replica_gpus(), self.rank_gpus()
        return Unit(
            replica_gpus=replica,
            rank_gpus=rank,
            sampler=self.sampler_rates(replica),
            token_s=self.token_s(rank),
            update_s=UPDATE_S,
            gradient_bytes=adapter,
            publish_s=copied,
            load_s=LOAD_S + copied,
        )

    @property
    def _usable(self) -> float:
        return USABLE_SHARE["cuda"] * self.card.gib * GIB

    @cached_property
    def _linear(self) -> int:
        """Parameters of the layers' products, and so half the operations of a token."""
        widths = self.shape.projections().values()
        return self.shape.layers * sum(inputs * outputs for inputs, outputs in widths)

    @property
    def _context(self) -> int:
        """Tokens of a whole episode."""
        of_turn = self.work.turn_tokens + self.work.reply_tokens
        return int(self.work.prompt_tokens + self.work.turns * of_turn)

    def rows_of(self, gpus: int) -> int:
        """Whole episodes whose keys and values a replica of so many cards has room for."""
        held = self.shape.parameters * WIDTH / gpus + LIBRARY_BYTES["cuda"]
        room = (self._usable - held) * gpus
        return min(MOST_ROWS, int(room // (slot_bytes(self.shape, WIDTH) * self._context)))

    def replica_gpus(self) -> int:
        """Cards of a replica: the fewest with room for 16 rows, or the weights' own."""
        for least in (16, 1):
            for gpus in (1, 2, 4, 8):
                if self.rows_of(gpus) >= least:
                    return gpus
        raise self._too_large("sample")

    def rank_bytes(self, gpus: int) -> int:
        """Of a card of a rank whose base weights so many divide."""
        tokens = max(4096, conversation_tokens(self.config))
        spare = Allotment(batch_tokens=tokens, checkpointed=True, kv_slots=0)
        parts = estimate_memory(self.shape, self.config, spare, device="cuda", dtype="bfloat16")
        own = {part.name: part.bytes for part in parts if part.name not in RANK_0_PARTS}
        return sum(own.values()) - own["weights"] + own["weights"] // gpus

    def rank_gpus(self) -> int:
        """Cards of a learning rank: one, unless the base has to be divided."""
        for gpus in (1, 2, 4, 8):
            if self.rank_bytes(gpus) <= self._usable:
                return gpus
        raise self._too_large("learn")

    def _too_large(self, verb: str) -> UserError:
        size = format_bytes(self.shape.parameters * WIDTH)
        return UserError(
            f"eight {self.card.title} together have no room to {verb} with {self.config.model.name}"
            f" ({size} of weights, episodes of {self._context} tokens); name a larger --device, or "
            "fewer --turns or --tokens"
        )

    def sampler_rates(self, gpus: int) -> SamplerRates:
        """Of a replica of so many cards."""
        read = gpus * READING_SHARE * self.card.bandwidth_tb * 1e12
        head = self.shape.vocab * self.shape.hidden
        computed = 2 * (self._linear + head) / (gpus * TOLD_SHARE * self.card.tflops * 1e12)
        beside = 2 * BESIDE_S if gpus > 1 else 0.0
        return SamplerRates(
            step_s=self.shape.layers * (LAYER_S + beside),
            weights_s=(self._linear + head) * WIDTH / read,
            row_s=computed,
            context_s=slot_bytes(self.shape, WIDTH) / read,
            told_s=2 * self._linear / (gpus * TOLD_SHARE * self.card.tflops * 1e12),
            most_rows=max(1, self.rows_of(gpus)),
        )

    def token_s(self, gpus: int) -> float:
        """Of a rank of so many cards; a divided base is gathered twice for each micro-batch."""
        computed = 4 * self._linear / (gpus * LEARNING_SHARE * self.card.tflops * 1e12)
        gathered = 2 * self.shape.parameters * WIDTH * (gpus - 1) / gpus / (NODE_GB_S * 1e9)
        return computed + gathered / max(4096, conversation_tokens(self.config))


NEEDED = ("episodes", "groups", "turns", "sampled_tokens", "sampling_s", "environment_s")
"""Of a run's rows, besides `update_s` and `update_tokens`."""


def rates_of_run(rows: Sequence[Mapping[str, Any]]) -> tuple[Unit, Work]:
    """What a run's own steps took, as one replica and one rank of the machine it ran on.

    Sampling was measured at the run's own number of rows, and is taken to be as fast with fewer.

    Args:
        rows: The steps of its `metrics.jsonl`; the first warms up where there are more.
    """
    used = [row for row in rows if all(row.get(k) for k in (*NEEDED[:5], "update_tokens"))]
    used = used[1:] or used
    if not used:
        raise UserError(
            "the run has no step in which episodes were sampled and learned from, so nothing can "
            "be calibrated by it; name one that has, such as: --calibrate latest"
        )
    total = {key: sum(float(row[key]) for row in used) for key in ("update_s", "update_tokens")}
    total |= {key: sum(float(row.get(key) or 0.0) for row in used) for key in NEEDED}
    turns = fmean(float(row["turns"]) for row in used)
    all_turns = sum(float(row["episodes"]) * float(row["turns"]) for row in used)
    told = max(0.0, total["update_tokens"] - total["sampled_tokens"]) / all_turns
    unit = Unit(
        replica_gpus=1,
        rank_gpus=1,
        sampler=SamplerRates(step_s=total["sampling_s"] / total["sampled_tokens"]),
        token_s=total["update_s"] / total["update_tokens"],
        update_s=0.0,  # and publishing is part of the time a token takes
    )
    tasks = max(1, round(fmean(float(row["groups"]) for row in used)))
    work = Work(
        tasks=tasks,
        group=max(1, round(fmean(float(row["episodes"]) for row in used) / tasks)),
        turns=max(1, round(turns)),
        turn_tokens=total["sampled_tokens"] / all_turns,
        reply_tokens=round(told),
        environment_s=total["environment_s"] / all_turns,
    )
    return unit, work


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way to divide GPUs, and what it came to."""

    sampler_gpus: int
    learner_gpus: int
    """Both are all of them where they take turns."""
    fleet: Fleet
    result: Simulated


@dataclass(frozen=True, slots=True, kw_only=True)
class SizePlan:
    """The best split of so many GPUs."""

    gpus: int
    best: Split
    alternating: Split
    """The same GPUs acting and learning by turns, with a staleness of 0."""

    def cost(self, price: float) -> float:
        """Dollars for 1,000 episodes."""
        return self.gpus * price / 3600 * 1000 / self.best.result.episodes_per_s


def plan_sizes(
    unit: Unit,
    work: Work,
    sizes: Sequence[int],
    *,
    staleness: int,
    sessions: int = 0,
    steps: int = 4,
    seed: int = 0,
    tried: Callable[[], None] = lambda: None,
) -> Iterator[SizePlan]:
    """The best split of each number of GPUs; `tried` is told of each simulation."""
    for gpus in sizes:
        base = Fleet(
            replicas=gpus // unit.replica_gpus,
            sampler=unit.sampler,
            learner=unit.learner(max(1, gpus // unit.rank_gpus)),
            sessions=sessions,
            publish_s=unit.publish_s,
            load_s=unit.load_s,
            is_shared=True,
        )
        fleets = [(gpus, gpus, base)]
        for ranks, replicas in candidates(unit, work, gpus):
            divided = replace(
                base,
                replicas=replicas,
                learner=unit.learner(ranks),
                staleness=staleness,
                is_shared=False,
            )
            sampling = replicas * unit.replica_gpus
            fleets.append((sampling, ranks * unit.rank_gpus, divided))
        found = []
        for sampling, learning, fleet in fleets:
            result = simulate(fleet, work, steps=steps, seed=seed)
            found.append(
                Split(sampler_gpus=sampling, learner_gpus=learning, fleet=fleet, result=result)
            )
            tried()
        alternating, *splits = found
        best = max(splits, key=lambda split: split.result.episodes_per_s)
        yield SizePlan(gpus=gpus, best=best, alternating=alternating)


def simulations(unit: Unit, work: Work, sizes: Sequence[int]) -> int:
    """How many `plan_sizes` will make."""
    return sum(1 + len(candidates(unit, work, gpus)) for gpus in sizes)


def candidates(unit: Unit, work: Work, gpus: int) -> list[tuple[int, int]]:
    """Ranks and replicas of the splits worth a simulation, the likeliest first."""
    ranks = {max(1, round(share * gpus / unit.rank_gpus)) for share in LEARNER_SHARES}
    pairs = [(rank, (gpus - rank * unit.rank_gpus) // unit.replica_gpus) for rank in ranks]
    pairs = [pair for pair in pairs if pair[1] >= 1]
    if not pairs:
        least = unit.rank_gpus + unit.replica_gpus
        raise UserError(
            f"--gpus {gpus} is too few: a learner takes {unit.rank_gpus} and a sampler "
            f"{unit.replica_gpus} of them; give at least {least}"
        )
    pairs.sort(key=lambda pair: _guess(unit, work, *pair))
    return pairs[:TRIED]


def _guess(unit: Unit, work: Work, ranks: int, replicas: int) -> float:
    """Seconds of a step as if every queue were always full."""
    tokens = work.episodes * work.turns * work.turn_tokens
    told = work.tasks * work.prompt_tokens + work.episodes * work.turns * work.reply_tokens
    rows = min(unit.sampler.most_rows, max(1, work.episodes // replicas))
    behind = work.prompt_tokens + work.turns * (work.turn_tokens + work.reply_tokens) / 2
    written = unit.sampler.seconds(rows, rows * behind) * tokens / rows
    acting = (written + told * unit.sampler.told_s) / replicas
    learner = unit.learner(ranks)
    learning = learner.update_s + learner.token_s * (tokens + told) / ranks
    longest = work.turns * (
        work.turn_tokens * unit.sampler.seconds(rows, rows * behind) + work.environment_s
    )
    return max(acting, learning, longest) + 0.1 * (acting + learning)
