"""The two files of an adapter, read and checked: whoever loads or sends one reads it here.

A number in them that is not finite makes every answer of the model meaningless and no error, so it
is refused wherever an adapter comes in or goes out.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from practicum.core.errors import CheckpointError
from practicum.engine.models.model_limits import (
    ADAPTER_BYTES,
    check_adapter_limits,
    read_small_json,
)

if TYPE_CHECKING:
    from torch import Tensor

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"

LARGEST_ALPHA = 1e6
"""More in `lora_alpha` would take finite weights to numbers that are not."""

DEFAULTS: dict[str, Any] = {
    "peft_type": "LORA",
    "r": 8.0,
    "lora_alpha": 8.0,
    "bias": "none",
    "qalora_group_size": 16.0,
}
"""What `peft` takes where a config says nothing; nothing, for all other settings."""

WITHOUT_EFFECT = frozenset(
    {
        *("auto_mapping", "base_model_name_or_path", "revision", "task_type", "peft_version"),
        *("inference_mode", "runtime_config", "lora_dropout", "init_lora_weights"),
        *("loftq_config", "eva_config", "corda_config", "lora_ga_config"),
        *("megatron_config", "megatron_core", "ensure_weight_tying"),
        # Which layers have an adapter is told by the names of its tensors.
        *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
    }
)
"""Settings that do not change what an adapter with given tensors computes."""

SERVED = frozenset({"r", "lora_alpha", "use_rslora"})
"""Settings that an adapter may have which is served over its base model, row by row."""


class AdapterFiles(NamedTuple):
    """What an adapter's folder holds."""

    config: dict[str, Any]
    tensors: dict[str, "Tensor"]


def read_adapter_files(folder: Path) -> AdapterFiles:
    """Both files, checked.

    Raises:
        CheckpointError: Says which file and which value cannot be used.
    """
    check_adapter_limits(folder)
    config = read_adapter_config(folder)
    tensors = _read_tensors(folder)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not np.isfinite(tensor.float().numpy()).all():
            raise unusable(folder, f"{name} has a value that is not a number")
    _check_ranks(config, tensors, folder)
    return AdapterFiles(config, tensors)


def read_adapter_config(folder: Path) -> dict[str, Any]:
    """The settings, checked: what is computed with is a number, and a finite one."""
    try:
        config = read_small_json(folder / CONFIG_FILE, ADAPTER_BYTES)
    except (OSError, ValueError) as error:
        raise unreadable(folder, error) from None
    if not isinstance(config, dict):
        raise unusable(folder, f"{CONFIG_FILE} is not a JSON object")
    _check_rank(config.get("r", DEFAULTS["r"]), "r", folder)
    _check_alpha(config.get("lora_alpha", DEFAULTS["lora_alpha"]), "lora_alpha", folder)
    dropout = config.get("lora_dropout", 0.0)
    if not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise unusable(folder, f"lora_dropout is {dropout!r:.60}, and must be from 0 to 1")
    for name, check in (("rank_pattern", _check_rank), ("alpha_pattern", _check_alpha)):
        pattern = config.get(name, {})
        if not isinstance(pattern, dict):
            raise unusable(folder, f"{name} is {pattern!r:.60}, and must be a JSON object")
        for layer, value in pattern.items():
            check(value, f"{name} of {layer!r:.60}", folder)
    for name, value in config.items():
        if not all(math.isfinite(number) for number in _floats([value])):
            raise unusable(folder, f"{name} has a value that is not a finite number")
    return config


def require_plain(config: Mapping[str, Any], folder: Path) -> None:
    """Refuse an adapter that computes something else than the served kind does."""
    for name, value in function_settings(config).items():
        if name not in SERVED:
            raise not_served(folder, f"{name} is {value!r:.60}")


def function_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that change what an adapter with given tensors computes, less the defaults."""
    plain = {name: _plain(value) for name, value in config.items() if name not in WITHOUT_EFFECT}
    return {n: v for n, v in sorted(plain.items()) if v and v != DEFAULTS.get(n)}


def function_digest(config: Mapping[str, Any]) -> str:
    """Eight digits that differ where two adapters with the same tensors compute something else."""
    told = json.dumps(function_settings(config), sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def unreadable(folder: Path, error: Exception) -> CheckpointError:
    """The sentence for an adapter that is not there or not whole."""
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return CheckpointError(
        f"the adapter in {folder} cannot be read ({reason}); name another checkpoint"
    )


def unusable(folder: Path, what: str) -> CheckpointError:
    """The sentence for an adapter that is whole and makes no sense."""
    return CheckpointError(
        f"the adapter in {folder} cannot be used: {what}; name another checkpoint, or make it again"
    )


def not_served(folder: Path, what: str) -> CheckpointError:
    """The sentence for an adapter that is not of the kind that is served."""
    return CheckpointError(
        f"the adapter in {folder} cannot be served over this base model: {what}; it must be plain "
        "LoRA on the projections of that model's own layers"
    )


def _read_tensors(folder: Path) -> dict[str, "Tensor"]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(folder / WEIGHTS_FILE)
    except (OSError, ValueError, SafetensorError) as error:
        raise unreadable(folder, error) from None


def _check_rank(value: Any, name: str, folder: Path) -> None:
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value >= 1
    if not is_whole or value != value // 1:
        raise unusable(folder, f"{name} is {value!r:.60}, and must be a whole number above 0")


def _check_alpha(value: Any, name: str, folder: Path) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= LARGEST_ALPHA:
        raise unusable(
            folder, f"{name} is {value!r:.60}, and must be a number up to {LARGEST_ALPHA:,.0f}"
        )


def _check_ranks(config: dict[str, Any], tensors: dict[str, "Tensor"], folder: Path) -> None:
    """Both halves of every layer are there, and of the rank that scales their product."""
    rank = config.get("r", DEFAULTS["r"])
    for name, first in tensors.items():
        layer, is_first, _ = name.partition(".lora_A.")
        if not is_first:
            continue
        second = tensors.get(f"{layer}.lora_B.weight")
        if second is None or min(first.dim(), second.dim()) < 2:
            raise unusable(folder, f"{layer} has no whole pair of lora_A and lora_B")
        if first.shape[0] != second.shape[1]:
            raise unusable(folder, f"lora_A and lora_B of {layer} do not fit each other")
        if not config.get("rank_pattern") and first.shape[0] != rank:
            raise unusable(folder, f"{layer} has rank {first.shape[0]}, and r is {rank}")


def _floats(values: Iterable[Any]) -> Iterable[float]:
    """Every float among JSON values, however deep."""
    left = list(values)
    while left:
        value = left.pop()
        if isinstance(value, float):
            yield value
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value


def _plain(value: Any) -> Any:
    """A setting in the form in which it is compared, whether from a file or from `peft`."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)  # a file may say 16 or 16.0
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(str(item) for item in value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
