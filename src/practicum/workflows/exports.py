"""A trained model leaves: `export` writes it as others load it, and checks what it wrote.

Everything is written into a folder beside the final one and gets its name only when it has been
loaded again and found to be the model it was made from.
"""

import errno
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from practicum import api
from practicum.analysis.wording import training_words
from practicum.assemble.environments import open_environment
from practicum.assemble.policies import (
    PolicyHandle,
    evaluate_policy,
    load_policy,
    sampling_params,
    sampling_policy,
)
from practicum.core.checkpoint import CARD, EXPORT_RESULTS, EvalReport
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
from practicum.delivery.form_probing import find_form
from practicum.delivery.go_template import write_go
from practicum.delivery.model_card import Exported, Lineage, results_to_json, write_card
from practicum.delivery.ollama import MODELFILE, Modelfile, choose_profile, shared_system
from practicum.delivery.turn_form import Messages, Tools
from practicum.engine.compute_thread import run_to_end
from practicum.engine.models.catalog import known_base
from practicum.engine.models.download import create_atomically, require_space, sha256_of
from practicum.engine.models.file_types import BITS, FILE_TYPES, read_file_types, recommended_type
from practicum.engine.models.gguf_checks import check_template, check_tokenizer, check_tokens
from practicum.engine.models.gguf_writing import (
    check_converts,
    read_gguf,
    write_gguf,
    write_lora_gguf,
)
from practicum.engine.models.llama_cpp import LlamaCpp, quantise
from practicum.engine.models.llama_server import LlamaServer
from practicum.engine.models.loading import LoadedModel, load_model
from practicum.engine.models.lora import read_adapter
from practicum.engine.models.merging import copy_adapter, log_softmax_after, save_merged
from practicum.engine.planning.machine import detect_machine, thread_count
from practicum.engine.sampling.llama_cpp_sampler import LlamaCppSampler
from practicum.environments.registry import run_and_close
from practicum.evaluation.compare import compare_reports
from practicum.training.stage_data import learned_rows

