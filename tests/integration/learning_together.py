"""A run's policy in one process, and the same in several, for tests that compare them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tests.unit.engine.reference import perturb
from tests.unit.engine.training_cases import sampled_batches

from practicum.assemble.build_policy import build_policy, learner_settings
from practicum.assemble.learner_processes import learner_processes
from practicum.config_files import read_config
from practicum.core.config.run_config import RunConfig
from practicum.core.sample import Batch
from practicum.engine.learning.data_parallel import DataParallelLearner
from practicum.engine.learning.learner import TorchLearner
from practicum.engine.learning.process_group import ProcessGroup
from practicum.engine.policy import TorchPolicy


def config_of(processes: int, *words: str) -> RunConfig:
    """PPO, so that there is a value head too; gradients are not clipped."""
    return read_config(
        "math",
        [
            *("model=tiny", "algorithm=ppo", "algorithm.max_grad_norm=1e9"),
            *("hardware.threads=1", f"hardware.processes={processes}", *words),
        ],
    )


class Together(NamedTuple):
    """Rank 0 of several processes that learn together."""

    config: RunConfig
    group: ProcessGroup
    learner: DataParallelLearner
    own: TorchLearner

    def start_from(self, folder: Path) -> None:
        """Take a checkpoint's state, whatever was done before."""
        self.learner.retune(learner_settings(self.config, self.config.all_stages[0]))
        self.learner.load(folder)


@contextmanager
def learning_together(processes: int, *words: str) -> Iterator[Together]:
    """Start processes that learn together."""
    config = config_of(processes, *words)
    with learner_processes(processes) as group:
        assert group is not None
        policy = build_policy(config, None, group)
        learner = policy.learner
        assert isinstance(learner, DataParallelLearner)
        yield Together(config, group, learner, learner._own)


def alone(folder: Path, *words: str) -> TorchPolicy:
    """A policy in one process with an adapter that is not zero; saved to an empty folder."""
    policy = build_policy(config_of(1, *words))
    assert isinstance(policy, TorchPolicy)
    perturb(policy.model, seed=1)
    policy.learner.publish()
    folder.mkdir()
    policy.learner.save(folder)
    return policy


def learned_state(learner: Any, folder: Path) -> dict[str, bytes]:
    """All that a checkpoint keeps of it, as bytes."""
    folder.mkdir(exist_ok=True)
    learner.save(folder)
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def watch_gradients(learner: TorchLearner) -> list[list[torch.Tensor | None]]:
    """Filled with the adapter's and the value head's gradients of each optimizer step."""
    seen: list[list[torch.Tensor | None]] = []

    def keep(*_: Any) -> None:
        grads = [p.grad for p in learner._all_parameters]
        seen.append([None if grad is None else grad.clone() for grad in grads])

    learner._optimizer.register_step_pre_hook(keep)
    return seen


def distance(mine: Sequence[torch.Tensor | None], theirs: Sequence[torch.Tensor | None]) -> float:
    """Largest difference of two lists of gradients, relative to the largest entry of all."""
    assert [one is None for one in mine] == [one is None for one in theirs]
    pairs = [
        (a.detach(), b.detach())
        for a, b in zip(mine, theirs, strict=True)
        if a is not None and b is not None
    ]
    largest = max(float(b.abs().max()) for _, b in pairs)
    return max(float((a - b).abs().max()) for a, b in pairs) / largest


def whole_batch(policy: TorchPolicy, **how: Any) -> Batch:
    """Episodes of a policy in one tree."""
    (batch,) = sampled_batches(policy, **how)
    return batch
