"""What a checkpoint holds besides what the learner writes, and how a run goes on from one."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from practicum.core.checkpoint import Checkpoint, LoopState
from practicum.core.errors import CheckpointError
from practicum.core.interfaces import Curriculum, Learner
from practicum.core.task import JSON
from practicum.store import CheckpointStore

__all__ = ["read_state", "restore", "save"]

STATE_FILE = "state.json"
STATS_FILE = "training_stats.json"


def save(
    store: CheckpointStore,
    learner: Learner,
    state: LoopState,
    stats: Mapping[str, JSON],
    *,
    keep: int,
) -> Checkpoint:
    """Write a checkpoint of `state.step` completed steps."""

    def write(folder: Path) -> None:
        learner.save(folder)
        (folder / STATE_FILE).write_text(json.dumps(asdict(state), indent=2))
        (folder / STATS_FILE).write_text(json.dumps(stats, indent=2))

    return store.save(state.step, write, fingerprint=learner.fingerprint(), keep=keep)


def read_state(folder: Path) -> LoopState:
    """The loop's state in a checkpoint."""
    try:
        return LoopState(**json.loads((folder / STATE_FILE).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{folder / STATE_FILE} cannot be read ({error}); resume from another checkpoint"
        ) from None


def restore(checkpoint: Checkpoint, learner: Learner, curriculum: Curriculum) -> LoopState:
    """Put learner and curriculum where they were, and prove it by the weights' fingerprint."""
    learner.load(checkpoint.path)
    if learner.fingerprint() != checkpoint.fingerprint:
        raise CheckpointError(
            f"{checkpoint.path} was saved with weights {checkpoint.fingerprint} but gives "
            f"{learner.fingerprint()}: the base model is not the one it was trained on"
        )
    state = read_state(checkpoint.path)
    curriculum.restore(state.curriculum)
    return state
