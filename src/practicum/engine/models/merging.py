"""Models that leave: an adapter folded into its base, and log-probabilities to check it by."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from practicum.core.sample import Floats
from practicum.engine.models.adapter_files import CONFIG_FILE, WEIGHTS_FILE, read_adapter_config
from practicum.engine.models.download import no_loading_bars


def save_merged(adapted: Any, tokenizer: Any, folder: Path) -> None:
    """Writes a folder that `transformers` loads by itself, from a model that it makes unusable."""
    merged = adapted.merge_and_unload() if hasattr(adapted, "merge_and_unload") else adapted
    with no_loading_bars():
        merged.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):
        weights.chmod(0o644)  # save_pretrained lets only their owner read them


def copy_adapter(checkpoint: Path, base_id: str, tokenizer: Any, folder: Path) -> None:
    """Writes a folder that `peft` loads, with the name by which others know the base model."""
    shutil.copyfile(checkpoint / WEIGHTS_FILE, folder / WEIGHTS_FILE)
    config = read_adapter_config(checkpoint)
    config["base_model_name_or_path"] = base_id
    config["inference_mode"] = True
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    tokenizer.save_pretrained(folder)


@torch.inference_mode()
def log_softmax_after(model: Any, tokens: Sequence[int], count: int) -> Floats:
    """Log-probabilities of every token after each of the last `count`: (count, V), float32."""
    logits = model(torch.tensor([list(tokens)])).logits[0, -count:].float()
    found: Floats = torch.log_softmax(logits, -1).numpy()
    return found
