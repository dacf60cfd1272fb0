"""Completions under way, and what their tokens may be.

Names of actions are a trie over their own tokenisation, so a token that has no alternative is
forced and costs no sampling step. Arguments are written character by character under the form's own
syntax. Grammars say themselves what may follow.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from practicum.core.errors import EnvironmentFailure, UserError, boundary
from practicum.core.sample import Bools, Floats, Ints
from practicum.core.sampling import ActionForm, Completion, GrammarMatcher, SamplingRequest
from practicum.engine.decoder.row_adapters import RowAdapter
from practicum.engine.sampling.draw import Draw, RandomStream


@dataclass(slots=True)
class _Branch:
    children: dict[int, "_Branch"] = field(default_factory=dict)
    name: str | None = None
    """Set where a name is complete, and with it the turn."""
    forms: list[ActionForm] = field(default_factory=list)
    """Those whose name and space are complete, so that their argument begins."""

    def extend(self, tokens: Sequence[int]) -> "_Branch":
        """The branch at the end of these tokens, made where there is none."""
        branch = self
        for token in tokens:
            branch = branch.children.setdefault(token, _Branch())
        return branch


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument under way."""

    form: ActionForm
    written: str = ""
    begun: tuple[int, ...] = ()
    """Tokens of its next character, where a character takes several and some are there."""


class ActionTrie:
    """The token trie of a set of actions; one is shared by all turns that offer the same set.

    Names are text, whatever they look like: `<|im_end|>` is never the token that ends a turn. What
    was chosen is known by its form, so a tokenizer need not give a name back as it was.

    Raises:
        UserError: the tokenizer cannot write the actions, or not so that they differ.
    """

    def __init__(self, forms: Sequence[ActionForm], tokenizer: Any, end_of_turn: int) -> None:
        self.end_of_turn = end_of_turn
        self._tokenizer = tokenizer
        self._characters: dict[str, tuple[int, ...]] = {}
        self._forms = sorted(forms, key=lambda form: -len(form.name))
        self.root = _Branch()
        self.longest = 0
        """Tokens of the longest action without its argument, the end of the turn included."""
        for form in forms:
            self._add(form)

    def _add(self, form: ActionForm) -> None:
        tokens = self._name(form)
        self.longest = max(self.longest, len(tokens) + 1)
        branch = self.root.extend(tokens)
        if form.argument is not None:
            branch.forms.append(form)
            return
        other = branch.name
        if other not in (None, form.name):
            raise UserError(
                f"the model's tokenizer writes the actions {other!r} and {form.name!r} with the "
                "same tokens; give one of them another name"
            )
        branch.name = form.name
        branch.children[self.end_of_turn] = _Branch()

    def _name(self, form: ActionForm) -> list[int]:
        """The tokens of a name, and of the space before its argument."""
        tokens = self._encode(form.name)
        if self.end_of_turn in tokens or (form.name and not tokens):
            raise UserError(
                f"the model's tokenizer cannot write the action {form.name!r}; give it another name"
            )
        return tokens if form.argument is None else [*tokens, *self.character(" ")]

    def spellings(self, text: str) -> Iterator[list[int]]:
        """A turn as tokens, to its end, by each action that it may be: the longest name first."""
        for form in self._forms:
            if form.argument is None and text == form.name:
                yield [*self._name(form), self.end_of_turn]
            elif form.argument is not None and text.startswith(f"{form.name} "):
                argument = [self.character(c) for c in text[len(form.name) + 1 :]]
                yield [*self._name(form), *chain(*argument), self.end_of_turn]

    def character(self, character: str) -> tuple[int, ...]:
        """The tokens of a single character, wherever in an argument it stands.

        A tokenizer may write it otherwise where a text begins, so what counts is how it reads
        behind other text.
        """
        if character not in self._characters:
            self._characters[character] = self._find_character(character)
        return self._characters[character]

    def _find_character(self, character: str) -> tuple[int, ...]:
        for before in ("", "\n", "0", "a"):
            lead = self._encode(before)
            tokens = self._encode(before + character)
            added = tokens[len(lead) :]
            if added and tokens[: len(lead)] == lead and self._reads_as(added, character):
                return tuple(added)
        raise UserError(
            f"the model's tokenizer has no token for the character {character!r} of an action's "
            "argument; leave it out of `allowed`, or use another model"
        )

    def _reads_as(self, tokens: list[int], character: str) -> bool:
        lead = self._encode("0")
        return self._decode([*lead, *tokens]) == self._decode(lead) + character

    def _encode(self, text: str) -> list[int]:
        return list(
            self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        )

    def _decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, clean_up_tokenization_spaces=False))


