r"""Recorded episodes to examples, and examples to tokens with a loss mask.

    <|im_start|>user\nSolve x + 1 = 3<|im_end|>\n<|im_start|>assistant\n     no loss
    add_terms -1<|im_end|>                                                  loss
    \n<|im_start|>user\nx = 2<|im_end|>\n<|im_start|>assistant\n             no loss
    state_answer<|im_end|>                                                  loss

Tokens are made by the codec that rollouts use, so they are those the model would have seen and
sampled in the same conversation.

Made-up answers are refused: a "worse" answer that was made from a good one, by truncating or
corrupting it, teaches a model to recognise corrupted text and nothing about the task.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from practicum.core.errors import UserError
from practicum.core.interfaces import ChatCodec, Environment
from practicum.core.sample import Episode, Example, TokenisedExample
from practicum.core.task import Task
from practicum.core.trace import Message, Node, Trace
from practicum.traces.datasets.splits import LeftOut

BROKEN = "it broke off through no fault of the policy"
SILENT = "the assistant said nothing"
CORRECTED = " corrected"
"""Ends the id of an example that a person has written, behind that of its trace."""
UNCORRECTED = "its correction says what the answer said"
MADE_UP = "its source says that it was made up, and an answer must have been given by someone"

AT_ONCE = 32
"""Concurrent episodes of `reference_episodes`."""

MAX_REPEATS = 10_000
"""Known tasks in a row after which `reference_tasks` ends."""

FLAGS = ("synthetic", "is_synthetic", "made_up", "invented")
ORIGINS = ("source", "origin", "provenance")
INVENTED = re.compile(
    r"synthe(tic|sised|sized)|invented|made[ _-]?up|fabricated|corrupted|degraded|perturbed"
)


def verdict(episode: Episode, label: float | None, good_at: float) -> bool | None:
    """Whether an episode is good, by a person's label, else its outcome, else its score.

    Args:
        episode: The episode.
        label: A person's label, from 0 (bad) to 1 (good).
        good_at: The score from which it is good.
    """
    if label is not None:
        return label >= 0.5
    if episode.outcome is not None and episode.outcome.success is not None:
        return episode.outcome.success
    value = episode.score.value
    return None if value is None else value >= good_at


def episode_examples(
    episode: Episode, good: bool | None, left_out: LeftOut, correction: str = ""
) -> Iterator[Example]:
    """An example per root-to-leaf path; a turn on several paths has loss on the first only.

    Where a person has corrected the last answer, its two sides as a pair instead.
    """
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
    if correction and trace.turns:
        yield from _corrected(trace, correction, left_out)
        return
    learned: set[int] = set()
    for number, leaf in enumerate(trace.leaves()):
        path = _Path(trace, trace.path(leaf), frozenset(learned))
        learned.update(path.fresh)
        name = f"{trace.id}#{number}" if number else trace.id
        if reason := path.fault():
            left_out.add(reason, name)
            continue
        ids, mask = path.tokens()
        yield Example(
            id=name,
            task_id=trace.task_id,
            env=trace.env,
            messages=path.messages,
            tools=trace.tools,
            given=path.given,
            shown=path.shown,
            label=good,
            reward=episode.score.value,
            token_ids=ids,
            loss_mask=mask,
            tokens_of=trace.model.partition(" + ")[0] if ids else "",
        )


def _corrected(trace: Trace, correction: str, left_out: LeftOut) -> Iterator[Example]:
    """The correction of the last turn, chosen, and that turn as it was, rejected."""
    last = trace.turns[-1]
    said = trace.nodes[last].messages
    if "".join(message.content for message in said).strip() == correction.strip():
        left_out.add(UNCORRECTED, trace.id)
        return
    path = _Path(trace, trace.path(last), frozenset(trace.turns) - {last})
    if reason := path.fault():
        left_out.add(reason, trace.id)
        return
    ids, mask = path.tokens()
    rejected = Example(
        id=trace.id,
        task_id=trace.task_id,
        env=trace.env,
        messages=path.messages,
        tools=trace.tools,
        given=path.given,
        pair=f"{trace.id}{CORRECTED}",
        chosen=False,
        token_ids=ids,
        loss_mask=mask,
        tokens_of=trace.model.partition(" + ")[0] if ids else "",
    )
    answer = Message(role="assistant", content=correction)
    yield replace(
        rejected,
        id=f"{trace.id}{CORRECTED}",
        messages=(*path.messages[: path.given], answer),
        chosen=True,
        token_ids=(),
        loss_mask=(),
        tokens_of="",
    )
    yield rejected


@dataclass(frozen=True, slots=True)
class _Path:
    """A root-to-leaf path of a trace, and the nodes that have their loss on earlier paths."""

    trace: Trace
    indices: tuple[int, ...]
    learned: frozenset[int]

    @property
    def fresh(self) -> list[int]:
        return [i for i in self.indices if self._node(i).sampled and i not in self.learned]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(message for i in self.indices for message in self._node(i).messages)

    @property
    def given(self) -> int:
        """Number of messages before the first turn with loss."""
        first = self.indices.index(self.fresh[0]) if self.fresh else len(self.indices)
        return sum(len(self._node(i).messages) for i in self.indices[:first])

    @property
    def shown(self) -> tuple[int, ...]:
        """Indices of later assistant messages without loss."""
        fresh = set(self.fresh)
        owned = [(m, i in fresh) for i in self.indices for m in self._node(i).messages]
        return tuple(
            place
            for place, (message, own) in enumerate(owned)
            if message.role == "assistant" and not own and place >= self.given
        )

    def fault(self) -> str:
        """Why it cannot be trained on; empty if it can."""
        turns = [message for i in self.fresh for message in self._node(i).messages]
        return "" if any(m.content.strip() or m.tool_calls for m in turns) else SILENT

    def tokens(self) -> tuple[tuple[int, ...], tuple[bool, ...]]:
        """The sampled tokens and their loss mask; empty where not all are known.

        A scripted policy's tokens are bytes without loss; an imported trace has none of its own.
        """
        nodes = [self._node(i) for i in self.indices]
        known = all(node.token_ids and _has_mask(node) for node in nodes)
        ids = tuple(token for node in nodes for token in node.token_ids)
        mask = tuple(
            carries
            for i, node in zip(self.indices, nodes, strict=True)
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


def tokenise(example: Example, codec: ChatCodec, *, model: str = "") -> TokenisedExample:
    """The tokens of an example and their loss mask.

    Args:
        example: The conversation. Messages after its last assistant turn are dropped.
        codec: Of the model to be trained.
        model: Its name. Tokens that this model sampled are used as they are; those of another
            model are replaced by the tokens of the text.
    """
    if example.token_ids and model and example.tokens_of == model:
        return _tokenised(example.token_ids, example.loss_mask, example.id)
    ids: list[int] = []
    mask: list[bool] = []
    pending: list[Message] = []
    opened = False
    for index, message in enumerate(example.messages):
        # Chat templates cannot open with an assistant turn, so a greeting is part of the opening.
        greets = not opened and index < example.opening and not _has_input(pending)
        if message.role != "assistant" or greets:
            pending.append(message)
            continue
        if opened:
            given: Sequence[int] = codec.extend(pending, True)
        else:
            given = codec.open(pending, example.tools)
        turn = codec.write(message)
        ids += [*given, *turn]
        learned = index >= example.opening and index not in example.shown
        mask += [False] * len(given) + [learned] * len(turn)
        pending, opened = [], True
    return _tokenised(ids, mask, example.id)


def _has_input(messages: Sequence[Message]) -> bool:
    return any(message.role != "system" for message in messages)


def _tokenised(ids: Sequence[int], mask: Sequence[bool], name: str) -> TokenisedExample:
    if len(ids) != len(mask):
        raise UserError(
            f"the example {name!r} has {len(ids)} tokens and a mask for {len(mask)}; "
            "build the dataset again"
        )
    if not any(mask):
        raise UserError(
            f"the example {name!r} has no assistant turn to learn from; leave it out of the dataset"
        )
    loss_mask = np.asarray(mask, np.bool_)
    return TokenisedExample(
        token_ids=np.asarray(ids, np.int64), loss_mask=loss_mask, given=int(loss_mask.argmax())
    )


async def reference_episodes(
    environment: Environment,
    n: int,
    seed: int,
    play: Callable[[Task], Awaitable[Episode]],
    on_episode: Callable[[Episode], None] = lambda episode: None,
) -> list[Episode]:
    """Episodes of the reference solutions of `n` training tasks (never held-out ones).

    Args:
        environment: Has the tasks.
        n: How many; fewer where the environment has fewer.
        seed: Chooses and orders the tasks.
        play: Runs a task's reference solution in the environment.
        on_episode: Progress callback.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def one(task: Task) -> Episode:
        async with places:
            episode = await play(task)
        on_episode(episode)
        return episode

    try:
        async with asyncio.TaskGroup() as together:
            tasks = islice(reference_tasks(environment, seed), n)
            playing = [together.create_task(one(task)) for task in tasks]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None  # the first to fail; it stopped the others
    if not playing:
        raise UserError(
            f"{environment.name!r} has no training tasks whose solution is known; "
            "choose another environment or other options"
        )
    return [job.result() for job in playing]


def reference_tasks(environment: Environment, seed: int) -> Iterator[Task]:
    """Training tasks without repetition; ends when the environment only repeats tasks."""
    seen: set[str] = set()
    repeated = 0
    for task in environment.tasks("train", seed):
        if task.id in seen:
            repeated += 1
            if repeated > MAX_REPEATS:
                return
            continue
        seen.add(task.id)
        repeated = 0
        yield task


def says_made_up(facts: Mapping[str, object]) -> bool:
    """Whether a row or a trace's evidence says that its answer is synthetic.

    >>> says_made_up({"source": "synthetic-worse"}), says_made_up({"source": "openhands"})
    (True, False)
    """
    if any(_is_set(facts.get(flag)) for flag in FLAGS):
        return True
    origins = (facts.get(key) for key in ORIGINS)
    if any(isinstance(origin, str) and INVENTED.search(origin.lower()) for origin in origins):
        return True
    inner = facts.get("metadata")
    return isinstance(inner, Mapping) and says_made_up(inner)


def _is_set(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() not in ("", "0", "false", "no", "none")
    return bool(value)
