"""Models behind a URL: what `practicum serve` is given, where weights come from, and `/solve`.

Names imported `as` themselves are for `cli`, which does not import `gateway`.

One base model is loaded, and any number of adapters over it; see `engine.decoder.row_adapters`. A
run that is followed and a folder `served/NAME` are looked at about once a second, and other weights
there answer the requests that come after.
"""

import asyncio
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from practicum.api import find_checkpoint, policy_config
from practicum.assemble.environments import open_environment
from practicum.assemble.policies import (
    json_grammars,
    play_once,
    sampling_params,
    sampling_policy,
)
from practicum.core.capabilities import Closable, TellsSolution
from practicum.core.checkpoint import other_policy
from practicum.core.config.config_sections import ModelConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import CheckpointError, MissingExtra, UserError
from practicum.core.interfaces import Environment
from practicum.core.model_names import model_name
from practicum.core.sampling import SamplingParams, SamplingRequest
from practicum.engine.planning.machine import (
    detect_machine,
    give_back_heap,
    placement,
    use_one_heap,
)
from practicum.engine.planning.model_shapes import find_shape
from practicum.engine.planning.serving_memory import plan_serving
from practicum.environments.registry import find_task
from practicum.gateway.capture import MeteredSampler
from practicum.gateway.key_watch import KeySource as KeySource
from practicum.gateway.server.gateway_settings import GatewaySettings as GatewaySettings
from practicum.gateway.serving.key_limits import ApiKey as ApiKey
from practicum.gateway.serving.serve_plan import LoadedModels, Solved, SolveRequest
from practicum.gateway.serving.serve_plan import ServePlan as ServePlan
from practicum.gateway.serving.served_models import ServedModel, WeightsSource
from practicum.gateway.serving.served_models import ServedModels as ServedModels
from practicum.gateway.serving.traffic_recorder import RecordingRules as RecordingRules
from practicum.store.checkpoints import (
    BEST,
    MANIFEST,
    CheckpointStore,
    base_of_adapter,
    told_fingerprint,
    verify_checkpoint,
)
from practicum.store.run_dir import RUNS
from practicum.store.study_dir import find_study
from practicum.traces.traffic import TrafficStore

if TYPE_CHECKING:
    from practicum.engine.served_base import ServedBase

NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99})=(.+)")
"""`NAME=PATH`."""

ADAPTER = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
CURRENT = "current"
"""The link in `served/NAME` to the version that is served."""