class ChoiceWalk:
    """Where one completion stands in a trie."""

    def __init__(self, trie: ActionTrie) -> None:
        self._trie = trie
        self._branch: _Branch | None = trie.root
        self._arguments: list[_Argument] = []
        self._next: dict[int, list[_Argument]] = {}
        self._complete: str | None = None
        self.text: str | None = None
        """The action, once it is complete."""
        self._begin_arguments()

    @property
    def done(self) -> bool:
        """Whether an action is complete."""
        return self.text is not None

    def allowed(self) -> tuple[int, ...]:
        """Token ids that may come next, in ascending order.

        Raises:
            EnvironmentFailure: the syntax of an argument failed or leads nowhere.
        """
        names = {} if self._branch is None else self._branch.children
        if not self._arguments:
            return tuple(sorted(names))
        self._next, self._complete = {}, None
        for argument in self._arguments:
            self._look_on(argument)
        ends = () if self._complete is None else (self._trie.end_of_turn,)
        return tuple(sorted({*names, *self._next, *ends}))

    def _look_on(self, argument: _Argument) -> None:
        form, written, begun = argument.form, argument.written, argument.begun
        assert form.argument is not None
        with boundary(EnvironmentFailure, f"the syntax of {form.name!r}"):
            following = form.argument(written)
            spelled = {one: self._trie.character(one) for one in following.allowed}
        for character, tokens in spelled.items():
            if tokens[: len(begun)] == begun:
                now = tokens[: len(begun) + 1]
                whole = _Argument(form, written + character)
                then = whole if now == tokens else _Argument(form, written, now)
                reached = self._next.setdefault(now[-1], [])
                reached += [] if then in reached else [then]
        if following.may_end and not begun:
            self._complete = f"{form.name} {written}"
        elif not following.allowed:
            raise EnvironmentFailure(f"the syntax of {form.name!r} has no way on after {written!r}")

    def advance(self, token: int) -> None:
        """Take one of the allowed tokens."""
        if token == self._trie.end_of_turn:
            named = None if self._branch is None else self._branch.name
            self.text = self._complete if named is None else named
            return
        self._arguments = self._next.get(token, [])
        self._next, self._complete = {}, None
        if self._branch is not None:
            self._branch = self._branch.children.get(token)
            self._begin_arguments()

    def _begin_arguments(self) -> None:
        if self._branch is not None:
            self._arguments += [_Argument(form) for form in self._branch.forms]


def check_actions(forms: Sequence[ActionForm], tokenizer: Any, max_tokens: int) -> None:
    """Raise `UserError` for actions that a model with this tokenizer could not choose."""
    trie = ActionTrie(forms, tokenizer, end_of_turn=-1)
    if trie.longest > max_tokens:
        longest = max((form.name for form in forms), key=len)
        raise UserError(
            f"the action {longest!r:.80} takes {trie.longest} tokens and rollouts.max_tokens is "
            f"{max_tokens}; write rollouts.max_tokens={trie.longest}, or give it a shorter name"
        )
    for form in [one for one in forms if one.argument is not None]:
        following = ""
        with suppress(Exception):  # user code; episodes tell what it raises
            following = form.argument("").allowed  # type: ignore[misc]
        for character in following:
            trie.character(character)


