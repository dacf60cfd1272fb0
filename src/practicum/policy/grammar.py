"""JSON schemas, and turns that hold such JSON, as grammars over tokens; compiled by llguidance.

A grammar only says which tokens may come next. It knows nothing of probabilities, so what is drawn
under it is drawn from the model's own distribution, restricted to what is allowed.
"""

import json
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.core.errors import MissingExtra, UserError
from practicum.core.sample import Bools
from practicum.core.turn_forms import CallsForm, ThoughtForm
from practicum.policy.turn_grammar import call_rules, json_rules

if TYPE_CHECKING:
    from practicum.core.sampling import GrammarWalk, TokenGrammar

__all__ = ["JsonGrammars"]

ANY_OBJECT: Mapping[str, Any] = {"type": "object"}

MAX_COMPILED = 128
"""Schemas kept compiled; the one that was not used for longest goes first."""

MAX_REASON = 200
"""Characters of the compiler's own words in a message."""

WRITING: Any = {
    "whitespace_pattern": r"( |\n[ \t]{0,16})",
    "json_allow_general_unicode_escapes": True,
}
"""Between two words there may be a blank, or a line break and an indent: small models get lost
where any blanks will do. Any character may be written as an escape."""


class JsonGrammars:
    """The grammars of one tokenizer; equal schemas are compiled once.

    What `of` gives goes into `SamplingRequest.grammar`, as often as it is wanted. It may be called
    from any thread, so that an event loop need not wait for a large schema.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._tokens: Any = None  # made when it is first needed: a large vocabulary takes a second
        self._compiled: dict[str, _JsonGrammar] = {}
        self._lock = threading.Lock()

    def of(
        self, schema: Mapping[str, Any] | None = None, thought: ThoughtForm | None = None
    ) -> "TokenGrammar":
        """The grammar of a JSON schema, after a thought; without a schema, of any JSON object.

        Properties are written in the order in which the schema lists them.

        Raises:
            MissingExtra: llguidance is not installed.
            UserError: the schema is none, or says something that cannot be enforced.
        """
        return self._grammar(*json_rules(ANY_OBJECT if schema is None else schema, thought))

    def calls(self, form: CallsForm, thought: ThoughtForm | None = None) -> "TokenGrammar":
        """The grammar of a turn that calls tools, after a thought.

        Raises:
            MissingExtra: llguidance is not installed.
            UserError: the schema of a tool's arguments cannot be enforced.
        """
        return self._grammar(*call_rules(form, thought))

    def _grammar(self, rules: str, schemas: Mapping[str, Mapping[str, Any]]) -> "_JsonGrammar":
        named = [
            {"name": name, "json_schema": {**schema, "x-guidance": WRITING}}
            for name, schema in schemas.items()
        ]
        try:
            key = json.dumps({"grammars": [{"lark_grammar": rules}, *named]})
        except (TypeError, ValueError, RecursionError) as error:
            raise _refused(str(error)) from None
        with self._lock:
            found = self._compiled.pop(key, None) or self._compile(key)
            self._compiled[key] = found
            if len(self._compiled) > MAX_COMPILED:
                del self._compiled[next(iter(self._compiled))]
        return found

    def _compile(self, grammar: str) -> "_JsonGrammar":
        try:
            from llguidance import LLMatcher
            from llguidance.hf import from_tokenizer
        except ImportError:
            raise MissingExtra.for_extra("gateway", "an answer in the form of a schema") from None
        if self._tokens is None:
            try:
                self._tokens = from_tokenizer(self._tokenizer)
            except ValueError as error:
                raise UserError(
                    f"this model's tokenizer cannot be held to a schema ({_in_short(str(error))}); "
                    "leave out the schema or choose a model with a fast tokenizer"
                ) from None
        matcher = LLMatcher(self._tokens, grammar, log_level=0)
        trial = matcher.deep_copy()
        trial.compute_bitmask()  # some schemas turn out to have no values only when one is begun
        if trial.is_error():
            said = trial.get_error()
            raise _refused("no value has this form" if said.startswith("NoExtension") else said)
        return _JsonGrammar(matcher, self._tokens.eos_token)


class _JsonGrammar:
    """A compiled schema."""

    def __init__(self, matcher: Any, end: int) -> None:
        self._matcher, self._end = matcher, end

    def start(self) -> "GrammarWalk":
        """A walk for one completion."""
        return _JsonWalk(self._matcher.deep_copy(), self._end)


class _JsonWalk:
    """One completion on its way; the matcher falls silent on errors, so each answer is checked."""

    def __init__(self, matcher: Any, end: int) -> None:
        self._matcher, self._end = matcher, end

    def allowed(self) -> Bools:
        """Which tokens may come next; the tokenizer's own end where the value is complete."""
        packed = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        mask = np.unpackbits(packed, bitorder="little").view(np.bool_)
        if mask[self._end] and not self._matcher.is_accepting():
            # Words that have to be written are looked up as tokens, and these are the end's.
            raise UserError(
                "the JSON schema asks for the words of the token that ends this model's turns; "
                "leave them out of the schema"
            )
        return mask

    def advance(self, token: int) -> None:
        """Go on by a sampled token."""
        self._matcher.consume_token(token)
        self._check()

    @property
    def done(self) -> bool:
        """Whether the value is complete and nothing can follow it."""
        return bool(self._matcher.is_stopped())

    def _check(self) -> None:
        if self._matcher.is_error():
            raise UserError(
                f"the JSON schema cannot be followed any further "
                f"({_in_short(self._matcher.get_error())}); make the schema simpler"
            )


def _refused(reason: str) -> UserError:
    return UserError(
        f"the JSON schema cannot be enforced: {_in_short(reason)}; "
        "leave that part out of the schema or ask without one"
    )


def _in_short(reason: str) -> str:
    """The first words of an explanation that may have many lines."""
    words = " ".join(reason.split("<state>")[0].split())
    return words if len(words) <= MAX_REASON else words[:MAX_REASON] + " ..."
