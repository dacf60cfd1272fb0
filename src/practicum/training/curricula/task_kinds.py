"""How far the policy comes with each kind of task, and jump starts where it comes nowhere.

Where all episodes of a group fail there is nothing to compare, and nothing is learned. Every task
has a reference, so the first turns of it can be played and the policy does the rest: from near the
end it succeeds by chance, and the start then moves back, turn by turn, until it does all by itself.
(Jump-start RL: Uchendu et al. 2022, arXiv 2204.02372. A start that moves back through a
demonstration: R3, arXiv 2402.05808. By each sample's success: AdaBack, arXiv 2506.18110.)

How many turns are left to the policy is known of each kind of task, not of each task, which is
seldom drawn twice: it is halved when two whole groups in a row fail, and one more when half of a
group succeeds.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from practicum.core.capabilities import HasReference, ReportsMastery
from practicum.core.interfaces import Environment
from practicum.core.sample import Group
from practicum.core.task import JSON, Task
from practicum.training.curriculum import SharedCurriculum

PATIENCE = 2
"""Groups in a row that fail before less is left to the policy: where it succeeds now and then, a
group of eight may fail by chance."""
ENOUGH = 0.5
"""Success from which a turn more is left to the policy."""
STATE = "kinds"
"""Key of the state; the others are those of the curriculum inside."""


class Kind(NamedTuple):
    """How far the policy comes with a kind of task."""

    failed: int = 0
    """Groups in a row that failed, since anything changed."""
    left: int = 0
    """Turns that are left to the policy; 0 for all of them."""
    is_solved: bool = False
    """Whether an episode ever succeeded from the beginning."""

    def after(self, success: float, given: int, turns: int) -> "Kind":
        """The same after a group.

        Args:
            success: Share of its episodes that succeeded.
            given: How many turns were played for it.
            turns: Of the task's reference; 0 where it has none.
        """
        is_solved = self.is_solved or (not given and success > 0.0)
        failed = self.failed + 1 if success == 0.0 else 0
        if failed == PATIENCE and turns:
            return Kind(0, max(1, (turns - given) // 2), is_solved)
        if given and success >= ENOUGH:
            left = turns - given + 1
            return Kind(0, left if left < turns else 0, is_solved)
        return Kind(min(failed, PATIENCE), self.left, is_solved)


class TaskKinds:
    """A `SharedCurriculum` that notes what was ever solved, and gives jump starts where told to."""

    def __init__(
        self,
        inner: SharedCurriculum,
        environment: Environment,
        kind_of: Callable[[Task], str],
        max_turns: int = 0,
    ) -> None:
        """`max_turns` is of an episode that may be given a jump start; 0 gives none.

        A reference with more turns could not be finished, so nothing of it is given.
        """
        self._inner = inner
        self._environment = environment
        self._kind_of = kind_of
        self._max_turns = max_turns
        self._kinds: dict[str, Kind] = {}
        self._unread: dict[int, list[Group]] = {}

    def given_turns(self, task: Task) -> int:
        """How many turns of the task's reference its next episodes begin after."""
        kind = self._kinds.get(self._kind_of(task))
        if kind is None or not kind.left or not self._max_turns:
            return 0
        turns = self._turns(task)
        return max(0, turns - kind.left) if turns <= self._max_turns else 0

    def _turns(self, task: Task) -> int:
        has = isinstance(self._environment, HasReference)
        return len(self._environment.reference(task)) if has else 0

    def next_tasks(self, count: int) -> list[Task]:
        """See `Curriculum.next_tasks`."""
        return self._inner.next_tasks(count)

    def draw(self, step: int, count: int) -> list[Task]:
        """See `SharedCurriculum.draw`."""
        return self._inner.draw(step, count)

    def observe(self, group: Group) -> None:
        """Take note of a finished group."""
        self._inner.observe(group)
        self._note(group)

    def observe_in(self, step: int, group: Group) -> None:
        """Keep a group for `hand_over(step)`; a step that is never done is never observed."""
        self._inner.observe_in(step, group)
        self._unread.setdefault(step, []).append(group)

    def hand_over(self, step: int) -> None:
        """The step has its groups: they are observed now."""
        self._inner.hand_over(step)
        for group in self._unread.pop(step, []):
            self._note(group)

    def _note(self, group: Group) -> None:
        outcomes = [e.outcome.success for e in group.usable if e.outcome is not None]
        known = [success for success in outcomes if success is not None]
        if not known:
            return
        success, given = sum(known) / len(known), max(e.given_turns for e in group.usable)
        turns = self._turns(group.task) if self._max_turns else 0
        name = self._kind_of(group.task)
        self._kinds[name] = self._kinds.get(name, Kind()).after(success, given, turns)

    def metrics(self) -> dict[str, JSON]:
        """Those of the curriculum; which kinds were never solved, and how many are helped."""
        inner = self._inner.metrics() if isinstance(self._inner, ReportsMastery) else {}
        unsolved: list[JSON] = [*sorted(n for n, k in self._kinds.items() if not k.is_solved)]
        mine: dict[str, JSON] = {"kinds": len(self._kinds), "unsolved_kinds": unsolved}
        if self._max_turns:
            mine["helped_kinds"] = sum(kind.left > 0 for kind in self._kinds.values())
        return {**inner, **mine}

    def state(self) -> dict[str, JSON]:
        """The curriculum's, and what is known of each kind."""
        kinds: dict[str, JSON] = {name: [*kind] for name, kind in self._kinds.items()}
        return {**self._inner.state(), STATE: kinds}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """See `Curriculum.restore`; no step is in flight then."""
        self._inner.restore({key: said for key, said in state.items() if key != STATE})
        kinds = state.get(STATE, {})  # runs of before had none
        assert isinstance(kinds, dict)
        self._kinds = {name: Kind(*said) for name, said in kinds.items()}  # type: ignore[misc]
        self._unread = {}
