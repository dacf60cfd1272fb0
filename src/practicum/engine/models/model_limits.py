"""Bounds on the files of a model or an adapter, which may be a stranger's.

A few bytes of JSON can ask for a model of a billion layers or an adapter of any rank; building them
would take for ever, or all memory. Whatever is beyond these bounds is refused before it is built.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from practicum.core.errors import CheckpointError, UserError

MOST_BYTES = {
    "config.json": 4 << 20,
    "generation_config.json": 4 << 20,
    "chat_template.jinja": 1 << 20,
    "tokenizer_config.json": 64 << 20,
    "special_tokens_map.json": 4 << 20,
    "added_tokens.json": 64 << 20,
    "tokenizer.json": 512 << 20,
    "model.safetensors.index.json": 256 << 20,
}
"""Of the files that are read whole. The largest vocabularies known take a tenth of this."""

LAYERS = re.compile(r"(num|n)_(hidden_)?layers?|num_(en|de)coder_layers|.*block_count")
HEADS = re.compile(r"(num|n)_(attention_|key_value_|kv_)?heads?|.*\.head_count(_kv)?")
EXPERTS = re.compile(r"(num|n)_(local_|routed_)?experts|moe_num_experts|.*expert_count")
SIZES = re.compile(r".*(hidden|intermediate|vocab|embedding)_(size|length)|n_embd|n_inner|head_dim")
MOST_LAYERS, MOST_HEADS, MOST_EXPERTS, MOST_SIZE = 2000, 4096, 4096, 1 << 24
"""Some ten times what the largest models have."""
MOST_LAYER_EXPERTS = 200_000
"""Layers times experts: each of them is a module."""
LARGEST = 1 << 40
"""Of any other number, such as the tokens of a context."""

ADAPTER_BYTES = 1 << 20
"""Of an `adapter_config.json`; one takes a few thousand."""
MOST_PATTERNS = 2000
"""Entries of a pattern or a list of layers in it."""
USUAL_RANK = 1024
"""Ranks up to this need no tensor that shows them."""
REFUSED = ("megatron_config", "layer_replication")
"""Settings of an adapter that import a module, or copy layers."""
LOOSEST = 6
"""Open repetitions in a pattern of layer names, such as `.*`; their tries multiply."""


def check_model_files(folder: Path) -> None:
    """Raise `UserError` where the files of a model folder ask for more than any model has."""
    for name, most in MOST_BYTES.items():
        path = folder / name
        if path.is_file() and path.stat().st_size > most:
            raise UserError(
                f"{path} has {path.stat().st_size:,} bytes, and no model's has more than {most:,}; "
                "fetch or copy the model again"
            )
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read ({error!s:.120}); fetch the model again") from None
    if not isinstance(config, dict):
        raise UserError(f"{path} is not a JSON object; fetch the model again")
    check_sizes_of_model(_numbers(config), str(path))


def check_sizes_of_model(numbers: list[tuple[str, float]], where: str) -> None:
    """Raise `UserError` where a number is none that a model could have."""
    layers = experts = 1.0
    for name, value in numbers:
        least, most = 0.0, float(LARGEST)
        for names, allowed in (
            (LAYERS, (1, MOST_LAYERS)),
            (HEADS, (1, MOST_HEADS)),
            (EXPERTS, (0, MOST_EXPERTS)),
            (SIZES, (0, MOST_SIZE)),
        ):
            if names.fullmatch(name):
                least, most = allowed
        if (LAYERS.fullmatch(name) or HEADS.fullmatch(name)) and not least <= value <= most:
            raise UserError(
                f"{where}: {name} is {value:g}, and a model has {least:,} to {most:,} of them; "
                "fetch the model again, or choose another"
            )
        if not abs(value) <= most and value == value:  # NaN is for the loader to judge
            raise UserError(
                f"{where}: {name} is {value:g}, and {most:,.0f} is more than any model has; fetch "
                "the model again, or choose another"
            )
        layers = max(layers, value) if LAYERS.fullmatch(name) else layers
        experts = max(experts, value) if EXPERTS.fullmatch(name) else experts
    if layers * experts > MOST_LAYER_EXPERTS:
        raise UserError(
            f"{where}: {layers:g} layers of {experts:g} experts each are more than any model has; "
            "fetch the model again, or choose another"
        )


def _numbers(values: Any, name: str = "") -> list[tuple[str, float]]:
    """Every number among JSON values, with the key it stands under."""
    found: list[tuple[str, float]] = []
    waiting = [(name, values)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, one) for one in value]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            is_huge = isinstance(value, int) and value.bit_length() > 1000
            found.append((str(key), float("inf") if is_huge else float(value)))
    return found


def read_small_json(path: Path, most: int) -> Any:
    """The JSON value of a file of at most so many bytes; `ValueError` says what is wrong."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def check_adapter_limits(folder: Path) -> None:
    """Raise `CheckpointError` where an adapter's settings ask for what no adapter has."""
    from safetensors import SafetensorError

    try:
        config = read_small_json(folder / "adapter_config.json", ADAPTER_BYTES)
        ranks = _saved_ranks(folder / "adapter_model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(
            f"the adapter in {folder} cannot be read ({reason}); name another checkpoint"
        ) from None
    for problem in _adapter_problems(config, max([USUAL_RANK, *ranks])):
        raise CheckpointError(
            f"the adapter in {folder} cannot be used: {problem}; name another checkpoint"
        )


