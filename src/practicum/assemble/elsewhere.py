"""A policy whose turns are sampled by replicas, as the config's `sampler` section has it."""

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from practicum.assemble.clustered import pool_of_actors
from practicum.assemble.sampled_base import KEY_VARIABLE, sampler_key
from practicum.core.config.run_config import RunConfig
from practicum.core.config.sampler_config import VLLM_RANKS
from practicum.core.errors import UserError
from practicum.core.network_thread import NetworkThread
from practicum.core.sample import Sample
from practicum.core.sampling import Actions
from practicum.core.trace import Message
from practicum.core.trusted_code import require_secrets
from practicum.engine.models.loading import locate_model
from practicum.engine.planning.machine import placement, thread_count
from practicum.samplers.policy_elsewhere import (
    KEPT_BESIDES,
    AdapterPublisher,
    PolicyElsewhere,
)
from practicum.samplers.practicum_replica import EngineByHttp, PracticumReplica
from practicum.samplers.remote_sampler import RemoteSampler
from practicum.samplers.replica import Probe, Replica
from practicum.samplers.replica_pool import Member, PoolLimits, ReplicaPool
from practicum.samplers.replica_process import ReplicaProcess
from practicum.samplers.vllm_replica import TurnEnds, VllmReplica
from practicum.training.prefix_tree import build_batch

if TYPE_CHECKING:
    from practicum.engine.policy import TorchPolicy
    from practicum.engine.sampling.completions import ChoiceWalk

ASKED = Message(role="user", content="Solve 3x + 7 = 16, then list the files in /srv.")
ANSWERED = Message(
    role="assistant",
    content="First take 7 from both sides: 3x = 9. Then x = 3. `ls -l /srv` lists what is there, "
    "and a file that is missing is an error: fix it, and say so.",
)
"""What the weights of vLLM are compared by: a text of many different tokens."""


def sampled_elsewhere(config: RunConfig, policy: "TorchPolicy") -> PolicyElsewhere:
    """The policy with its replicas started, found, and given its first version."""
    from practicum.engine.compute_thread import computed
    from practicum.engine.models.lora import save_adapter
    from practicum.engine.sampling.completions import ActionTrie, ChoiceWalk

    section, staleness = config.sampler, _staleness(config)
    network = NetworkThread("replicas")
    limits = PoolLimits(
        at_once=section.at_once,
        timeout_s=section.timeout_s,
        return_timeout_s=section.startup_timeout_s,
    )
    if config.cluster.is_there and section.replicas:
        pool = pool_of_actors(config, _base_of(policy), limits)
    else:
        pool = ReplicaPool(_members(config, policy, staleness), limits)
    publisher = AdapterPublisher(
        pool,
        network,
        partial(computed(save_adapter), policy.model),
        _probe(config, policy) if section.kind == "vllm" else None,
        folder=section.folder,
        staleness=staleness,
    )
    tries: dict[Actions, ActionTrie] = {}

    def walk(actions: Actions) -> "ChoiceWalk":
        if actions not in tries:
            tries.clear() if len(tries) >= MOST_TRIES else None
            tries[actions] = ActionTrie(actions, policy.tokenizer, policy.codec.turn_end_id)
        return ChoiceWalk(tries[actions])

    sampler = RemoteSampler(pool, network, walk, policy.codec.decode)
    made = PolicyElsewhere(policy, sampler, pool, publisher, network)
    try:
        network.run(pool.open())
        made.learner.publish()
    except BaseException:
        made.close()
        raise
    return made


MOST_TRIES = 256
"""Sets of actions whose token trie is kept."""


def _staleness(config: RunConfig) -> int:
    return max(config.rollouts_of(stage).staleness for stage in config.all_stages)


def _members(config: RunConfig, policy: "TorchPolicy", staleness: int) -> list[Member]:
    section = config.sampler
    if section.urls:
        require_secrets(section.model_dump(), "sampler")
        key = sampler_key(section.key_file)
        return [Member(replica=_replica(config, policy, url, key)) for url in section.urls]
    key = secrets.token_urlsafe(24)
    command, environment = _command(config, key, staleness)
    made = []
    for _ in range(section.replicas):
        process = ReplicaProcess(command, environment, section.startup_timeout_s)
        made.append(Member(replica=_replica(config, policy, process.url, key), process=process))
    return made


def _replica(config: RunConfig, policy: "TorchPolicy", url: str, key: str) -> Replica:
    if config.sampler.kind == "vllm":
        codec = policy.codec
        ends = TurnEnds(ids=frozenset(codec.end_of_turn_ids), decode=codec.decode)
        return VllmReplica(url, key, ends)
    return PracticumReplica(EngineByHttp(url, key), _base_of(policy))


