"""The LoRA adapter: attached with `peft`, saved and loaded, fingerprinted, merged for sampling.

`AdapterFold` merges the adapter into the weights while the policy samples, which then costs as much
as the base model. The base tensors are kept and put back afterwards instead of subtracting the
adapter again, because (W + BA) - BA is not W in floating point.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from practicum.core.checkpoint import CARD, card_head, other_policy
from practicum.core.errors import CheckpointError, ConfigError
from practicum.engine.compute_thread import computed
from practicum.engine.models.adapter_files import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    AdapterFiles,
    function_digest,
    read_adapter_files,
    require_plain,
    unreadable,
    unusable,
)
from practicum.engine.models.catalog import known_base
from practicum.engine.models.loading import named_fingerprint
from practicum.engine.models.model_limits import (
    ADAPTER_BYTES,
    read_small_json,
)

if TYPE_CHECKING:
    from practicum.core.config.config_sections import LoraConfig

BIN_FILE = "adapter_model.bin"
JOINED = re.compile(r"qkv|query|c_attn|q_proj|v_proj")


def attach_adapter(causal_lm: Any, lora: "LoraConfig", seed: int, base_name: str) -> Any:
    """Wraps a model with a new adapter, whose first values depend on the seed alone."""
    import peft

    layers = _linear_layers(causal_lm)
    targets = _targets_in(causal_lm, lora, set(layers))
    config = peft.LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=targets,
        task_type="CAUSAL_LM",
        fan_in_fan_out=any(is_transposed(layers[target]) for target in targets),
    )
    devices = [d for d in {p.device for p in causal_lm.parameters()} if d.type == "cuda"]
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        with _peft_on_new_transformers():
            wrapped = peft.get_peft_model(causal_lm, config)
    wrapped.peft_config["default"].base_model_name_or_path = base_name
    if lora.start:
        _start_from(wrapped, lora)
    return wrapped


def _start_from(model: Any, lora: "LoraConfig") -> None:
    """Give a new adapter the weights of the one in `lora.start`."""
    folder = Path(lora.start)
    try:
        saved = read_small_json(folder / CONFIG_FILE, ADAPTER_BYTES)
        scale = saved["lora_alpha"], saved["r"]
        load_adapter(model, folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"lora.start is {lora.start!r}, and no adapter can be read there ({error}); give the "
            "folder of a checkpoint or of a served version"
        ) from None
    if scale != (lora.alpha, lora.r):
        raise ConfigError(
            f"lora.start has alpha {scale[0]} and rank {scale[1]}, and lora has {lora.alpha} and "
            f"{lora.r}; set lora.alpha and lora.r to those of the adapter"
        )


@contextmanager
def _peft_on_new_transformers() -> Iterator[None]:
    """Keeps quiet that peft 0.21 reads a property that transformers 5.23 has renamed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated")
        yield


def _targets_in(causal_lm: Any, lora: "LoraConfig", names: set[str]) -> list[str]:
    """The layers that get an adapter: those named; for a preset, this family's own counterparts."""
    from practicum.core.config.config_sections import LORA_PRESETS, PROJECTIONS

    missing = [t for t in lora.targets if t not in names]
    if not missing and lora.targets:
        return list(lora.targets)
    if names and any(lora.targets == preset["targets"] for preset in LORA_PRESETS.values()):
        if lora.targets == PROJECTIONS:
            return sorted(names)
        from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as FAMILIES

        listed = FAMILIES.get(causal_lm.config.model_type, ())
        known = [t for t in listed if t in names] if not isinstance(listed, str) else []
        # What peft does not list yet calls its joined projections by one of a few names.
        return known or [t for t in sorted(names) if JOINED.search(t)] or sorted(names)
    given = ", ".join(missing) or "no name"
    allowed = f"set lora.targets to some of: {', '.join(sorted(names))}"
    raise ConfigError(
        f"lora.targets has {given}, which is no linear layer inside this model; "
        f"{allowed if names else 'it has none that an adapter could be put on'}"
    )


def is_transposed(layer: Any) -> bool:
    """Whether a linear layer keeps its weight the other way round, as those of GPT-2 do."""
    return not isinstance(layer, torch.nn.Linear)


def _linear_layers(causal_lm: Any) -> dict[str, Any]:
    """Layers that an adapter can be put on, one for each name.

    Not the output layer: the log-probability kernels read its weight directly, without an adapter.
    """
    from transformers.pytorch_utils import Conv1D

    output = causal_lm.get_output_embeddings()
    return {
        name.rsplit(".", 1)[-1]: module
        for name, module in causal_lm.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D) and module is not output
    }