def spell(trie: ActionTrie, text: str) -> tuple[list[int], list[tuple[int, ...]]]:
    """The tokens with which a choice writes an action, and what each of them is chosen among.

    A tokenizer would write it otherwise: it has one token for a space and a minus sign.
    """
    for tokens in trie.spellings(text):
        walk, choices = ChoiceWalk(trie), []
        for token in tokens:
            choices.append(walk.allowed())
            if token not in choices[-1]:
                break
            walk.advance(token)
        if walk.text == text:
            return tokens, choices
    raise UserError(f"the turn {text!r} is none of the actions that its session allows")


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


@dataclass(eq=False, slots=True)
class TokenRun:
    """Consecutive cached tokens without a branch between them."""

    tokens: Ints
    slots: Ints
    parent: "TokenRun | None"
    children: dict[int, "TokenRun"] = field(default_factory=dict)
    holders: int = 0
    last_used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The longest cached prefix of a path."""

    slots: Ints
    run: TokenRun


@dataclass(eq=False, slots=True)
class PendingCompletion:
    """A request, what has been sampled for it, and where its tokens are cached."""

    request: SamplingRequest
    future: "asyncio.Future[Completion]"
    stream: RandomStream
    walk: ChoiceWalk | None
    tokens: list[int]
    """Prompt and everything sampled since."""
    adapter: RowAdapter | None = None
    """The row's own, over the engine's weights."""
    grammar: GrammarMatcher | None = None
    match: Match | None = None
    """The part of the path that the prefix cache knows; held while the row is active."""
    tail: list[int] = field(default_factory=list)
    """Slots of the tokens after that part, this row's own."""
    cached_tokens: int = 0
    logprobs: list[float] = field(default_factory=list)
    log_kept: list[float] = field(default_factory=list)
    loss_mask: list[bool] = field(default_factory=list)
    choices: list[tuple[int, ...]] = field(default_factory=list)
    ended_turn: bool = False
    finished: bool = False
    text: str = ""
    allowed: tuple[int, ...] = ()
    """Token ids that may come next, where the request has actions, or a grammar that allows few."""
    begun_with: str = ""
    """Fingerprint of the weights of its first token, where others have followed it."""
    mask: Bools | None = None
    """What the grammar allows next, where that is known already."""
    tops: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    """The likeliest tokens beside each sampled one, where the request asks for them."""
    told: int = 0
    """How many sampled tokens its listener knows of."""
    stopped_by: str = ""
    failure: Exception | None = None
    """What the request's own actions, grammar or listener raised: the answer to it alone."""

    @property
    def cache_key(self) -> int:
        """Added to its tokens in the prefix cache, which adapters do not share."""
        return 0 if self.adapter is None else self.adapter.cache_key

    @property
    def placed(self) -> int:
        """How many of its tokens have a slot."""
        return (self.match.slots.size if self.match is not None else 0) + len(self.tail)

    def count_cached(self) -> None:
        """Note how much of the prompt the cache had; forced tokens after it do not count."""
        self.cached_tokens = max(self.cached_tokens, min(self.placed, len(self.request.prompt_ids)))

    @property
    def path_slots(self) -> Ints:
        """Slots of all placed tokens, in order."""
        assert self.match is not None
        return np.concatenate([self.match.slots, np.asarray(self.tail, np.int64)])

    @property
    def sampled(self) -> list[int]:
        """Tokens of the completion so far."""
        return self.tokens[len(self.request.prompt_ids) :]

    def append(self, token: int, drawn: Draw, allowed: tuple[int, ...]) -> None:
        """Add a sampled token."""
        self.tokens.append(token)
        self.logprobs.append(drawn.logprob)
        self.log_kept.append(drawn.log_kept)
        had_choice = len(allowed) != 1
        self.loss_mask.append(self.request.params.temperature > 0.0 and had_choice)
        self.choices.append(allowed)
        self.mask = None
        if self.walk is not None:
            self.walk.advance(token)

    def append_certain(self, token: int) -> None:
        """Add a token that has no alternative."""
        self.append(token, Draw(0, 0.0, 0.0), (token,))
        if self.request.top_logprobs:
            self.tops.append(((token, 0.0),))

    def extend(self, tokens: Ints, logprobs: Floats, log_kept: Floats) -> None:
        """Add tokens sampled from the whole vocabulary, all at once."""
        count = tokens.size
        self.tokens += tokens.tolist()
        self.logprobs += logprobs.tolist()
        self.log_kept += log_kept.tolist()
        self.loss_mask += [self.request.params.temperature > 0.0] * count
        self.choices += [()] * count

    def append_forced(self) -> None:
        """Add every token that has no alternative, and note the choice that comes after them."""
        assert self.walk is not None
        try:
            while not self.walk.done and not self.is_cut:
                self.allowed = self.walk.allowed()
                if len(self.allowed) != 1:
                    return
                self.append_certain(self.allowed[0])
        except Exception as error:  # noqa: BLE001 - actions are user code
            self.failure = error
        self.finished = self.ended_turn = self.walk.done

    @property
    def is_ready(self) -> bool:
        """Whether all it needs is its next token, from the whole vocabulary."""
        return self.walk is None and self.match is not None and len(self.tokens) == self.placed + 1

    @property
    def is_plain(self) -> bool:
        """Whether a token drawn beside the logits, without anybody seeing them, will do for it."""
        request, params = self.request, self.request.params
        # No cut takes the likeliest token away, and that is all that temperature 0 looks for.
        cuts = params.temperature > 0.0 and (params.top_k or params.top_p < 1.0)
        return not cuts and self.grammar is None and not request.top_logprobs

    def tell(self) -> None:
        """Count the new tokens, and hand them to the request's listener, which may fail."""
        begin = len(self.request.prompt_ids) + self.told
        fresh = len(self.tokens) - begin
        if not fresh:
            return
        self.told += fresh
        if self.request.on_sampled is not None:
            self.request.on_sampled(fresh)
        listener = self.request.on_tokens
        if listener is None or self.future.done():
            return
        try:
            listener(tuple(self.tokens[begin:]))
        except Exception as error:  # noqa: BLE001 - listeners are callers' code
            self.failure = error

    @property
    def tokens_left(self) -> int:
        """How many more it may have."""
        return self.request.params.max_tokens - len(self.tokens) + len(self.request.prompt_ids)

    @property
    def is_cut(self) -> bool:
        """Whether it has all the tokens it may have."""
        return self.tokens_left <= 0

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to sample."""
        return self.finished or self.is_cut or self.failure is not None

    def set_text(self, decode: Callable[[list[int]], str]) -> None:
        """Note what it says: the action that was chosen, or its tokens up to a stop."""
        if self.walk is not None and self.walk.text is not None:
            self.text = self.walk.text
            return
        self.text = decode(self.sampled[:-1] if self.ended_turn else self.sampled)
        for stop in self.request.params.stop:
            self.text = self.text.split(stop)[0]

    def completion(self, fingerprint: str) -> Completion:
        """What the caller gets."""
        return Completion(
            token_ids=tuple(self.sampled),
            text=self.text,
            logprobs=tuple(self.logprobs),
            loss_mask=tuple(self.loss_mask),
            log_kept=tuple(self.log_kept) if any(self.log_kept) else (),
            choices=tuple(self.choices) if any(self.choices) else (),
            temperature=self.request.params.temperature,
            fingerprint=fingerprint,
            finished=self.finished,
            ended_turn=self.ended_turn,
            cached_tokens=self.cached_tokens,
            stopped_by=self.stopped_by,
            top_logprobs=tuple(self.tops),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Tokens of one path to be computed in this step."""

    tokens: Ints
    first: int
    """Position of the first of them on its path."""
    path_slots: Ints
    """Slots of the whole path, these tokens included."""
    prefix: int
    """Tokens at the start of the path that other rows may have in common with it."""
    adapter: RowAdapter | None = None

    @property
    def prefix_key(self) -> tuple[int, int]:
        """The same for segments with the same prefix: a slot is on one path only."""
        return (self.prefix, int(self.path_slots[self.prefix - 1]) if self.prefix else -1)