MAX_TOKENS = 1024
"""Tokens of an answer whose request does not say, where the context leaves so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What is served, besides where and to whom."""

    words: tuple[str, ...]
    """RUN, CHECKPOINT, MODEL, STUDY or served/NAME, each perhaps as NAME=PATH."""
    follow: bool = False
    """Whether runs are followed: their best checkpoint is served while they train."""
    env: str | None = None
    """Where problems are solved; a run's own environment unless given."""
    max_tokens: int = MAX_TOKENS
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    chat_template: str = ""
    """In place of the model's own, and of those that runs were given."""
    record: Path | None = None
    """Trace store of recorded traffic; None records none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotedFolder:
    """`served/NAME`: the version that its link `current` points to."""

    name: str
    path: Path

    def stamp(self) -> str:
        """Where the link points, and what is there."""
        return f"{os.readlink(self.path / CURRENT)} {_written(self.path / CURRENT)}"

    def folder(self) -> Path:
        """The version, verified."""
        return _verified((self.path / CURRENT).resolve())


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedRun:
    """A run's best checkpoint, or its newest while none is marked."""

    name: str
    run: Path

    def stamp(self) -> str:
        """The step it is, and what is saved as that: a run that goes back writes a step again."""
        step = self._step()
        return "" if step is None else f"{step} {_written(CheckpointStore(self.run).path(step))}"

    def folder(self) -> Path:
        """The checkpoint, verified."""
        step = self._step()
        if step is None:
            raise CheckpointError(f"{self.run} has no checkpoint yet; wait for its first one")
        return CheckpointStore(self.run).load(step).path

    def _step(self) -> int | None:
        store = CheckpointStore(self.run)
        best, steps = store.pointed(BEST), store.steps()
        return best if best in steps else max(steps, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedWord:
    """One thing to serve, as far as it is known before anything is loaded."""

    word: str
    name: str
    base: str
    adapter: Path | None
    source: WeightsSource | None = None
    """Where other weights may come from."""
    config: RunConfig | None = None
    """Its run's, where it has one that acts."""


def _written(folder: Path) -> str:
    """What the manifest of a folder says of all its files, in one word; empty without a manifest.

    One that is being replaced raises `OSError`.
    """
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    manifest = folder / MANIFEST
    return hashlib.sha256(manifest.read_bytes()).hexdigest() if manifest.is_file() else ""


def _verified(folder: Path) -> Path:
    """A folder with an adapter; verified where it has a manifest."""
    if (folder / MANIFEST).is_file():
        return verify_checkpoint(folder).path
    if not (folder / ADAPTER).is_file():
        raise CheckpointError(f"{folder} has no {ADAPTER}; name a folder with an adapter")
    return folder


def read_words(options: ServeOptions) -> list[ServedWord]:
    """What each word names; all of one base model, no two of one name."""
    words = [each for word in options.words for each in _seeds(word)]
    found = [_read_word(word, follow=options.follow) for word in words]
    bases = {one.base: one.word for one in found}
    if len(bases) > 1:
        listed = ", ".join(f"{word} is of {base}" for base, word in bases.items())
        raise UserError(
            f"one server has one base model, and {listed}; serve them apart, each with its --port"
        )
    names: dict[str, str] = {}
    for one in found:
        if one.name in names:
            raise UserError(
                f"{names[one.name]} and {one.word} would both be called {one.name!r}; "
                f"give one of them another name: NAME={one.word}"
            )
        names[one.name] = one.word
    base = found[0].base
    if base in names or all(one.adapter is None for one in found):
        return found
    return [*found, ServedWord(word=base, name=base, base=base, adapter=None)]


def _split(word: str) -> tuple[str, str]:
    """The name that is given, if any, and what is named."""
    named = NAMED.fullmatch(word)
    return (named[1], named[2]) if named else ("", word)


def _seeds(word: str) -> list[str]:
    """The runs of a study as words of their own, `STUDY-seed_N`; another word as it is."""
    name, place = _split(word)
    study = find_study(place, RUNS)
    if study is None:
        return [word]
    runs = study.runs().values()
    if not runs:
        raise UserError(
            f"no seed of {study.path} has begun; type: practicum train --resume {place}"
        )
    return [f"{name or study.name}-{run.name}={run.path}" for run in runs]


def _read_word(word: str, *, follow: bool) -> ServedWord:
    name, place = _split(word)
    path = Path(place)
    if (path / CURRENT).is_symlink() or (path / "versions").is_dir():
        return _read_promoted(word, name or path.absolute().name, path)
    found = find_checkpoint(place)
    if found is not None and found.run is not None:
        is_run = path.name not in (found.checkpoint.path.name, BEST)
        own = found.run.name if is_run else f"{found.run.name}-{path.name}"
        adapter, source = found.checkpoint.path, None
        if follow and is_run:
            source = FollowedRun(name=name or own, run=found.run.path)
            adapter = source.folder()
        config = found.run.config()
        read = _word(word, name or own, adapter, source)
        return replace(read, config=config if config.acts else None)
    if found is not None or (path / ADAPTER).is_file():
        return _word(word, name or path.absolute().name, _verified(path))
    base = model_name(place)
    return ServedWord(word=word, name=name or base, base=base, adapter=None)


def _read_promoted(word: str, name: str, path: Path) -> ServedWord:
    source = PromotedFolder(name=name, path=path)
    if not (path / CURRENT).is_dir():
        raise UserError(
            f"{path} has no version that is served: its link {CURRENT!r} points to none; publish "
            "one there, or name a run"
        )
    if not (path / CURRENT).is_symlink():
        raise UserError(
            f"{path / CURRENT} is a folder and no link to a version: {path} was copied with its "
            "links followed (cp -a keeps them); move it away, then type: practicum served promote "
            f"{path} VERSION"
        )
    return _word(word, name, source.folder(), source)


def _word(word: str, name: str, adapter: Path, source: WeightsSource | None = None) -> ServedWord:
    base = base_of_adapter(adapter)
    return ServedWord(word=word, name=name, base=base, adapter=adapter, source=source)


class ServedSite:
    """Everything that `practicum serve` has in memory: base, models, environments."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self.words = read_words(options)
        self._base: ServedBase | None = None
        self._configs: dict[tuple[str, str], RunConfig] = {}
        self._environments: dict[str, Environment] = {}
        """By their configs."""
        self._own: dict[str, str] = {}
        """Each model's environment, where a request does not say."""
        self._open_environments()

    def _open_environments(self) -> None:
        """Open what problems may be solved in: the given environment, or those of the runs."""
        asked = self._options.env
        for one in self.words:
            if one.config is not None and asked in (None, one.config.env_name):
                self._keep_config(one.name, one.config)
        of_runs = [one.config for one in self.words if one.config is not None]
        others = of_runs if asked is None else [policy_config(self.words[0].base, asked, [])]
        for one in self.words:
            for config in others:
                if (one.name, config.env_name) not in self._configs:
                    self._keep_config(one.name, config)

    def _keep_config(self, name: str, config: RunConfig) -> None:
        told = str(config.env)
        if told not in self._environments:
            self._environments[told] = open_environment(config.env)
        self._configs[(name, config.env_name)] = config
        self._own.setdefault(name, config.env_name)

    async def load(self) -> LoadedModels:
        """Load the base and every adapter, and sample one token, so that all is warm."""
        sources = [one.source for one in self.words if one.source is not None]
        stamps = {source.name: source.stamp() for source in sources}
        models = ServedModels(await asyncio.to_thread(self._load_all))
        first = models.default
        warm = SamplingRequest(prompt_ids=(1,), params=SamplingParams(max_tokens=1))
        await first.sampler.sample(warm)
        assert self._base is not None
        grammars = json_grammars(self._base.tokenizer)
        return LoadedModels(
            models=models,
            load=self._load_other,
            grammars=grammars and grammars(),
            solver=self.solve,
            sources=sources,
            stamps=stamps,
            tend=give_back_heap,
        )

    def _load_all(self) -> list[ServedModel]:
        from practicum.engine.policy import load_for_policy
        from practicum.engine.served_base import load_served_base

        use_one_heap()  # before any other thread has one
        asked = self._options
        model = ModelConfig(name=self.words[0].base, device=asked.device, dtype=asked.dtype)
        dtype, device = placement(model)
        adapters = [one.adapter for one in self.words if one.adapter is not None]
        sizes = [(folder / WEIGHTS).stat().st_size for folder in adapters]
        shape = find_shape(model.name)
        plan = plan_serving(model.name, shape, sizes, dtype, detect_machine(), device)
        of_runs = [one.config.model.chat_template for one in self.words if one.config]
        given = [asked.chat_template, *of_runs]
        template = next(filter(None, given), "")  # a base model's, as it was trained with
        loaded = load_for_policy(model.name, dtype, device, template)
        base = self._base = load_served_base(loaded, plan.kv_slots)
        return [self._served(one.name, one.adapter, base) for one in self.words]

    async def _load_other(self, name: str, folder: Path) -> ServedModel:
        """Other weights for a model that is served."""
        assert self._base is not None
        if base_of_adapter(folder) != self.words[0].base:
            raise CheckpointError(f"{folder} is an adapter of {base_of_adapter(folder)}")
        base = self._base
        return await asyncio.to_thread(self._served, name, folder, base)

    def _served(self, name: str, folder: Path | None, base: "ServedBase") -> ServedModel:
        sampler = base.sampler(folder)
        if folder is not None:
            saved = told_fingerprint(folder)
            if why := other_policy(saved, sampler.fingerprint()):
                raise CheckpointError(
                    f"{folder} was saved with weights {saved} but gives {sampler.fingerprint()}: "
                    f"{why}; use that one"
                )
        return ServedModel(
            name=name,
            sampler=sampler,
            codec=base.codec,
            params=SamplingParams(max_tokens=self._options.max_tokens),
            source=str(folder or base.name),
        )

    async def solve(self, model: ServedModel, asked: SolveRequest) -> Solved:
        """Play the task that a problem names, with a model as it is now."""
        env = asked.env or self._own.get(model.name, "")
        config = self._configs.get((model.name, env))
        if config is None:
            names = sorted({known for _, known in self._configs})
            known = ", ".join(names) or "none; start the server with --env math"
            raise UserError(
                f"problems are not solved in {env!r:.60} here; environments: {known}"
                if env
                else f"say where the problem is to be solved; environments: {known}"
            )
        environment = self._environments[str(config.env)]
        task = find_task(environment, asked.problem)
        params = sampling_params(config.rollouts, asked.temperature)
        tokenizer = self._base.tokenizer if self._base is not None else None
        sampler = MeteredSampler(model.sampler, asked.on_sampled)
        handle = sampling_policy(model.name, sampler, model.codec, params, tokenizer)
        episode = await play_once(handle, environment, task, config, asked.seed)
        episode = replace(episode, trace=replace(episode.trace, id=asked.trace_id))
        said = [episode.trace.nodes[i].messages[-1].content for i in episode.trace.turns]
        solution = said[-1] if said else ""
        if isinstance(environment, TellsSolution) and episode.outcome is not None:
            solution = environment.solution(episode.outcome)
        return Solved(episode=episode, task=task, solution=solution)

    async def close(self) -> None:
        """Close the environments."""
        for environment in self._environments.values():
            if isinstance(environment, Closable):
                await environment.close()


async def serve_site(
    site: ServedSite,
    plan: ServePlan,
    *,
    ready: Callable[[str, ServedModels], None],
    say: Callable[[str], None],
    log: Callable[[str], None] | None,
    record: Path | None,
) -> None:
    """Serve until a signal comes; see `serve_models`."""
    from practicum.gateway.serving.serving_server import serve_models

    keeper = None if record is None else lambda: TrafficStore(record)
    try:
        await serve_models(plan, site.load, ready=ready, say=say, log=log, keeper=keeper)
    finally:
        await site.close()


async def serve_replica(
    model: ModelConfig, plan: ServePlan, key: str, ready: Callable[[str], None]
) -> None:
    """Sample from a base model for a run elsewhere, until a signal comes; see `serve_sampler`."""
    from practicum.assemble.sampled_base import sampled_base
    from practicum.gateway.serving.sampler_server import serve_sampler

    await serve_sampler(lambda: sampled_base(model), plan, key, ready)


def require_server() -> None:
    """Say how to install what a server needs, where it is missing."""
    try:
        import practicum.gateway.serving.serving_server  # noqa: F401
    except ImportError as error:
        if (error.name or "").startswith("practicum"):
            raise
        raise MissingExtra.for_extra("gateway", "practicum serve") from None