def trainable(model: Any) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Names and tensors of the trainable parameters, sorted by name."""
    yield from sorted((n, p) for n, p in model.named_parameters() if p.requires_grad)


def trainable_share(model: Any) -> tuple[int, int]:
    """Number of trainable parameters, and of all others."""
    learning = sum(p.numel() for _, p in trainable(model))
    return learning, sum(p.numel() for p in model.parameters()) - learning


def save_adapter(model: Any, folder: Path) -> None:
    """Writes `adapter_config.json` and `adapter_model.safetensors`, which `peft` can read."""
    from safetensors.torch import save_file

    state = _adapter_state(model)
    tensors = {k: v.detach().cpu().contiguous() for k, v in sorted(state.items())}
    save_file(tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})
    model.peft_config["default"].save_pretrained(str(folder))
    config = json.loads((folder / CONFIG_FILE).read_text())
    config["target_modules"].sort()  # `peft` keeps a set, whose order changes from run to run
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2, sort_keys=True))


def describe_adapter(name: str, tokenizer: Any, folder: Path, *, as_bin: bool = False) -> None:
    """Writes what others need beside an adapter: tokenizer and card.

    With `as_bin` also its tensors as the pickle that older programs read; nothing here reads it.
    """
    base, licence = known_base(name)
    tokenizer.save_pretrained(folder)
    told = [
        f"# An adapter for {base}",
        "",
        "A checkpoint of a run of Practicum. Where the base model can be had,",
        "`peft.AutoPeftModelForCausalLM.from_pretrained(FOLDER)` loads it;",
        "`practicum export` checks it and writes a card with figures.",
    ]
    head = card_head(base, licence, "peft")
    (folder / CARD).write_text("\n".join([*head, *told]) + "\n", encoding="utf-8")
    if as_bin:
        from safetensors.torch import load_file

        torch.save(load_file(folder / WEIGHTS_FILE), folder / BIN_FILE)


def _adapter_state(model: Any) -> dict[str, torch.Tensor]:
    import peft

    # With its default, "auto", peft asks the hub whether the base model's vocabulary has changed.
    state: dict[str, torch.Tensor] = peft.get_peft_model_state_dict(
        model, save_embedding_layers=False
    )
    return state


def read_adapter(causal_lm: Any, folder: Path) -> Any:
    """Wraps a model with the adapter saved in a folder; its tensors are trainable."""
    import peft

    saved = read_adapter_files(folder).tensors
    try:
        with _peft_on_new_transformers():
            model = peft.PeftModel.from_pretrained(causal_lm, str(folder), is_trainable=True)
    except Exception as error:  # a stranger's settings can make peft fail in any way
        raise unreadable(folder, error) from error
    _require_same_shapes(model, saved, folder)
    return model.eval()


def load_adapter(model: Any, folder: Path) -> None:
    """Loads saved adapter weights into a model that has an adapter of the same shape."""
    import peft

    saved = read_adapter_files(folder).tensors
    _require_same_shapes(model, saved, folder)
    peft.set_peft_model_state_dict(model, saved)


def _require_same_shapes(model: Any, saved: dict[str, torch.Tensor], folder: Path) -> None:
    here = {k: tuple(v.shape) for k, v in _adapter_state(model).items()}
    if here != {k: tuple(v.shape) for k, v in saved.items()}:
        raise CheckpointError(
            f"the adapter in {folder} was made for another model or other lora settings; "
            "use the config of the run it came from"
        )


CHUNK = {"cpu": 2**17, "cuda": 2**22}
"""Values per step of `_checksum`: few enough for a CPU's caches, many for a GPU."""


@computed
def policy_fingerprint(model: Any, base: str) -> str:
    """The base model's fingerprint, a plus, a digest of every trainable tensor and of its settings.

    The checksum is computed on the tensors' device, so that only one number is copied from a GPU.
    """
    config = model.peft_config["default"].to_dict()
    return adapter_fingerprint(list(trainable(model)), config, base, _checksum)


Checksum = Callable[[Sequence[torch.Tensor]], int]


