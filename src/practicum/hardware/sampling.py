"""Tokens and bytes of sampling, from a config and sizes alone."""

from practicum.core.config import LoraConfig, RunConfig
from practicum.hardware.shapes import ModelShape

__all__ = [
    "FIRST_SLOTS",
    "MOST_SLOTS",
    "PROMPT_TOKENS",
    "captured_bytes",
    "conversation_tokens",
    "decision_share",
    "evaluation_tokens",
    "rollout_tokens",
    "sampling_bytes",
    "slot_bytes",
    "writes_freely",
]

PROMPT_TOKENS = 128
"""Taken for the opening messages of an episode, which its group shares."""

REPLY_TOKENS = 24
"""Taken for what the environment answers to a turn."""

CHOSEN_TOKENS = 8
"""Taken for a turn that is chosen from a list rather than written freely."""

FIRST_SLOTS, MOST_SLOTS = 2048, 65_536
"""Tokens the sampler's cache holds at first on a CPU, where it doubles, and at most."""

EVALUATED_AT_ONCE = 64
"""Tasks that an evaluation has under way together."""

STEP_TOKENS = {"cpu": 4096, "cuda": 16_384, "mps": 4096}
"""Tokens that go through the model at once while sampling, at most."""

BURST_STEPS = 64
"""Tokens for which a burst makes room in each row."""

RUNGS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Batch sizes that steps are captured for."""

CAPTURE_BYTES = 48 << 20
"""Taken for one captured step's own workspace, most of it cuBLAS's."""

DRAW_COPIES = 4
"""Float32 arrays as large as the logits that a draw on the host has at once."""


def writes_freely(config: RunConfig) -> bool:
    """Whether turns are written freely rather than chosen from a list of actions."""
    return config.env.options.get("actions") == "free"


def conversation_tokens(config: RunConfig) -> int:
    """Tokens of the longest episode."""
    return PROMPT_TOKENS + _episode_tokens(config)


def rollout_tokens(config: RunConfig) -> int:
    """Tokens of all episodes of a step; groups share their prompt, turns their history."""
    rollouts = config.rollouts
    group = PROMPT_TOKENS + rollouts.group_size * _episode_tokens(config)
    return rollouts.tasks_per_step * group


def evaluation_tokens(config: RunConfig) -> int:
    """The same of the episodes that an evaluation has under way together."""
    return _evaluated(config) * (PROMPT_TOKENS + config.eval.k * _episode_tokens(config))


def decision_share(config: RunConfig) -> float:
    """The largest share of tokens that were decided on; given ones are not learned from."""
    if writes_freely(config):
        return 1.0
    turn = _turn_tokens(config)
    return turn / (turn + REPLY_TOKENS)


def slot_bytes(shape: ModelShape, width: int) -> int:
    """Keys and values of one token in all layers."""
    return 2 * shape.layers * shape.kv_width * width


def sampling_bytes(
    shape: ModelShape, config: RunConfig, slots: int, *, width: int, device: str
) -> int:
    """What sampling has besides the weights and the cache, none of it while learning."""
    packs = device == "cpu" and width == 4
    copied = _packed_bytes(shape) if packs else 0
    if not shape.is_joined:
        copied = _folded_bytes(shape, config.lora, width)
        copied += shape.vocab * shape.hidden * width if packs else 0
    found = copied + _step_bytes(shape, config, width, device)
    if device == "cpu" and slots > FIRST_SLOTS:
        found += slots // 2 * slot_bytes(shape, width)  # the smaller cache, until it is copied
    if writes_freely(config):
        found += DRAW_COPIES * 4 * _rows(config) * shape.vocab
        if shape.is_joined and not _captures(shape, config, device):
            tokens = min(slots, max(rollout_tokens(config), evaluation_tokens(config)))
            found += (tokens + _rows(config) * BURST_STEPS) * slot_bytes(shape, width)
    return found


def captured_bytes(shape: ModelShape, config: RunConfig, *, width: int, device: str) -> int:
    """What captured steps hold from when they are first needed until the end."""
    if not _captures(shape, config, device):
        return 0
    rows = _rows(config)
    rungs = [rung for at, rung in enumerate(RUNGS) if at == 0 or RUNGS[at - 1] < rows]
    if rows > RUNGS[-1]:
        rungs += range(RUNGS[-1] + 64, rows + 64, 64)
    heads = shape.query_width + shape.kv_width
    row = 4 * shape.vocab + (4 * shape.intermediate + 4 * shape.hidden + 4 * heads) * width
    return len(rungs) * CAPTURE_BYTES + sum(rungs) * row


def _captures(shape: ModelShape, config: RunConfig, device: str) -> bool:
    """Steps are captured where nothing but the temperature shapes a free draw."""
    plain = config.rollouts.top_k == 0 and config.rollouts.top_p == 1.0
    return device == "cuda" and shape.is_joined and plain and writes_freely(config)


def _turn_tokens(config: RunConfig) -> int:
    most = config.rollouts.max_tokens
    return most if writes_freely(config) else min(most, CHOSEN_TOKENS)


def _episode_tokens(config: RunConfig) -> int:
    """Tokens of an episode behind its prompt."""
    return config.rollouts.max_turns * (_turn_tokens(config) + REPLY_TOKENS)


def _evaluated(config: RunConfig) -> int:
    return min(config.eval.n, EVALUATED_AT_ONCE)


def _rows(config: RunConfig) -> int:
    """Episodes that are under way together."""
    rollouts = config.rollouts.tasks_per_step * config.rollouts.group_size
    return max(rollouts, _evaluated(config) * config.eval.k)


def _step_bytes(shape: ModelShape, config: RunConfig, width: int, device: str) -> int:
    """Arrays of one layer for as many tokens as one step has at most."""
    prompts = PROMPT_TOKENS * max(config.rollouts.tasks_per_step, _evaluated(config))
    tokens = min(STEP_TOKENS[device], max(prompts, _rows(config) * REPLY_TOKENS))
    heads = shape.query_width + shape.kv_width
    return tokens * (4 * shape.intermediate + 4 * shape.hidden + 6 * heads) * width


def _packed_bytes(shape: ModelShape) -> int:
    """Every layer and the output layer once more, and what making the largest one takes."""
    sizes = [inputs * outputs for inputs, outputs in shape.projections().values()]
    largest = 2 * shape.hidden * shape.intermediate
    return 4 * (shape.layers * sum(sizes) + shape.vocab * shape.hidden + 2 * largest)


def _folded_bytes(shape: ModelShape, lora: LoraConfig, width: int) -> int:
    """The weights with the adapter folded in, beside the base weights."""
    linear = shape.projections()
    sizes = (linear[target] for target in lora.targets if target in linear)
    return shape.layers * width * sum(inputs * outputs for inputs, outputs in sizes)
