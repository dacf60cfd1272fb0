"""A trained model leaves: `export` writes it as others load it, and checks what it wrote.

Everything is written into a folder beside the final one and gets its name only when it has been
loaded again and found to be the model it was made from.
"""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from practicum import api
from practicum.assemble.environments import open_environment
from practicum.assemble.policies import (
    PolicyHandle,
    evaluate_policy,
    load_policy,
    sampling_params,
    sampling_policy,
)
from practicum.core.checkpoint import EvalReport
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import CheckpointError, UserError
from practicum.core.json_values import as_json
from practicum.core.sample import Episode, Floats, Ints
from practicum.core.task import JSON
from practicum.delivery.agreement import (
    Agreement,
    faults,
    log_softmax,
    measure_agreement,
    measure_likeliest,
)
from practicum.delivery.model_card import (
    CARD,
    RESULTS,
    Exported,
    Lineage,
    results_to_json,
    write_card,
)
from practicum.delivery.ollama import MODELFILE, PROFILE, choose_profile, write_modelfile
from practicum.delivery.turn_form import Conversation, TurnForm, find_form
from practicum.engine.compute_thread import run_to_end
from practicum.engine.models.catalog import find_known
from practicum.engine.models.download import create_atomically, require_space, sha256_of
from practicum.engine.models.gguf_writing import GgufFacts, read_gguf, write_gguf, write_lora_gguf
from practicum.engine.models.llama_cpp import FILE_TYPES, LlamaCpp, quantise
from practicum.engine.models.llama_server import likeliest_tokens
from practicum.engine.models.loading import LoadedModel, load_model
from practicum.engine.models.lora import read_adapter
from practicum.engine.models.merging import copy_adapter, log_softmax_after, save_merged
from practicum.engine.planning.machine import detect_machine, thread_count
from practicum.engine.sampling.llama_cpp_sampler import LlamaCppSampler
from practicum.environments.registry import run_and_close
from practicum.evaluation.compare import compare_reports

Target = Literal["adapter", "merged", "gguf", "ollama", "lora-gguf"]

POSITIONS = 512
"""Tokens whose log-probabilities are compared."""
OF_ONE = 64
"""The most of them that one episode gives."""
EVERY, PLACES, TOP = 8, 32, 10
"""Places at which an adapter on a .gguf file is compared, and tokens that llama.cpp tells there."""
CONVERSATIONS = 4
"""Episodes that llama.cpp keeps in its cache."""