def _saved_ranks(path: Path) -> list[int]:
    """The ranks that an adapter's tensors have, from the header of their file."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    return [min(shape) for shape in shapes if len(shape) > 1]


def _adapter_problems(config: Any, most_rank: int) -> Iterator[str]:
    if not isinstance(config, dict):
        yield "adapter_config.json is not a JSON object"
        return
    if (kind := config.get("peft_type", "LORA")) != "LORA":
        yield f"peft_type is {kind!r:.60}, and only LORA is read here"
    for name in REFUSED:
        if config.get(name):
            yield f"{name} is set, which is not read here"
    for name in ("rank_pattern", "alpha_pattern", "target_modules", "exclude_modules"):
        value = config.get(name)
        if isinstance(value, dict | list) and len(value) > MOST_PATTERNS:
            yield f"{name} has {len(value):,} entries, and at most {MOST_PATTERNS:,} are read"
        patterns = value if isinstance(value, dict) else [value] if isinstance(value, str) else []
        for pattern in patterns:
            if is_slow_pattern(pattern):
                yield f"{name} has a pattern that may take for ever, {pattern!r:.60}"
    ranks = config.get("rank_pattern")
    for value in [config.get("r"), *(ranks.values() if isinstance(ranks, dict) else [])]:
        if isinstance(value, int | float) and not value <= most_rank:
            yield f"it asks for rank {value!r:.20}, and its tensors have {most_rank:,} at most"


def is_slow_pattern(pattern: str) -> bool:
    r"""Whether matching a regular expression may take a time that grows beyond all bounds.

    >>> is_slow_pattern(r".*\.(q|v)_proj"), is_slow_pattern("(a+)+$"), is_slow_pattern("(a|ab)*c")
    (False, True, True)
    """
    import re._parser as parser  # type: ignore[import-not-found]  # the standard library's own

    try:
        tree = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return False  # peft says what is wrong
    opened = 0
    waiting: list[tuple[Any, bool]] = [(tree, False)]
    while waiting:
        part, is_repeated = waiting.pop()
        for kind, value in part:
            name = str(kind)
            repeats = "REPEAT" in name and value[1] > 1
            opened += repeats
            if is_repeated and (repeats or name == "BRANCH"):
                return True
            waiting += [(inner, is_repeated or repeats) for inner in _inside(value)]
    return opened > LOOSEST or len(pattern) > MOST_PATTERNS


def _inside(value: Any) -> Iterator[Any]:
    """The parts of a parsed expression that a part holds."""
    from re._parser import SubPattern

    if isinstance(value, SubPattern):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _inside(one)
