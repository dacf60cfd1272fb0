"""`RolloutGraph`: a rollout's recorded turns as a tree of nodes with token ids.

Clients send their whole conversation with every request. If its tokens begin with those of a path
in the tree, the path is extended; otherwise a branch is made, or a new root, as for a sub-agent
with another system prompt.
"""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from practicum.core.conversation import SampledTurn
from practicum.core.sampling import Completion
from practicum.core.trace import Message, Node, SampledSpan


class RolloutGraph:
    """The nodes of one rollout, and the lookup of a request's messages and tokens among them.

    A request takes two lookups: `turns` finds the assistant messages that were sampled here, whose
    tokens the codec then reuses in the prompt; `place` finds the parent of the next turn by tokens.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.retokenised = 0
        self.unrecognised = 0
        """Assistant turns in prompts that were not sampled here: examples, or rewritten ones."""
        """Prompts with sampled turns whose tokens do not extend the last of these turns: the
        client, or the chat template, has changed the conversation."""
        self._children: dict[int | None, list[int]] = {None: []}
        self._ended: dict[int, bool] = {}
        """For each sampled node, whether it ended with the end-of-turn token."""
        self._by_conversation: dict[bytes, list[int]] = {}
        """Sampled nodes by the digest of the conversation up to and including them."""
        self._by_message: dict[bytes, list[int]] = {}
        """Sampled nodes by the digest of their message alone."""
        self._systems: dict[int, bytes] = {}
        """For each sampled node, the digest of its system prompt."""
        self._digested: tuple[Sequence[Message], list[bytes]] = ((), [])
        """The last conversation and its digests: a request needs them three times."""

    def turns(self, messages: Sequence[Message]) -> dict[int, SampledTurn]:
        """Tokens of the assistant messages that were sampled here, by the messages' indices."""
        return {
            index: SampledTurn(token_ids=self.nodes[node].token_ids, ended_turn=self._ended[node])
            for index, node in self._find_sampled(messages).items()
        }

    def place(self, prompt_ids: Sequence[int], messages: Sequence[Message]) -> int:
        """The parent for the turn that answers a prompt.

        It is on the longest path whose tokens are a prefix of the prompt. The rest of the prompt
        becomes a new node, with the messages that the path does not have.
        """
        prompt = tuple(prompt_ids)
        at, length = self._longest_prefix(prompt)
        if length == len(prompt) and at is not None:
            return at
        sampled = self._find_sampled(messages)
        if sampled:
            last = sampled[max(sampled)]
            rewritten = last not in self.path(at)
            if rewritten and self._systems[last] == _system(messages):
                self.retokenised += 1
        known = sum(len(self.nodes[i].messages) for i in self.path(at))
        said = [i for i, one in enumerate(messages) if one.role == "assistant" and i >= known]
        self.unrecognised += sum(index not in sampled for index in said)
        return self.add_given(at, tuple(messages)[known:], prompt[length:])

    def add_given(
        self, parent: int | None, messages: tuple[Message, ...], token_ids: tuple[int, ...]
    ) -> int:
        """Appends a node of tokens that were not sampled."""
        return self._add(Node(parent=parent, messages=messages, token_ids=token_ids))

    def add_turn(
        self, parent: int, message: Message, completion: Completion, duration_s: float = 0.0
    ) -> int:
        """Appends a node of a sampled turn."""
        node = self._add(
            Node(
                parent=parent,
                messages=(message,),
                token_ids=completion.token_ids,
                sampled=sampled_span(completion),
                duration_s=duration_s,
            )
        )
        self._ended[node] = completion.ended_turn
        return node

    def repeat(
        self,
        parent: int | None,
        messages: tuple[Message, ...],
        token_ids: tuple[int, ...],
        *,
        ended: bool,
    ) -> int:
        """Appends a part of another path as tokens that were not sampled here."""
        node = self.add_given(parent, messages, token_ids)
        self._ended[node] = ended
        return node

    def ended_turn(self, node: int) -> bool:
        """Whether a turn ended with the end-of-turn token; True for what is no turn."""
        return self._ended.get(node, True)

    def remember(self, node: int, messages: Sequence[Message]) -> None:
        """Indexes a sampled node by the conversation it answered, for later requests."""
        said = _key(self.nodes[node].messages[-1])
        before = self._digests(messages)[-1] if messages else b""
        self._by_conversation.setdefault(_digest(before, said), []).append(node)
        self._by_message.setdefault(said, []).append(node)
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

    def _longest_prefix(self, prompt: tuple[int, ...]) -> tuple[int | None, int]:
        """The deepest node whose path is a prefix of the prompt, and the path's tokens."""
        best: tuple[int | None, int] = (None, 0)
        stack: list[tuple[int | None, int]] = [best]
        while stack:
            at, length = stack.pop()
            if length > best[1] or (at is not None and best[0] is None):
                best = (at, length)
            for child in self._children[at]:
                ids = self.nodes[child].token_ids
                if ids and prompt[length : length + len(ids)] == ids:
                    stack.append((child, length + len(ids)))
        return best

    def _find_sampled(self, messages: Sequence[Message]) -> dict[int, int]:
        """Nodes of the assistant messages that were sampled here, by the messages' indices.

        The last message whose whole conversation is known decides the path; earlier ones are
        searched on that path first. A message whose conversation was changed is found by its own
        content.
        """
        found: dict[int, int] = {}
        digests = self._digests(messages)
        path: set[int] = set()
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if message.role != "assistant":
                continue
            answers = self._by_conversation.get(digests[index])
            candidates = answers or self._by_message.get(_key(message)) or []
            fitting = [node for node in candidates if self._matches_reasoning(node, message)]
            if not fitting:
                continue
            # By content alone it is the first node with that content, even if later ones have it
            # too, so that the message has the same tokens in every request.
            otherwise = fitting[-1] if answers else fitting[0]
            on_path = (node for node in reversed(fitting) if answers and node in path)
            chosen = next(on_path, otherwise)
            found[index] = chosen
            if not path and digests[index] in self._by_conversation:
                path = set(self.path(chosen))
        return found

    def _digests(self, messages: Sequence[Message]) -> list[bytes]:
        """For each message, a digest of the conversation that ends with it."""
        if isinstance(messages, tuple) and self._digested[0] is messages:
            return self._digested[1]
        _, *found = itertools.accumulate(map(_key, messages), _digest, initial=b"")
        self._digested = (messages, found)
        return found

    def _matches_reasoning(self, node: int, message: Message) -> bool:
        """Whether a message has the node's reasoning, or none: most clients do not send it back."""
        return not message.reasoning or message.reasoning == self.nodes[node].messages[-1].reasoning