class Probe(NamedTuple):
    """The end of an episode, over which two models are compared."""

    tokens: tuple[int, ...]
    targets: Ints
    """The tokens that came next after the last ones."""
    expected: Floats
    """Log-probabilities of the original after each of these, (T, V)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What came of an export."""

    folder: Path
    lineage: Lineage
    original: EvalReport
    files: tuple[Exported, ...]

    def to_json(self) -> dict[str, JSON]:
        """What `export_results.json` holds."""
        return results_to_json(self.lineage, self.original, self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The policy that leaves."""

    policy: str
    base: str
    checkpoint: Path | None
    config: RunConfig
    lineage: Lineage


class Watcher(Protocol):
    """Told what an export is doing."""

    def progress(self, stage: str, done: int, total: int) -> None:
        """A stage goes on."""

    def evaluating(self, what: str, tasks: int) -> None:
        """An evaluation begins."""

    def episode_done(self, episode: Episode) -> None:
        """One more of its episodes."""


class Silent:
    """A `Watcher` that says nothing."""

    def progress(self, stage: str, done: int, total: int) -> None:
        """Nothing."""

    def evaluating(self, what: str, tasks: int) -> None:
        """Nothing."""

    def episode_done(self, episode: Episode) -> None:
        """Nothing."""


def export(
    policy: "api.Run | str | Path",
    to: Target,
    folder: str | Path | None = None,
    *,
    quants: Sequence[str] = (),
    n: int = 100,
    force: bool = False,
    watcher: Watcher | None = None,
    **options: Any,
) -> Export:
    """Write a trained model for others to load, and check what was written.

    Args:
        policy: A run, a checkpoint or a model.
        to: `adapter` for PEFT, `merged` for transformers and vLLM, `gguf` for llama.cpp, `ollama`
            for the same with a Modelfile, `lora-gguf` for llama.cpp on top of the base model.
        folder: Where to; `exports/NAME-TO` unless given.
        quants: Types of .gguf files, such as `Q4_K_M`; chosen by this machine's memory if none.
        n: Held-out tasks that original and export are compared on.
        force: Keep what differs more than its type allows.
        watcher: Told what goes on.
        options: Keys of the config, such as `env="math"` for a model or `**{"env.level": 2}`.
    """
    watcher = watcher or Silent()
    wanted = read_file_types(quants)
    named = api.policy_name(policy)
    env = options.pop("env", None)
    words = [f"eval.n={n}", "eval.k=1", "eval.temperature=0.0", *api.as_words(options)]
    config = api.policy_config(named, env, words)
    target = Path(folder) if folder else Path("exports") / f"{named.replace('/', '-')}-{to}"
    if target.exists():
        raise UserError(f"{str(target)!r} is there already; remove it, or name another folder")
    with create_atomically(target) as partial:
        assert partial is not None  # nobody else had it a moment ago
        work = _Work(named, config, partial, force=force, watcher=watcher)
        found = work.write(to, wanted)
        work.describe(found)
    (target.parent / f".{target.name}.lock").unlink(missing_ok=True)
    return Export(
        folder=target, lineage=work.source.lineage, original=work.original, files=tuple(found)
    )


class _Work:
    """One export, in a folder that does not have its name yet."""

    def __init__(
        self, policy: str, config: RunConfig, folder: Path, *, force: bool, watcher: Watcher
    ) -> None:
        self._folder, self._force, self._watcher = folder, force, watcher
        self._threads = thread_count(config)
        self._scratch = folder / ".work"
        self._scratch.mkdir()
        self._loaded, adapted, self.source = _load(policy, config)
        self.original, episodes = self._play_original()
        self._probes = _probes(episodes, adapted)
        self._adapted = adapted

    def write(self, to: Target, quants: Sequence[str]) -> list[Exported]:
        """Write and check the files of one kind."""
        if to == "adapter":
            return [self._adapter()]
        if to == "lora-gguf":
            return [self._lora_gguf()]
        if to == "merged":
            return [self._acting(self._merged(self._folder), str(self._folder))]
        form = find_form(self._render) if to == "ollama" else None
        merged = self._merged(self._scratch / "merged")
        plain = self._scratch / "plain.gguf"
        name = self._folder.name.removeprefix(".").removesuffix(".partial")
        kinds = quants or [recommended_type(merged.bytes)]
        require_space(
            self._folder,
            merged.bytes + sum(int(merged.bytes * BITS[kind] / 32) for kind in kinds),
            "the export",
            "name a folder on another disk",
        )
        write_gguf(self._scratch / "merged", plain, self._watcher.progress)
        found = [self._gguf(plain, self._folder / f"{name}-{kind}.gguf", kind) for kind in kinds]
        self._remove_refused(found)
        if form is not None:
            self._write_modelfiles(form, found)
        return found

    def _remove_refused(self, files: Sequence[Exported]) -> None:
        """Keep only files that are the model; refuse the export where none is."""
        refused = [file for file in files if file.refused]
        for file in refused:
            (self._folder / file.name).unlink()
        if len(refused) == len(files):
            raise _refusal(refused[0].kind, refused[0].refused)

    def _render(self, messages: Conversation, begin_turn: bool) -> str:
        text: str = self._loaded.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=begin_turn
        )
        return text

    def _write_modelfiles(self, form: TurnForm, files: Sequence[Exported]) -> None:
        """A Modelfile for each .gguf file, and the profile of this machine."""
        machine, tokenizer = detect_machine(), self._loaded.tokenizer
        profile = choose_profile(
            "ryzen" if self.source.config.hardware.profile == "ryzen" else "auto",
            cores=machine.physical_cores,
            memory_bytes=machine.memory_bytes,
            has_gpu=bool(machine.devices),
            longest=int(self._loaded.module.config.max_position_embeddings),
        )
        (self._folder / PROFILE).write_text(profile.to_json())
        ends = tokenizer.convert_ids_to_tokens(sorted(self._loaded.codec.end_of_turn_ids))
        for file in (file for file in files if not file.refused):
            name = MODELFILE if len(files) == 1 else f"{MODELFILE}-{file.kind}"
            text = write_modelfile(
                file.name, form, ends, profile, {"temperature": 0.0}, self.source.lineage.licence
            )
            (self._folder / name).write_text(text, encoding="utf-8")

    def describe(self, exports: Sequence[Exported]) -> None:
        """Write the figures and the card, and remove what is not wanted any more."""
        shutil.rmtree(self._scratch)
        results = results_to_json(self.source.lineage, self.original, exports)
        (self._folder / RESULTS).write_text(json.dumps(results, indent=2) + "\n")
        settings = {
            key: as_json(value) for key, value in self.source.config.model_dump().items() if value
        }
        card = write_card(self.source.lineage, self.original, exports, settings)
        (self._folder / CARD).write_text(card, encoding="utf-8")

    def _play_original(self) -> tuple[EvalReport, list[Episode]]:
        environment = open_environment(self.source.config.env)
        handle = api.open_policy(self.source.policy, self.source.config, environment)
        return self._play(handle, environment, "the original")

    def _play(self, handle: Any, environment: Any, name: str) -> tuple[EvalReport, list[Episode]]:
        config, watcher = self.source.config, self._watcher
        watcher.evaluating(name, config.eval.n)
        work = evaluate_policy(handle, environment, config, watcher.episode_done, name)
        found = run_to_end(run_and_close(environment, work))
        return found.report, [e for group in found.groups for e in group.usable]

    def _adapter(self) -> Exported:
        checkpoint = _require_adapter(self.source)
        base = self.source.lineage.base
        copy_adapter(checkpoint, base, self._loaded.tokenizer, self._folder)
        again = read_adapter(load_model(self.source.base).module, self._folder)
        return self._checked("merged", "adapter", self._folder, self._agreement_of(again))

    def _merged(self, folder: Path) -> Exported:
        save_merged(self._adapted, self._loaded.tokenizer, folder)
        again = load_model(str(folder)).module
        return self._checked("merged", "merged", folder, self._agreement_of(again))

    def _agreement_of(self, model: Any) -> Agreement:
        found = [log_softmax_after(model, p.tokens, p.targets.size) for p in self._probes]
        return self._agreement(found)

    def _agreement(self, found: Sequence[Floats]) -> Agreement:
        return measure_agreement(
            [probe.expected for probe in self._probes],
            found,
            [probe.targets for probe in self._probes],
        )

    def _checked(
        self, limits: str, kind: str, place: Path, agreement: Agreement, **facts: Any
    ) -> Exported:
        told = () if self._force else tuple(faults(limits, agreement))
        if told and kind not in FILE_TYPES:
            raise _refusal(kind, told)
        files = [place] if place.is_file() else sorted(place.glob("*.safetensors"))
        return Exported(
            kind=kind,
            name=place.name if place.is_file() else kind,
            bytes=sum(file.stat().st_size for file in files),
            sha256=sha256_of(place) if place.is_file() else "",
            agreement=agreement,
            refused=told,
            **facts,
        )

    def _gguf(self, plain: Path, file: Path, kind: str) -> Exported:
        self._watcher.progress(f"writing {kind}", 0, 0)
        quantise(plain, file, kind, self._threads)
        facts = read_gguf(file)
        _check_tokenizer(facts, self._loaded, file.name)
        longest = max(len(probe.tokens) for probe in self._probes)
        model = LlamaCpp(file, context=_context(longest + 64), threads=self._threads)
        _check_tokens(model, self._loaded, self._probes, file.name)
        begun = time.perf_counter()
        found = []
        for probe in self._probes:
            model.forget()
            found.append(log_softmax(model.logits(probe.tokens, probe.targets.size)))
        seconds = time.perf_counter() - begun
        exported = self._checked(
            kind,
            kind,
            file,
            self._agreement(found),
            fallbacks=facts.fallbacks(kind),
            prompt_speed=sum(len(p.tokens) for p in self._probes) / seconds,
            sampling_speed=model.speed(self._probes[0].tokens),
        )
        del model
        return self._played(exported, file)

    def _played(self, exported: Exported, file: Path) -> Exported:
        """The same with what it is worth on the held-out tasks, run in llama.cpp."""
        config, environment = self.source.config, open_environment(self.source.config.env)
        longest = max(len(probe.tokens) for probe in self._probes)
        context = _context(longest + config.rollouts.max_tokens * config.rollouts.max_turns)
        model = LlamaCpp(file, context=context, threads=self._threads, conversations=CONVERSATIONS)
        sampler = LlamaCppSampler(
            model, self._loaded.tokenizer, self._loaded.codec, exported.sha256[:16]
        )
        params = sampling_params(config.rollouts, 0.0)
        handle = sampling_policy(
            exported.name, sampler, self._loaded.codec, params, self._loaded.tokenizer
        )
        return self._with_scores(exported, handle, environment)

    def _acting(self, exported: Exported, model: str) -> Exported:
        """The same with what it is worth on the held-out tasks, run as any model is."""
        config, environment = self.source.config, open_environment(self.source.config.env)
        named = config.model.model_copy(update={"name": model})
        handle = load_policy(named, None, config.rollouts, 0.0)
        return self._with_scores(exported, handle, environment)

    def _with_scores(self, exported: Exported, handle: PolicyHandle, environment: Any) -> Exported:
        report, _ = self._play(handle, environment, exported.name)
        return replace(exported, report=report, comparison=compare_reports(report, self.original))

    def _lora_gguf(self) -> Exported:
        checkpoint = _require_adapter(self.source)
        base = self._loaded.folder
        if base is None:
            raise UserError(
                "the tiny model has no files to put an adapter on; export it with --to merged"
            )
        file = self._folder / f"{checkpoint.parent.parent.name}-lora.gguf"
        write_lora_gguf(checkpoint, base, file, self._watcher.progress)
        plain, half = self._scratch / "plain.gguf", self._scratch / "base.gguf"
        write_gguf(base, plain, self._watcher.progress)
        quantise(plain, half, "F16", self._threads)
        tried = [(p, at) for p in self._probes for at in range(0, p.targets.size, EVERY)][:PLACES]
        prompts = [p.tokens[: len(p.tokens) - p.targets.size + 1 + at] for p, at in tried]
        told = likeliest_tokens(half, file, prompts, TOP, self._threads)
        agreement = measure_likeliest([p.expected[at] for p, at in tried], told)
        return self._checked("lora-gguf", "lora-gguf", file, agreement)


def _refusal(kind: str, told: Sequence[str]) -> UserError:
    return UserError(
        f"the {kind} export is not the model it was made from: {'; '.join(told)}. Nothing was "
        "kept; --force keeps it all the same"
    )


def _load(policy: str, config: RunConfig) -> tuple[LoadedModel, Any, Source]:
    found = api.find_checkpoint(policy)
    checkpoint = found.checkpoint if found is not None else None
    loaded = load_model(config.model.name)
    fingerprint = checkpoint.fingerprint if checkpoint else loaded.fingerprint
    if checkpoint and fingerprint.partition("+")[0] != loaded.fingerprint[:16]:
        raise CheckpointError(
            f"{checkpoint.path} was trained on other weights than {config.model.name!r} has here "
            f"({fingerprint.partition('+')[0]} and {loaded.fingerprint[:16]}); give the model it "
            "was trained on: model=NAME"
        )
    adapted = read_adapter(loaded.module, checkpoint.path) if checkpoint else loaded.module
    known = find_known(config.model.name)
    lineage = Lineage(
        base=known.hub_id or known.name if known else config.model.name,
        base_fingerprint=loaded.fingerprint,
        policy=policy,
        fingerprint=fingerprint,
        env=config.env_name,
        licence=known.licence if known else "other",
    )
    source = Source(
        policy=policy,
        base=config.model.name,
        checkpoint=checkpoint.path if checkpoint else None,
        config=config,
        lineage=lineage,
    )
    return loaded, adapted, source


def _require_adapter(source: Source) -> Path:
    if source.checkpoint is None:
        raise UserError(
            f"{source.policy!r} is a model without an adapter; export it with --to merged"
        )
    return source.checkpoint


def _probes(episodes: Sequence[Episode], adapted: Any) -> list[Probe]:
    """The ends of some episodes, with what the original says of them."""
    probes: list[Probe] = []
    left = POSITIONS
    for episode in episodes:
        leaves = episode.trace.leaves()
        path = episode.trace.token_ids(leaves[-1]) if leaves else ()
        count = min(OF_ONE, len(path) - 1, left)
        if count < 1:
            continue
        targets = np.asarray(path[-count:], np.int64)
        expected = log_softmax_after(adapted, path[:-1], count)
        probes.append(Probe(tuple(path[:-1]), targets, expected))
        left -= count
    if not probes:
        raise UserError("no held-out episode has tokens to compare; give another --env or --n")
    return probes


def read_file_types(quants: Sequence[str]) -> list[str]:
    """The types that words name, smallest first."""
    wanted = {quant.upper() for quant in quants}
    if "ALL" in wanted:
        return list(FILE_TYPES)
    if unknown := sorted(wanted - set(FILE_TYPES)):
        raise UserError(
            f"there is no type {unknown[0]!r}; known types: {', '.join(FILE_TYPES)}, or all"
        )
    return [kind for kind in FILE_TYPES if kind in wanted]


BITS = {
    "Q2_K": 3.4,
    "Q3_K_M": 4.0,
    "Q4_K_M": 4.9,
    "Q5_K_M": 5.7,
    "Q6_K": 6.6,
    "Q8_0": 8.5,
    "F16": 16.0,
    "BF16": 16.0,
}
"""What a weight takes, about; more where rows do not divide by 256."""
COMMON = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M")


def recommended_type(float32_bytes: int) -> str:
    """The largest common type that takes at most a quarter of the memory."""
    memory = detect_machine().available_bytes / 4
    fitting = [kind for kind in COMMON if float32_bytes * BITS[kind] / 32 <= memory]
    return fitting[0] if fitting else "Q3_K_M"


def _check_tokenizer(facts: GgufFacts, loaded: LoadedModel, name: str) -> None:
    """Refuse a file whose tokenizer, template or end of turn is another than the model's."""
    tokenizer = loaded.tokenizer
    template = tokenizer.chat_template
    if facts.chat_template != template:
        raise UserError(f"{name!r} has another chat template than the model; nothing was kept")
    if facts.end_id != tokenizer.eos_token_id:
        raise UserError(
            f"{name!r} ends a turn with token {facts.end_id}, the model with "
            f"{tokenizer.eos_token_id}; nothing was kept"
        )
    own = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    if tuple(own) != facts.tokens[: len(own)]:
        raise UserError(f"{name!r} has the vocabulary of another tokenizer; nothing was kept")


def _check_tokens(model: LlamaCpp, loaded: LoadedModel, probes: Sequence[Probe], name: str) -> None:
    """Refuse a file in which llama.cpp splits the episodes' text otherwise."""
    for probe in probes:
        text = loaded.tokenizer.decode(list(probe.tokens), skip_special_tokens=False)
        own = loaded.tokenizer.encode(text, add_special_tokens=False)
        if model.tokenise(text) != own:
            raise UserError(f"{name!r} splits text into other tokens than the model does")


def _context(tokens: int) -> int:
    """A context that holds this many tokens, in whole blocks."""
    return -(-tokens // 256) * 256
