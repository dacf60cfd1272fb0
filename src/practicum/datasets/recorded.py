"""Recorded episodes to examples."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from practicum.core.example import Example
from practicum.core.sample import Episode
from practicum.core.trace import Message, Node, Trace
from practicum.datasets.left_out import LeftOut
from practicum.datasets.made_up import MADE_UP, says_made_up

__all__ = ["episode_examples", "verdict"]

BROKEN = "it broke off through no fault of the policy"
SILENT = "the assistant said nothing"


def verdict(episode: Episode, label: float | None, good_at: float) -> bool | None:
    """Whether an episode is one to want; None where nothing says so.

    A person's label counts before what the environment found, and that before the score.

    Args:
        episode: What was recorded.
        label: What a person said of it, from 0 (bad) to 1 (good).
        good_at: The score from which it is good.
    """
    if label is not None:
        return label >= 0.5
    if episode.outcome is not None and episode.outcome.success is not None:
        return episode.outcome.success
    value = episode.score.value
    return None if value is None else value >= good_at


def episode_examples(episode: Episode, good: bool | None, left_out: LeftOut) -> Iterator[Example]:
    """An example for each root-to-leaf walk; a turn on several walks is learned on the first."""
    trace = episode.trace
    evidence: Mapping[str, object] = episode.outcome.evidence if episode.outcome else {}
    if trace.is_masked:
        left_out.add(BROKEN, trace.id)
        return
    if says_made_up({**evidence, "source": trace.source}):
        left_out.add(MADE_UP, trace.id)
        return
    if not trace.nodes:
        left_out.add(SILENT, trace.id)
    learned: set[int] = set()
    for number, leaf in enumerate(trace.leaves()):
        walk = _Walk(trace, trace.path(leaf), frozenset(learned))
        learned.update(walk.fresh)
        name = f"{trace.id}#{number}" if number else trace.id
        if reason := walk.fault():
            left_out.add(reason, name)
            continue
        ids, mask = walk.tokens()
        yield Example(
            id=name,
            task_id=trace.task_id,
            env=trace.env,
            messages=walk.messages,
            tools=trace.tools,
            given=walk.given,
            shown=walk.shown,
            label=good,
            reward=episode.score.value,
            token_ids=ids,
            loss_mask=mask,
            tokens_of=trace.model.partition(" + ")[0] if ids else "",
        )


@dataclass(frozen=True, slots=True)
class _Walk:
    """One path through a trace, and which of its nodes an earlier walk was learned from."""

    trace: Trace
    path: tuple[int, ...]
    learned: frozenset[int]

    @property
    def fresh(self) -> list[int]:
        return [i for i in self.path if self._node(i).sampled and i not in self.learned]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(message for i in self.path for message in self._node(i).messages)

    @property
    def given(self) -> int:
        """Messages before the first turn that is learned from here."""
        first = self.path.index(self.fresh[0]) if self.fresh else len(self.path)
        return sum(len(self._node(i).messages) for i in self.path[:first])

    @property
    def shown(self) -> tuple[int, ...]:
        """Assistant messages after those that the model did not write, by place."""
        fresh = set(self.fresh)
        owned = [(m, i in fresh) for i in self.path for m in self._node(i).messages]
        return tuple(
            place
            for place, (message, own) in enumerate(owned)
            if message.role == "assistant" and not own and place >= self.given
        )

    def fault(self) -> str:
        """Why nothing can be learned from it."""
        said = [message for i in self.fresh for message in self._node(i).messages]
        return "" if any(m.content.strip() or m.tool_calls for m in said) else SILENT

    def tokens(self) -> tuple[tuple[int, ...], tuple[bool, ...]]:
        """The tokens as the model saw and sampled them; empty where they are not all known.

        Those of a scripted policy are bytes and carry no loss; those of a trace from elsewhere
        were made from its text.
        """
        nodes = [self._node(i) for i in self.path]
        known = all(node.token_ids and _has_mask(node) for node in nodes)
        ids = tuple(token for node in nodes for token in node.token_ids)
        mask = tuple(
            carries
            for i, node in zip(self.path, nodes, strict=True)
            for carries in (
                node.sampled.loss_mask
                if node.sampled and i not in self.learned
                else (False,) * len(node.token_ids)
            )
        )
        usable = known and any(mask) and self.trace.model and not self.trace.source
        return (ids, mask) if usable else ((), ())

    def _node(self, index: int) -> Node:
        return self.trace.nodes[index]


def _has_mask(node: Node) -> bool:
    return node.sampled is None or len(node.sampled.loss_mask) == len(node.token_ids)
