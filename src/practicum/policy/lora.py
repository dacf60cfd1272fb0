"""The adapter: attached with `peft`, saved and loaded as safetensors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from practicum.core.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from practicum.core.config import LoraConfig

__all__ = [
    "attach_adapter",
    "load_adapter",
    "read_adapter",
    "save_adapter",
    "trainable",
    "trainable_share",
]

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"


def attach_adapter(causal_lm: Any, lora: "LoraConfig", seed: int, base_name: str) -> Any:
    """Wrap a model with a fresh adapter; the seed alone decides its first values."""
    import peft

    names = _linear_names(causal_lm)
    missing = [t for t in lora.targets if t not in names]
    if missing or not lora.targets:
        given = ", ".join(missing) or "no name"
        raise ConfigError(
            f"lora.targets has {given}, which is no linear layer inside this model; "
            f"set lora.targets to some of: {', '.join(sorted(names))}"
        )
    config = peft.LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
        task_type="CAUSAL_LM",
    )
    devices = [d for d in {p.device for p in causal_lm.parameters()} if d.type == "cuda"]
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        wrapped = peft.get_peft_model(causal_lm, config)
    wrapped.peft_config["default"].base_model_name_or_path = base_name
    return wrapped


def _linear_names(causal_lm: Any) -> set[str]:
    """Layers an adapter can go on. Not the output layer: it is read row by row, as it is."""
    output = causal_lm.get_output_embeddings()
    return {
        name.rsplit(".", 1)[-1]
        for name, module in causal_lm.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not output
    }


def trainable(model: Any) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Names and tensors that learn, in a fixed order."""
    yield from sorted((n, p) for n, p in model.named_parameters() if p.requires_grad)


def trainable_share(model: Any) -> tuple[int, int]:
    """Trainable parameters, and the base model's."""
    learning = sum(p.numel() for _, p in trainable(model))
    return learning, sum(p.numel() for p in model.parameters()) - learning


def save_adapter(model: Any, folder: Path) -> None:
    """Write `adapter_config.json` and `adapter_model.safetensors` as `peft` reads them."""
    from safetensors.torch import save_file

    state = _adapter_state(model)
    tensors = {k: v.detach().cpu().contiguous() for k, v in sorted(state.items())}
    save_file(tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})
    model.peft_config["default"].save_pretrained(str(folder))
    config = json.loads((folder / CONFIG_FILE).read_text())
    config["target_modules"].sort()  # `peft` keeps a set, whose order changes from run to run
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2, sort_keys=True))


def _adapter_state(model: Any) -> dict[str, torch.Tensor]:
    import peft

    # Left to choose, peft asks the hub whether the base model's vocabulary has changed.
    state: dict[str, torch.Tensor] = peft.get_peft_model_state_dict(
        model, save_embedding_layers=False
    )
    return state


def read_adapter(causal_lm: Any, folder: Path) -> Any:
    """Wrap a model with the adapter saved in a folder; its tensors stay marked as trainable."""
    import peft
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        saved = load_file(folder / WEIGHTS_FILE)
        model = peft.PeftModel.from_pretrained(causal_lm, str(folder), is_trainable=True)
    except (OSError, RuntimeError, TypeError, ValueError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(
            f"the adapter in {folder} cannot be read ({reason}); name another checkpoint"
        ) from error
    _require_same_shapes(model, saved, folder)
    return model.eval()


def load_adapter(model: Any, folder: Path) -> None:
    """Put saved adapter weights into a model that has an adapter of the same shape."""
    import peft
    from safetensors.torch import load_file

    saved = load_file(folder / WEIGHTS_FILE)
    _require_same_shapes(model, saved, folder)
    peft.set_peft_model_state_dict(model, saved)


def _require_same_shapes(model: Any, saved: dict[str, torch.Tensor], folder: Path) -> None:
    here = {k: tuple(v.shape) for k, v in _adapter_state(model).items()}
    if here != {k: tuple(v.shape) for k, v in saved.items()}:
        raise CheckpointError(
            f"the adapter in {folder} was made for another model or other lora settings; "
            "use the config of the run it came from"
        )
