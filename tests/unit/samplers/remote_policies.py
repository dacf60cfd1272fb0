"""The tiny model with replicas at addresses, as a run has it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from tests.unit.samplers.replica_servers import KEY

from practicum.assemble.build_policy import build_policy
from practicum.config_files import read_config
from practicum.core.config.run_config import RunConfig
from practicum.core.trusted_code import remember, trust_secret
from practicum.samplers.policy_elsewhere import PolicyElsewhere


def remote_config(kind: str, urls: Sequence[str], *words: str) -> RunConfig:
    """Of a short run; `words` win."""
    usual = [
        "model=tiny",
        "lora=light",
        "warm_start=none",
        "steps=2",
        "rollouts.tasks_per_step=2",
        "rollouts.group_size=4",
        "rollouts.max_turns=3",
        "rollouts.replace_flat_groups=0",
        "eval.n=0",
        "algorithm.lr=0.01",
        f"sampler.kind={kind}",
        f"sampler.urls=[{','.join(urls)}]",
    ]
    return read_config("math", [*usual, *words])


@contextmanager
def remote_policy(kind: str, urls: Sequence[str], *words: str) -> Iterator[PolicyElsewhere]:
    """Its replicas found and given the first version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRACTICUM_SAMPLER_KEY", KEY)
        for url in urls:
            remember(trust_secret("PRACTICUM_SAMPLER_KEY", url))
        policy: Any = build_policy(remote_config(kind, urls, *words))
    try:
        yield policy
    finally:
        policy.close()
