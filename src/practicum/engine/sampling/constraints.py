"""Constrained choice: which tokens may follow, so that a completion has the form asked for.

Names of actions are a trie over their own tokenisation, so a token that has no alternative is
forced and costs no sampling step. Arguments are written character by character under the form's own
syntax. Grammars say themselves what may follow.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from practicum.core.errors import EnvironmentFailure, UserError, boundary
from practicum.core.sample import Bools
from practicum.core.sampling import ActionForm, GrammarMatcher


@dataclass(slots=True)
class _Branch:
    children: dict[int, "_Branch"] = field(default_factory=dict)
    form: ActionForm | None = None
    """Set where a name and its space are complete and the argument begins."""


class ActionTrie:
    """The token trie of a set of actions; one is shared by all turns that offer the same set."""

    def __init__(self, forms: Sequence[ActionForm], tokenizer: Any, end_of_turn: int) -> None:
        self.end_of_turn = end_of_turn
        self._tokenizer = tokenizer
        self._characters: dict[str, int] = {}
        self.root = _Branch()
        for form in forms:
            self._add(form)

    def _add(self, form: ActionForm) -> None:
        tokens = self._encode(form.name)
        if form.argument is not None:
            tokens = [*tokens, self.character(" ")]
        branch = self.root
        for token in tokens:
            branch = branch.children.setdefault(token, _Branch())
        if form.argument is None:
            branch.children[self.end_of_turn] = _Branch()
        else:
            branch.form = form

    def tokens_of(self, text: str) -> list[int]:
        """An action as it is written, to the end of the turn."""
        name, space, argument = text.partition(" ")
        written = [self.character(character) for character in space + argument]
        return [*self._encode(name), *written, self.end_of_turn]

    def character(self, character: str) -> int:
        """The token of a single character."""
        if character not in self._characters:
            tokens = self._encode(character)
            if len(tokens) != 1:
                raise ValueError(f"the tokenizer has no single token for {character!r}")
            self._characters[character] = tokens[0]
        return self._characters[character]

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


class ChoiceWalk:
    """Where one completion stands in a trie."""

    def __init__(self, trie: ActionTrie) -> None:
        self._trie = trie
        self._branch: _Branch = trie.root
        self._form: ActionForm | None = None
        self._argument = ""
        self._next: dict[int, str] = {}
        self.done = False

    def allowed(self) -> tuple[int, ...]:
        """Token ids that may come next, in ascending order.

        Raises:
            EnvironmentFailure: the syntax of an argument failed or leads nowhere.
        """
        if self._form is None:
            return tuple(sorted(self._branch.children))
        assert self._form.argument is not None
        with boundary(EnvironmentFailure, f"the syntax of {self._form.name!r}"):
            following = self._form.argument(self._argument)
            self._next = {self._trie.character(c): c for c in following.allowed}
        ends = (self._trie.end_of_turn,) if following.may_end else ()
        if not self._next and not ends:
            raise EnvironmentFailure(
                f"the syntax of {self._form.name!r} has no way on after {self._argument!r}"
            )
        return tuple(sorted((*self._next, *ends)))

    def advance(self, token: int) -> None:
        """Take one of the allowed tokens."""
        if token == self._trie.end_of_turn:
            self.done = True
        elif self._form is not None:
            self._argument += self._next[token]
        else:
            self._branch = self._branch.children[token]
            self._form = self._branch.form


def spell(trie: ActionTrie, text: str) -> tuple[list[int], list[tuple[int, ...]]]:
    """The tokens with which a choice writes an action, and what each of them is chosen among.

    A tokenizer would write it otherwise: it has one token for a space and a minus sign.
    """
    walk, choices = ChoiceWalk(trie), []
    tokens = trie.tokens_of(text)
    for token in tokens:
        allowed = walk.allowed()
        if token not in allowed:
            raise UserError(f"the turn {text!r} is none of the actions that its session allows")
        choices.append(allowed)
        walk.advance(token)
    return tokens, choices


class GrammarMasks:
    """What grammars allow, as the model sees it.

    A vocabulary may be larger than the tokenizer, and a model may know several tokens that end a
    turn: where a grammar allows any of them, the one that the chat template itself writes is
    allowed, so that the next turn goes on from there as from any other.
    """

    def __init__(self, end_of_turn: int, end_ids: Collection[int]) -> None:
        self._end_of_turn = end_of_turn
        self._end_ids = np.asarray(sorted(end_ids), np.int64)

    def of(self, walk: GrammarMatcher, vocabulary: int) -> Bools:
        """Which tokens of the vocabulary may come next, at least one.

        Raises:
            UserError: the grammar leads nowhere.
        """
        mask = np.zeros(vocabulary, np.bool_)
        if walk.done:
            mask[self._end_of_turn] = True
            return mask
        allowed = walk.allowed()[:vocabulary]
        mask[: allowed.size] = allowed
        may_end = bool(mask[self._end_ids].any())
        mask[self._end_ids] = False
        mask[self._end_of_turn] = may_end
        if not mask.any():
            raise UserError(
                "the grammar allows no token that the model has; make the schema simpler"
            )
        return mask