Target = Literal["adapter", "merged", "gguf", "ollama", "lora-gguf"]
TARGETS: tuple[Target, ...] = ("adapter", "lora-gguf", "merged", "gguf", "ollama")
"""In the order in which they are written: merging makes the adapted model unusable."""

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
    original: EvalReport | None
    """None of a run without an environment: it is compared token by token on its own rows."""
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
    run: Path | None  # of the run that trained it, if there is one
    trained: RunConfig | None  # that run's config
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
    to: Target | Sequence[str],
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
            for the same with a Modelfile, `lora-gguf` for llama.cpp on top of the base model; or
            several of them, each in a folder of its own below the one that is named.
        folder: Where to; `exports/NAME-TO` unless given.
        quants: Types of .gguf files, such as `Q4_K_M`; chosen by this machine's memory if none.
        n: Held-out tasks that original and export are compared on.
        force: Keep what differs more than its type allows.
        watcher: Told what goes on.
        options: Keys of the config, such as `env="math"` for a model or `**{"env.level": 2}`.
    """
    watcher = watcher or Silent()
    targets = _read_targets([to] if isinstance(to, str) else to)
    wanted = read_file_types(quants)
    named = api.policy_name(policy)
    env = options.pop("env", None)
    words = [f"eval.n={n}", "eval.k=1", "eval.temperature=0.0", *api.as_words(options)]
    config = api.policy_config(named, env, words)
    kind = targets[0] if len(targets) == 1 else "export"
    target = Path(folder) if folder else Path("exports") / f"{named.replace('/', '-')}-{kind}"
    if target.exists():
        raise UserError(f"{str(target)!r} is there already; remove it, or name another folder")
    if any(kind not in ("adapter", "merged") for kind in targets):
        check_converts(config.model.name, watcher.progress)
    try:
        with create_atomically(target) as partial:
            assert partial is not None  # nobody else had it a moment ago
            work = _Work(named, config, partial, force=force, watcher=watcher)
            found = work.write_all(targets, wanted)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UserError(
            f"the disk of {target.parent} is full; make room, or name a folder on another disk"
        ) from error
    finally:
        (target.parent / f".{target.name}.lock").unlink(missing_ok=True)
    return Export(
        folder=target, lineage=work.source.lineage, original=work.original, files=tuple(found)
    )


def create_in_ollama(folder: str | Path, tag: str) -> list[str]:
    """Make what was exported for Ollama known to it; the tags it has now."""
    from practicum.delivery.ollama_program import create

    return [made.tag for made in create(Path(folder), tag)]


def _read_targets(words: Sequence[str]) -> list[Target]:
    """What is asked for, in the order in which it is written."""
    if stray := [word for word in words if word not in TARGETS]:
        raise UserError(f"there is no export to {stray[0]!r}; known: {', '.join(TARGETS)}")
    return [target for target in TARGETS if target in words]


class _Work:
    """One export, in a folder that does not have its name yet."""

    def __init__(
        self, policy: str, config: RunConfig, folder: Path, *, force: bool, watcher: Watcher
    ) -> None:
        self._folder, self._force, self._watcher = folder, force, watcher
        self._threads = thread_count(config)
        self._scratch = folder / ".work"
        self._scratch.mkdir()
        self._loaded, self._adapted, self.source = _load(policy, config)
        self._parameters = sum(p.numel() for p in self._adapted.parameters())
        self._merged_folder: Path | None = None

    def write_all(self, targets: Sequence[Target], quants: Sequence[str]) -> list[Exported]:
        """Write and check everything, and describe it."""
        kinds = list(quants) or [self._recommended(targets)]
        self._require_space(targets, kinds)
        # Before minutes are spent on what would be refused at the end.
        template = self._go_template() if "ollama" in targets else ""
        self.original, self._episodes = self._play_original()
        self._probes = _probes(self._paths(), self._adapted)
        found: list[Exported] = []
        for target in targets:
            place = self._folder if len(targets) == 1 else self._folder / target
            place.mkdir(exist_ok=True)
            written = self._write(target, kinds, place)
            if target == "ollama":
                self._write_modelfiles(place, template, written)
            self._describe(place, written)
            found += written
        shutil.rmtree(self._scratch)
        if len(targets) > 1:
            self._write_results(self._folder, found)
        return found

    def _recommended(self, targets: Sequence[Target]) -> str:
        memory = detect_machine().available_bytes
        kind = recommended_type(self._parameters, memory)
        if {"gguf", "ollama"} & set(targets):
            told = f"{kind} fits the {memory / 2**30:.0f} GiB of memory that are free here"
            self._watcher.progress(told, 0, 0)
        return kind

    def _require_space(self, targets: Sequence[Target], kinds: Sequence[str]) -> None:
        whole = self._parameters * 4
        needed = 0
        if {"merged", "gguf", "ollama"} & set(targets):
            needed += whole
        if {"gguf", "ollama"} & set(targets):
            copies = len({"gguf", "ollama"} & set(targets))
            needed += whole + copies * sum(int(whole * BITS[kind] / 32) for kind in kinds)
        if "lora-gguf" in targets:
            needed += whole + whole // 2
        require_space(self._folder, needed, "the export", "name a folder on another disk")

    def _write(self, to: Target, kinds: Sequence[str], place: Path) -> list[Exported]:
        """Write and check the files of one kind."""
        if to == "adapter":
            return [self._adapter(place)]
        if to == "lora-gguf":
            return [self._lora_gguf(place)]
        if to == "merged":
            return [self._acting(self._merged(place), str(place))]
        if self._merged_folder is None:
            self._merged(self._scratch / "merged")
        plain = self._scratch / "plain.gguf"
        if not plain.exists():
            assert self._merged_folder is not None  # it was just written
            write_gguf(self._merged_folder, plain, self._watcher.progress)
        name = self._folder.name.removeprefix(".").removesuffix(".partial")
        found = [self._gguf(plain, place / f"{name}-{kind}.gguf", kind) for kind in kinds]
        _remove_refused(place, found)
        return found

    def _go_template(self) -> str:
        """The chat template in Go's language."""
        tokenizer = self._loaded.tokenizer
        form = find_form(self._render, str(tokenizer.chat_template))
        begin = tokenizer.bos_token
        if begin and tokenizer.encode("a")[:1] == [tokenizer.bos_token_id]:
            form = form.without_begin(begin)
        return write_go(form)

    def _render(self, messages: Messages, tools: Tools, begin_turn: bool) -> str:
        text: str = self._loaded.tokenizer.apply_chat_template(
            list(messages),
            tools=list(tools) or None,
            tokenize=False,
            add_generation_prompt=begin_turn,
        )
        return text

    def _write_modelfiles(self, place: Path, template: str, files: Sequence[Exported]) -> None:
        """A Modelfile for each .gguf file, and the profile of this machine."""
        machine, tokenizer = detect_machine(), self._loaded.tokenizer
        lineage = self.source.lineage
        profile = choose_profile(
            "ryzen" if self.source.config.hardware.profile == "ryzen" else "auto",
            cores=machine.physical_cores,
            memory_bytes=machine.memory_bytes,
            has_gpu=bool(machine.devices),
            longest=int(self._loaded.module.config.max_position_embeddings),
        )
        profile.write(place)
        ends = tokenizer.convert_ids_to_tokens(sorted(self._loaded.codec.end_of_turn_ids))
        for file in (file for file in files if not file.refused):
            name = MODELFILE if len(files) == 1 else f"{MODELFILE}-{file.kind}"
            modelfile = Modelfile(
                file=file.name,
                template=template,
                stops=ends,
                profile=profile,
                parameters={"temperature": 0.0},
                licence=lineage.licence,
                system=shared_system(self._episodes),
                origin=f"{lineage.base} + {lineage.policy} ({lineage.fingerprint}), {file.kind}",
            )
            (place / name).write_text(modelfile.write(), encoding="utf-8")

    def _describe(self, place: Path, exports: Sequence[Exported]) -> None:
        """Write the figures and the card."""
        self._write_results(place, exports)
        trained = self.source.trained
        values = trained.model_dump() if trained else {}
        if values.get("stages"):  # they have methods of their own
            del values["algorithm"]
        settings = {k: as_json(v) for k, v in values.items() if v not in (None, "", (), [])}
        card = write_card(self.source.lineage, self.original, exports, settings)
        (place / CARD).write_text(card, encoding="utf-8")

    def _write_results(self, place: Path, exports: Sequence[Exported]) -> None:
        results = results_to_json(self.source.lineage, self.original, exports)
        (place / EXPORT_RESULTS).write_text(json.dumps(results, indent=2) + "\n")

    def _paths(self) -> list[tuple[int, ...]]:
        """The tokens of what was played, or of what a run without an environment learned from."""
        if self.original is None:
            return learned_rows(self.source.run) if self.source.run else []
        traces = [episode.trace for episode in self._episodes]
        return [tuple(t.token_ids(t.leaves()[-1])) for t in traces if t.leaves()]

    def _play_original(self) -> tuple[EvalReport | None, list[Episode]]:
        if self.source.config.env is None and self.source.run is not None:
            return None, []
        environment = open_environment(self.source.config.env)
        handle = api.open_policy(self.source.policy, self.source.config, environment)
        return self._play(handle, environment, "the original")

    def _play(self, handle: Any, environment: Any, name: str) -> tuple[EvalReport, list[Episode]]:
        config, watcher = self.source.config, self._watcher
        watcher.evaluating(name, config.eval.n)
        work = evaluate_policy(handle, environment, config, watcher.episode_done, name)
        found = run_to_end(run_and_close(environment, work))
        return found.report, [e for group in found.groups for e in group.usable]

    def _adapter(self, place: Path) -> Exported:
        checkpoint = _require_adapter(self.source)
        copy_adapter(checkpoint, self.source.lineage.base, self._loaded.tokenizer, place)
        again = read_adapter(load_model(self.source.base).module, place)
        exported = self._checked("merged", "adapter", place, self._agreement_of(again))
        return self._acting(exported, self.source.base, place)

    def _merged(self, folder: Path) -> Exported:
        save_merged(self._adapted, self._loaded.tokenizer, folder)
        self._merged_folder = folder
        agreement = self._agreement_of(load_model(str(folder)).module)
        return self._checked("merged", "merged", folder, agreement)

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
        told = tuple(faults(limits, agreement))
        if told and not self._force and kind not in FILE_TYPES:
            raise _refusal(kind, told)
        files = [place] if place.is_file() else sorted(place.glob("*.safetensors"))
        return Exported(
            kind=kind,
            name=place.name if place.is_file() else kind,
            bytes=sum(file.stat().st_size for file in files),
            sha256=sha256_of(place) if place.is_file() else "",
            agreement=agreement,
            outside=told,
            is_forced=self._force,
            **facts,
        )

    def _gguf(self, plain: Path, file: Path, kind: str) -> Exported:
        self._watcher.progress(f"writing {kind}", 0, 0)
        quantise(plain, file, kind, self._threads)
        facts = read_gguf(file)
        check_tokenizer(facts, self._loaded, file.name)
        context = _context(max(len(probe.tokens) for probe in self._probes) + 64)
        model = LlamaCpp(file, context=context, threads=self._threads)
        check_tokens(model, self._loaded, [probe.tokens for probe in self._probes], file.name)
        found = []
        for probe in self._probes:
            model.forget()
            found.append(log_softmax(model.logits(probe.tokens, probe.targets.size)))
        del model
        server = LlamaServer(file, context=context, threads=self._threads)
        check_template(server, self._loaded, _openings(self._episodes), file.name)
        prompt_speed, sampling_speed = server.speed(self._probes[0].tokens)
        del server
        exported = self._checked(
            kind,
            kind,
            file,
            self._agreement(found),
            fallbacks=facts.fallbacks(kind),
            prompt_speed=prompt_speed,
            sampling_speed=sampling_speed,
        )
        return self._played(exported, file)

    def _played(self, exported: Exported, file: Path) -> Exported:
        """The same with what it is worth on the held-out tasks, run in llama.cpp."""
        if self.original is None:
            return exported
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

    def _acting(self, exported: Exported, model: str, adapter: Path | None = None) -> Exported:
        """The same with what it is worth on the held-out tasks, run as any model is."""
        if self.original is None:
            return exported
        config, environment = self.source.config, open_environment(self.source.config.env)
        named = config.model.model_copy(update={"name": model})
        handle = load_policy(named, adapter, config.rollouts, 0.0)
        return self._with_scores(exported, handle, environment)

    def _with_scores(self, exported: Exported, handle: PolicyHandle, environment: Any) -> Exported:
        assert self.original is not None  # there are tasks to play
        report, _ = self._play(handle, environment, exported.name)
        return replace(exported, report=report, comparison=compare_reports(report, self.original))

    def _lora_gguf(self, place: Path) -> Exported:
        checkpoint = _require_adapter(self.source)
        base = self._loaded.folder
        assert base is not None  # only a model with files converts
        name = self._folder.name.removeprefix(".").removesuffix(".partial")
        file = place / f"{name}-lora.gguf"
        write_lora_gguf(checkpoint, base, file, self._watcher.progress)
        plain, half = self._scratch / "base-plain.gguf", self._scratch / "base.gguf"
        write_gguf(base, plain, self._watcher.progress)
        quantise(plain, half, "F16", self._threads)
        tried = [(p, at) for p in self._probes for at in range(0, p.targets.size, EVERY)][:PLACES]
        prompts = [p.tokens[: len(p.tokens) - p.targets.size + 1 + at] for p, at in tried]
        context = _context(max(map(len, prompts)) + 64)
        server = LlamaServer(half, adapter=file, context=context, threads=self._threads)
        told = [server.likeliest(prompt, TOP) for prompt in prompts]
        agreement = measure_likeliest([p.expected[at] for p, at in tried], told)
        return self._checked("lora-gguf", "lora-gguf", file, agreement)


