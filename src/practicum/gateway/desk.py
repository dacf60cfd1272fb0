"""Opening, rewarding and closing rollouts for programs outside, and what is kept of them."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from practicum.core.conversing import RolloutLimits
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.trace import Trace
from practicum.gateway.capture import CapturedConversation, turn_seed
from practicum.gateway.requests import Refused
from practicum.gateway.rollouts import OpenRollouts, Rollout

__all__ = ["RolloutDesk", "RolloutNote"]

ENVIRONMENT = "gateway"
"""What the traces say they were made in: a program that Practicum does not know."""


@dataclass(slots=True)
class RolloutNote:
    """What the desk knows of a rollout besides what was said in it."""

    task_id: str
    started_at: float
    score: Score


class RolloutDesk:
    """Who controls rollouts from outside.

    Args:
        rollouts: Where they can be reached.
        converse: A new conversation with the model, given a seed.
        keep: Told of every rollout that was closed.
        model: The model's name.
        seed: Decides the seeds of the rollouts, in the order they are opened.
    """

    def __init__(
        self,
        rollouts: OpenRollouts,
        converse: Callable[[int], CapturedConversation],
        keep: Callable[[Episode], None],
        *,
        model: str = "",
        seed: int = 0,
    ) -> None:
        self._rollouts = rollouts
        self._converse = converse
        self._keep = keep
        self._model = model
        self._seed = seed
        self._opened = 0
        self._notes: dict[str, RolloutNote] = {}

    def open(self, limits: RolloutLimits, task_id: str = "") -> Rollout:
        """A new rollout; its key is in what is returned, and nowhere else."""
        conversation = self._converse(turn_seed(self._seed, self._opened))
        self._opened += 1
        rollout = self._rollouts.open(conversation, limits)
        self._notes[rollout.id] = RolloutNote(
            task_id=task_id or rollout.id,
            started_at=time.time(),
            score=Score.unscored("no reward was given"),
        )
        return rollout

    def open_rollouts(self) -> list[tuple[Rollout, RolloutNote]]:
        """Those that are open, oldest first."""
        return [(found, self._notes[found.id]) for found in self._rollouts.all()]

    def reward(self, rollout_id: str, components: Mapping[str, float]) -> Score:
        """Score a rollout; a later reward takes the place of an earlier one."""
        note = self._notes.get(rollout_id)
        if note is None:
            raise _unknown(rollout_id)
        for name, value in components.items():
            if not math.isfinite(value):
                raise Refused(400, f"the reward {name!r:.60} is {value}; it must be a number")
        note.score = Score(components=dict(components))
        return note.score

    def close(self, rollout_id: str) -> Episode:
        """End a rollout and keep it."""
        rollout, note = self._rollouts.get(rollout_id), self._notes.pop(rollout_id, None)
        if rollout is None or note is None:
            raise _unknown(rollout_id)
        self._rollouts.close(rollout_id)
        trace = Trace(
            id=f"{ENVIRONMENT}/{rollout_id}",
            task_id=note.task_id,
            env=ENVIRONMENT,
            nodes=tuple(rollout.conversation.nodes),
            model=self._model,
            started_at=note.started_at,
            duration_s=time.time() - note.started_at,
            tools=rollout.conversation.tools,
        )
        episode = Episode(trace=trace, outcome=None, score=note.score)
        self._keep(episode)
        return episode

    def close_all(self) -> int:
        """End every rollout that is open; says how many there were."""
        names = [rollout.id for rollout, _ in self.open_rollouts()]
        for name in names:
            self.close(name)
        return len(names)


def _unknown(rollout_id: str) -> Refused:
    return Refused(404, f"there is no open rollout {rollout_id!r:.60}", "not_found_error")