def _key(message: Message) -> bytes:
    """A digest of a message's role, content and calls, but not of call ids and reasoning."""
    content = message.content if message.content.strip() else ""
    said = f"{message.role}\n{content}"
    if message.tool_calls:
        calls = [[call.name, _by_value(call.arguments)] for call in message.tool_calls]
        said = json.dumps([message.role, content, calls], sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _by_value(value: Any) -> Any:
    """A JSON value in which 10.0 is 10: JavaScript writes both as 10, and others as they like."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _by_value(one) for key, one in value.items()}
    return [_by_value(one) for one in value] if isinstance(value, list | tuple) else value


def _digest(before: bytes, said: bytes) -> bytes:
    """A conversation's digest, from that of all but its last message and the last one's key."""
    return hashlib.blake2b(before + said, digest_size=16).digest()


def _system(messages: Sequence[Message]) -> bytes:
    """A digest of the system prompt, which differs between sub-agents."""
    return b"".join(_key(message) for message in messages if message.role == "system")


def sampled_span(completion: Completion) -> SampledSpan:
    """What a trace keeps of how a completion was sampled."""
    return SampledSpan(
        logprobs=completion.logprobs,
        loss_mask=completion.loss_mask,
        log_kept=completion.log_kept,
        choices=completion.choices,
        temperature=completion.temperature,
        fingerprint=completion.fingerprint,
    )