def _remove_refused(place: Path, files: Sequence[Exported]) -> None:
    """Keep only files that are the model; refuse the export where none is."""
    refused = [file for file in files if file.refused]
    for file in refused:
        (place / file.name).unlink()
    if len(refused) == len(files):
        raise _refusal(refused[0].kind, refused[0].refused)


def _openings(episodes: Sequence[Episode]) -> list[list[dict[str, str]]]:
    """The messages that some episodes began with, up to the model's first turn."""
    found = []
    for episode in episodes[:CONVERSATIONS]:
        messages: list[dict[str, str]] = []
        for message in episode.trace.messages():
            if message.role == "assistant":
                break
            messages.append({"role": message.role, "content": message.content})
        found.append(messages)
    return found


def _refusal(kind: str, told: Sequence[str]) -> UserError:
    return UserError(
        f"the {kind} export is not the model it was made from: {'; '.join(told)}. Nothing was "
        "kept; --force keeps it all the same"
    )


def _load(policy: str, config: RunConfig) -> tuple[LoadedModel, Any, Source]:
    found = api.find_checkpoint(policy)
    checkpoint = found.checkpoint if found is not None else None
    loaded = load_model(config.model.name, chat_template=config.model.chat_template)
    fingerprint = checkpoint.fingerprint if checkpoint else loaded.fingerprint
    trained_on, is_known, _ = fingerprint.partition("+")
    if checkpoint and is_known and trained_on != loaded.fingerprint[:16]:
        raise CheckpointError(
            f"{checkpoint.path} was trained on other weights than {config.model.name!r} has here "
            f"({trained_on} and {loaded.fingerprint[:16]}); give the model it "
            "was trained on: model=NAME"
        )
    adapted = read_adapter(loaded.module, checkpoint.path) if checkpoint else loaded.module
    run = found.run if found is not None else None
    base, licence = known_base(config.model.name)
    lineage = Lineage(
        base=base,
        model=config.model.name,
        base_fingerprint=loaded.fingerprint,
        policy=policy,
        fingerprint=fingerprint,
        env=config.env_name,
        training=training_words(run.config()) if run else "",
        licence=licence,
    )
    return (
        loaded,
        adapted,
        Source(
            policy=policy,
            base=config.model.name,
            checkpoint=checkpoint.path if checkpoint else None,
            config=config,
            run=run.path if run else None,
            trained=run.config() if run else None,
            lineage=lineage,
        ),
    )


def _require_adapter(source: Source) -> Path:
    if source.checkpoint is None:
        raise UserError(
            f"{source.policy!r} is a model without an adapter; export it with --to merged"
        )
    return source.checkpoint


def _probes(paths: Sequence[tuple[int, ...]], adapted: Any) -> list[Probe]:
    """The ends of some episodes or rows, with what the original says of them."""
    probes: list[Probe] = []
    left = POSITIONS
    for path in paths:
        count = min(OF_ONE, len(path) - 1, left)
        if count < 1:
            continue
        targets = np.asarray(path[-count:], np.int64)
        expected = log_softmax_after(adapted, path[:-1], count)
        probes.append(Probe(path[:-1], targets, expected))
        left -= count
    if not probes:
        raise UserError("no held-out episode has tokens to compare; give another --env or --n")
    return probes


def _context(tokens: int) -> int:
    """A context that holds this many tokens, in whole blocks."""
    return -(-tokens // 256) * 256
