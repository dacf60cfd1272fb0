"""A rollout as a graph of nodes, told apart by tokens.

Clients send their whole conversation with every request. Where its tokens are those of a path that
is already there and some more, the path goes on; anything else is a branch, down to a root of its
own for a sub-agent with another system prompt.
"""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence

from practicum.core.conversing import SampledTurn
from practicum.core.sampling import Completion
from practicum.core.trace import Message, Node, SampledSpan

__all__ = ["RolloutGraph"]


class RolloutGraph:
    """Nodes of one rollout, and how a request's messages and tokens find their place among them.

    A request is looked at twice. `turns` says which of its assistant messages were sampled here,
    so that the codec can give them back as they were sampled; `place` then follows the tokens.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.retokenised = 0
        """Prompts that brought back turns of ours but do not pass through the last of them: the
        client, or the chat template, rewrote what was said."""
        self._children: dict[int | None, list[int]] = {None: []}
        self._ended: dict[int, bool] = {}
        """For each sampled node, whether it ended with the end-of-turn token."""
        self._answers: dict[bytes, list[int]] = {}
        """Sampled nodes by the conversation that they end."""
        self._said: dict[bytes, list[int]] = {}
        """Sampled nodes by what they say."""
        self._systems: dict[int, bytes] = {}
        """For each sampled node, the system prompt it was answered under."""
        self._digested: tuple[Sequence[Message], list[bytes]] = ((), [])
        """The conversation that was looked at last: a request's is looked at three times."""

    def turns(self, messages: Sequence[Message]) -> dict[int, SampledTurn]:
        """How assistant messages were sampled, by their index, for those that were sampled here."""
        return {
            index: SampledTurn(token_ids=self.nodes[node].token_ids, ended_turn=self._ended[node])
            for index, node in self._own(messages).items()
        }

    def place(self, prompt_ids: Sequence[int], messages: Sequence[Message]) -> int:
        """The parent of the turn that answers a prompt.

        Follows the longest path whose tokens the prompt begins with. What is left of the prompt
        becomes a node of its own, with the messages that the path does not hold.
        """
        prompt = tuple(prompt_ids)
        at, length = self._walk(prompt)
        if length == len(prompt) and at is not None:
            return at
        own = self._own(messages)
        if own:
            last = own[max(own)]
            rewritten = last not in self.path(at)
            if rewritten and self._systems[last] == _system(messages):
                self.retokenised += 1
        held = sum(len(self.nodes[i].messages) for i in self.path(at))
        return self.add_given(at, tuple(messages)[held:], prompt[length:])

    def add_given(
        self, parent: int | None, messages: tuple[Message, ...], token_ids: tuple[int, ...]
    ) -> int:
        """Append tokens that were given to the model."""
        return self._add(Node(parent=parent, messages=messages, token_ids=token_ids))

    def add_turn(
        self, parent: int, message: Message, completion: Completion, duration_s: float = 0.0
    ) -> int:
        """Append a sampled turn."""
        node = self._add(
            Node(
                parent=parent,
                messages=(message,),
                token_ids=completion.token_ids,
                sampled=_span(completion),
                duration_s=duration_s,
            )
        )
        self._ended[node] = completion.ended_turn
        return node

    def remember(self, node: int, messages: Sequence[Message]) -> None:
        """Note which conversation a sampled node answered, so that it is known when it is back."""
        said = _key(self.nodes[node].messages[-1])
        before = self._digests(messages)[-1] if messages else b""
        self._answers.setdefault(_digest(before, said), []).append(node)
        self._said.setdefault(said, []).append(node)
        self._systems[node] = _system(messages)

    def path(self, node: int | None) -> list[int]:
        """Indices from the root to a node."""
        found: list[int] = []
        while node is not None:
            found.append(node)
            node = self.nodes[node].parent
        return found[::-1]

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        index = len(self.nodes) - 1
        self._children[index] = []
        self._children[node.parent].append(index)
        return index

    def _walk(self, prompt: tuple[int, ...]) -> tuple[int | None, int]:
        """The node farthest down whose path the prompt begins with, and that path's length."""
        best: tuple[int | None, int] = (None, 0)
        waiting: list[tuple[int | None, int]] = [best]
        while waiting:
            at, length = waiting.pop()
            if length > best[1] or (at is not None and best[0] is None):
                best = (at, length)
            for child in self._children[at]:
                ids = self.nodes[child].token_ids
                if ids and prompt[length : length + len(ids)] == ids:
                    waiting.append((child, length + len(ids)))
        return best

    def _own(self, messages: Sequence[Message]) -> dict[int, int]:
        """Nodes of the assistant messages that were sampled here, by the messages' indices.

        The last message whose whole conversation is known decides the path, and the ones before it
        are looked for on that path first; a message whose conversation was rewritten is known by
        what it says.
        """
        found: dict[int, int] = {}
        digests = self._digests(messages)
        path: set[int] = set()
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if message.role != "assistant":
                continue
            answers = self._answers.get(digests[index])
            candidates = answers or self._said.get(_key(message)) or []
            fitting = [node for node in candidates if self._thought(node, message)]
            if not fitting:
                continue
            # Known by its words alone, it is the first that said them, whoever says them later:
            # so its tokens are the same in every request.
            otherwise = fitting[-1] if answers else fitting[0]
            on_path = (node for node in reversed(fitting) if answers and node in path)
            chosen = next(on_path, otherwise)
            found[index] = chosen
            if not path and digests[index] in self._answers:
                path = set(self.path(chosen))
        return found

    def _digests(self, messages: Sequence[Message]) -> list[bytes]:
        """For each message, a digest of the conversation that ends with it."""
        if isinstance(messages, tuple) and self._digested[0] is messages:
            return self._digested[1]
        _, *found = itertools.accumulate(map(_key, messages), _digest, initial=b"")
        self._digested = (messages, found)
        return found

    def _thought(self, node: int, message: Message) -> bool:
        """Whether a message's reasoning is a node's; most clients do not send it back."""
        return not message.reasoning or message.reasoning == self.nodes[node].messages[-1].reasoning


def _key(message: Message) -> bytes:
    """What a message says, whatever ids its calls have and whatever was thought before it."""
    content = message.content if message.content.strip() else ""
    said = f"{message.role}\n{content}"
    if message.tool_calls:
        calls = [[call.name, _plain(call.arguments)] for call in message.tool_calls]
        said = json.dumps([message.role, content, calls], sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _plain(arguments: Mapping[str, object]) -> dict[str, object]:
    return dict(arguments)


def _digest(before: bytes, said: bytes) -> bytes:
    """Of a conversation, from the digest of what came before its last message, and its key."""
    return hashlib.blake2b(before + said, digest_size=16).digest()


def _system(messages: Sequence[Message]) -> bytes:
    """The system prompt: sub-agents are told apart by it."""
    return b"".join(_key(message) for message in messages if message.role == "system")


def _span(completion: Completion) -> SampledSpan:
    return SampledSpan(
        logprobs=completion.logprobs,
        loss_mask=completion.loss_mask,
        log_kept=completion.log_kept,
        choices=completion.choices,
        temperature=completion.temperature,
        fingerprint=completion.fingerprint,
    )