def adapter_fingerprint(
    learning: Sequence[tuple[str, torch.Tensor]],
    config: Mapping[str, Any],
    base: str,
    checksum: Checksum,
) -> str:
    """The same of tensors by the names they are trained under, sorted by name."""
    described = [f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in learning]
    digest = hashlib.sha256("\n".join(described).encode())
    if learning:
        digest.update(str(checksum([tensor.detach() for _, tensor in learning])).encode())
    return f"{base[:16]}+{digest.hexdigest()[:16]}.{function_digest(config)}"


def _checksum(tensors: Sequence[torch.Tensor]) -> int:
    """A 64-bit hash: the sum of all values' bits, each times a pseudo-random odd number.

    Integer sums that wrap around do not depend on their order, so every device gives the same. Odd
    factors are invertible modulo 2**64: a change of any one value changes the sum.
    """
    bits = torch.cat([t.contiguous().flatten().view(_INTEGERS[t.element_size()]) for t in tensors])
    total = torch.zeros((), dtype=torch.int64, device=bits.device)
    chunk = CHUNK.get(bits.device.type, CHUNK["cuda"])
    for begin in range(0, bits.numel(), chunk):
        part = bits[begin : begin + chunk].long()
        factor = torch.arange(begin + 1, begin + 1 + part.numel(), device=bits.device)
        # A multiply-xor-shift mix (as in splitmix64) makes a position a pseudo-random factor.
        factor = factor * -7046029254386353131
        factor = (factor ^ (factor >> 29)) * -4658895280553007687
        total += (part * (factor | 1)).sum()
    return int(total)


def host_checksum(tensors: Sequence[torch.Tensor]) -> int:
    """The same number with numpy alone, which starts no threads."""
    arrays = [t.contiguous().flatten().view(_INTEGERS[t.element_size()]).numpy() for t in tensors]
    bits, total = np.concatenate(arrays), np.zeros((), np.int64)
    for begin in range(0, bits.size, CHUNK["cpu"]):
        part = bits[begin : begin + CHUNK["cpu"]].astype(np.int64)
        factor = np.arange(begin + 1, begin + 1 + part.size) * -7046029254386353131
        factor = (factor ^ (factor >> 29)) * -4658895280553007687
        total += (part * (factor | 1)).sum()
    return int(total)


def saved_fingerprint(files: AdapterFiles, base: str) -> str:
    """The fingerprint of a policy from its saved adapter, without loading the base model."""
    # While they are trained, tensors have the name of their adapter as well.
    names = {name: name.removesuffix("weight") + "default.weight" for name in files.tensors}
    learned = sorted((names[name], tensor) for name, tensor in files.tensors.items())
    return adapter_fingerprint(learned, files.config, base, host_checksum)


def identify_adapter(folder: Path, told: str) -> str:
    """The fingerprint of an adapter that is about to be served, which `told` must not contradict.

    What it says of its base model is believed; the base of an adapter that says nothing is looked
    at, and so has to be on this machine.

    Raises:
        CheckpointError: It cannot be served, or is not the one that it says it is.
    """
    files = read_adapter_files(folder)
    require_plain(files.config, folder)
    named = files.config.get("base_model_name_or_path")
    if not named:
        raise unusable(folder, f"{CONFIG_FILE} does not name its base model")
    base = told.partition("+")[0] or named_fingerprint(str(named))
    found = saved_fingerprint(files, base)
    if why := other_policy(told, found):
        raise CheckpointError(
            f"{folder} says that its weights are {told}, and they are {found}: {why}; publish the "
            "run itself, or export it again"
        )
    return found


_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class AdapterFold:
    """Merges one model's adapter into its weights, and back; both may be called at any time."""

    def __init__(self, model: Any) -> None:
        from peft.tuners.lora import LoraLayer

        self._layers = [m for m in model.modules() if isinstance(m, LoraLayer)]
        self._base: list[torch.Tensor] = []

    @property
    def is_folded(self) -> bool:
        """Whether the layers hold base plus adapter weights now."""
        return bool(self._base)

    @torch.no_grad()
    def fold(self) -> None:
        """Gives every layer a new weight tensor, base plus adapter."""
        if self.is_folded:
            return
        for layer in self._layers:
            weight = layer.get_base_layer().weight
            self._base.append(weight.data)
            weight.data = weight.data + layer.get_delta_weight("default").to(weight.dtype)
            layer._disable_adapters = True  # the public setter also changes what is trainable

    def unfold(self) -> None:
        """Gives every layer its base weights and its adapter back."""
        for layer, base in zip(self._layers, self._base, strict=False):
            layer.get_base_layer().weight.data = base
            layer._disable_adapters = False
        self._base.clear()