def _base_of(policy: "TorchPolicy") -> str:
    return policy.learner.fingerprint().partition("+")[0]


Command = Callable[[int], Sequence[str]]


def _command(config: RunConfig, key: str, staleness: int) -> tuple[Command, dict[str, str]]:
    """What starts a replica at a port, and the variables that it has."""
    threads = str(max(1, thread_count(config) // config.sampler.replicas))
    if config.sampler.kind == "vllm":
        return _vllm_command(config, key, staleness, threads)
    program = Path(sys.executable).with_name("practicum")
    if not program.exists():
        raise UserError(
            f"the command practicum is not beside {sys.executable}, so no replica can be started; "
            "install Practicum into this Python, or start replicas and give their sampler.urls"
        )
    model, (dtype, device) = config.model, placement(config.model)
    words = [str(program), "serve", model.name, "--sampler", "--device", device, "--dtype", dtype]
    words += ["--at-once", str(config.sampler.at_once)]
    words += ["--chat-template", model.chat_template] if model.chat_template else []

    def command(port: int) -> list[str]:
        return [*words, "--port", str(port), *config.sampler.args]

    return command, {KEY_VARIABLE: key, "OMP_NUM_THREADS": threads}


def _vllm_command(
    config: RunConfig, key: str, staleness: int, threads: str
) -> tuple[Command, dict[str, str]]:
    program, (dtype, device) = _vllm_program(config.sampler.python), placement(config.model)
    # While a version is published, replicas have the oldest one still.
    versions = staleness + KEPT_BESIDES + 1
    rank = next(one for one in VLLM_RANKS if one >= config.lora.r)
    settings = {
        "--model": str(_vllm_folder(config.model.name)),
        "--served-model-name": "base",
        "--dtype": dtype,
        "--max-lora-rank": str(rank),
        "--max-loras": str(versions),
        "--max-cpu-loras": str(versions),
        "--logprobs-mode": "processed_logprobs",
        "--host": "127.0.0.1",
    }
    words = [*program, "--enable-lora"]
    words += [word for pair in settings.items() for word in pair]

    def command(port: int) -> list[str]:
        return [*words, "--port", str(port), *config.sampler.args]

    environment = {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_API_KEY": key,
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",  # the folder has all there is to the model
    }
    if device == "cpu":
        environment["OMP_NUM_THREADS"] = threads
        environment["VLLM_CPU_KVCACHE_SPACE"] = os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1")
    return command, environment


def _vllm_program(python: str) -> list[str]:
    """VLLM's server; the module, since some builds of vLLM have no command that works."""
    if python:
        if shutil.which(python) is None:
            raise UserError(
                f"sampler.python = {python!r} is no program; name the Python of the environment "
                "that vLLM is installed in, such as vllm-venv/bin/python"
            )
        return [python, "-m", "vllm.entrypoints.openai.api_server"]
    beside = shutil.which("vllm")
    interpreter = Path(beside).with_name("python") if beside else None
    if interpreter is None or not interpreter.exists():
        raise UserError(
            "vLLM is started in an environment of its own, and none is named: make one "
            "(python3 -m venv vllm-venv; vllm-venv/bin/pip install vllm), and write "
            "sampler.python=vllm-venv/bin/python, or give the sampler.urls of servers that run"
        )
    return [str(interpreter), "-m", "vllm.entrypoints.openai.api_server"]


def _vllm_folder(name: str) -> Path:
    """The folder of a model that vLLM can read."""
    folder = locate_model(name)
    if folder is None:
        from practicum.engine.models.tiny import save_tiny

        folder = Path(tempfile.gettempdir()) / f"practicum-tiny-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        save_tiny(folder)
    return folder.absolute()


def _probe(config: RunConfig, policy: "TorchPolicy") -> Callable[[], Probe]:
    """How likely the learner finds the tokens of a text, as often as it is asked."""
    codec = policy.codec
    ids = np.asarray((*codec.open([ASKED]), *codec.write(ANSWERED)), np.int64)
    after = np.arange(ids.size) > 0
    zeros, ones = np.zeros(ids.size, np.float32), np.ones(ids.size, np.float32)
    batch = build_batch(
        [
            Sample(
                token_ids=ids,
                loss_mask=after,
                old_logprobs=zeros,
                advantages=zeros,
                temperatures=ones,
                choices={},
                trace_id="probe",
            )
        ]
    )
    limit = config.hardware.gap_limit(placement(config.model)[0])

    def probe() -> Probe:
        [measured] = policy.learner.measure([batch], frozenset())
        return Probe(token_ids=tuple(ids.tolist()), logprobs=measured.logprobs, limit=limit)

    return probe
