"""From trajectories back to what was captured when they were sampled.

A choice is only a pointer: the gateway numbers every turn it answers, and the choice of the answer
carries that number. Tokens, log-probabilities and masks are those that the gateway kept; whatever
the choice says of them is not looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from practicum.art.trajectories import is_choice
from practicum.core.errors import UserError
from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.core.trace import Node, Trace

__all__ = ["TURN_FIELD", "CapturedTurns", "link_groups", "turn_number"]

TURN_FIELD = "practicum_turn"
"""What the gateway calls a turn's number in the choices of its answers."""


class CapturedTurns(Protocol):
    """Every turn the gateway answered since the weights last changed, by its number."""

    def path(self, number: int) -> Sequence[Node] | None:
        """The nodes from the root to a turn; None where there is no such turn."""
        ...

    def is_stale(self, number: int) -> bool:
        """Whether it was answered by weights of before the last update."""
        ...


@dataclass(slots=True)
class _Tree:
    """Paths joined where their tokens are the same."""

    nodes: list[Node] = field(default_factory=list)
    _children: dict[tuple[int | None, tuple[int, ...]], int] = field(default_factory=dict)

    def add(self, path: Sequence[Node]) -> None:
        """Add a path whose last node was sampled for this trajectory.

        Turns before it may have been sampled for another one that began alike; they were given to
        this one, and carry no loss unless they are its own as well.
        """
        at: int | None = None
        for place, node in enumerate(path):
            key = (at, node.token_ids)
            if key not in self._children:
                self._children[key] = len(self.nodes)
                self.nodes.append(replace(node, parent=at, sampled=None))
            at = self._children[key]
            if place == len(path) - 1 and self.nodes[at].sampled is None:
                self.nodes[at] = replace(self.nodes[at], sampled=node.sampled)


def link_groups(groups: Iterable[Any], turns: CapturedTurns, step: int) -> list[Group]:
    """Groups of captured episodes, one for each group that has trajectories.

    Raises:
        UserError: for a choice that this model did not sample, or sampled before it last learned.
    """
    found = []
    for number, group in enumerate(groups):
        label = f"art/{step}/{number}"
        task = Task(id=label, env="art", split="train")
        episodes = tuple(
            _episode(trajectory, turns, f"{label}/{place}", task)
            for place, trajectory in enumerate(group.trajectories)
        )
        if episodes:
            found.append(Group(task=task, episodes=episodes))
    return found


def _episode(trajectory: Any, turns: CapturedTurns, label: str, task: Task) -> Episode:
    tree = _Tree()
    for number in _turns_of(trajectory, label):
        path = turns.path(number)
        if path is None:
            raise UserError(_stale(label) if turns.is_stale(number) else _foreign(label))
        tree.add(path)
    trace = Trace(id=label, task_id=task.id, env=task.env, nodes=tuple(tree.nodes))
    score = Score(components={"reward": float(trajectory.reward)})
    return Episode(trace=trace, outcome=None, score=score)


def _turns_of(trajectory: Any, label: str) -> list[int]:
    """The numbers of its turns in the order in which they were sampled, each once."""
    histories = [trajectory, *trajectory.additional_histories]
    entries = [entry for history in histories for entry in history.messages_and_choices]
    numbers = set[int]()
    for entry in entries:
        if is_choice(entry):
            number = turn_number(entry)
            if number is None:
                raise UserError(_foreign(label))
            numbers.add(number)
    return sorted(numbers)


def turn_number(choice: Any) -> int | None:
    """The number that the gateway gave to the turn of a choice; None where it gave none.

    Some clients put fields they do not know into `provider_specific_fields`.

    >>> turn_number({"index": 0, "message": {}, "practicum_turn": 7})
    7
    """

    def field_of(name: str) -> Any:
        return choice.get(name) if isinstance(choice, Mapping) else getattr(choice, name, None)

    found, others = field_of(TURN_FIELD), field_of("provider_specific_fields")
    if found is None and isinstance(others, Mapping):
        found = others.get(TURN_FIELD)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _foreign(label: str) -> str:
    return (
        f"trajectory {label} holds a choice that this model's openai_client() did not return, so "
        "its tokens are not known; add answers of other models as plain messages: "
        "{'role': 'assistant', 'content': ...}"
    )


def _stale(label: str) -> str:
    return (
        f"trajectory {label} was sampled before the model last learned, so its tokens are not the "
        "present model's; gather again after each train"
    )
