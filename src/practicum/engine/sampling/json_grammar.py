"""JSON schemas, and turns that hold such JSON, as grammars over tokens; compiled by llguidance.

A grammar only says which tokens may come next. It knows nothing of probabilities, so what is drawn
under it is drawn from the model's own distribution, restricted to what is allowed.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.core.byte_bound_cache import ByteBoundCache
from practicum.core.errors import MissingExtra, UserError
from practicum.core.sample import Bools
from practicum.core.sampling import CallsForm, Spelling, ThoughtForm

if TYPE_CHECKING:
    from practicum.core.sampling import GrammarMatcher, TokenGrammar

Rules = tuple[str, Mapping[str, Mapping[str, Any]]]
"""The rules, and the JSON schemas that they name."""

JSON_NAME = "json"
"""The name of the schema of an answer, among those of tools' arguments."""

ANY_TEXT = "/(?s:.*)/"


def json_rules(
    schema: Mapping[str, Any], thought: ThoughtForm | None = None, calls: CallsForm | None = None
) -> Rules:
    """JSON that a schema allows, or else calls of tools.

    >>> json_rules({"type": "object"})
    ('start: @json', {'json': {'type': 'object'}})
    """
    rules, schemas = _answer_rules("@json", thought, calls)
    return rules, {JSON_NAME: schema, **schemas}


def choice_rules(
    texts: Sequence[str], thought: ThoughtForm | None = None, calls: CallsForm | None = None
) -> Rules:
    """One of several texts, or else calls of tools.

    >>> choice_rules(["yes", "no"])[0]
    'start: ("yes" | "no")'
    """
    any_text = " | ".join(_spelled((text,)) for text in texts)
    return _answer_rules(f"({any_text})", thought, calls)


def _answer_rules(answer: str, thought: ThoughtForm | None, calls: CallsForm | None) -> Rules:
    body, schemas = ([], {}) if calls is None else _bare_calls(calls) or _calls(calls)
    either = f"(calls | {answer})" if calls is not None else answer
    rules = [f"start: {_before(thought)}{either}", *body, *_thought_rules(thought)]
    return "\n".join(rules), schemas


def call_rules(form: CallsForm, thought: ThoughtForm | None = None) -> Rules:
    """Calls of tools."""
    body, schemas = _calls(form)
    return "\n".join([f"start: {_before(thought)}calls", *body, *_thought_rules(thought)]), schemas


Body = tuple[list[str], dict[str, Mapping[str, Any]]]


def _calls(form: CallsForm) -> Body:
    """The rule `calls` with those it needs, and the schemas of the tools' arguments."""

    def any_call(before: list[Spelling]) -> str:
        return " | ".join(f"{_spelled(text)} @call_{n}" for n, text in enumerate(before))

    more = "later* " if form.many else ""
    rules = [
        f"calls: first {more}{_spelled(form.closing)}",
        f"first: {any_call([call.first for call in form.calls])}",
    ]
    if form.many:
        rules.append(f"later: {any_call([call.later for call in form.calls])}")
    return rules, {f"call_{n}": call.arguments for n, call in enumerate(form.calls)}


def _bare_calls(form: CallsForm) -> Body | None:
    """The same for calls that are JSON objects without tags around them; None for all others.

    Beside other JSON they are schemas too: written out, a call's first words and the `{` of the
    other would be one word with two ends, of which only the longer is read.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for number, call in enumerate(form.calls):
        pieces = (*call.first, "{}", *form.closing)
        text = "".join(piece for piece in pieces if isinstance(piece, str))
        if any(isinstance(piece, int) for piece in pieces) or not text.startswith("{"):
            return None
        try:
            found[f"call_{number}"] = _object_schema(json.loads(text), call.arguments)
        except ValueError:
            return None
    return [f"calls: {' | '.join(f'@{name}' for name in found)}"], found


def _object_schema(call: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a call: as it is, but for its arguments."""
    properties = {key: arguments if one == {} else {"const": one} for key, one in call.items()}
    shared = {key: arguments[key] for key in ("$defs", "definitions") if key in arguments}
    return {
        **shared,  # what the arguments refer to is looked for at the root
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _before(thought: ThoughtForm | None) -> str:
    if thought is None:
        return ""
    return "thought? " if thought.opening else "thought "


def _thought_rules(thought: ThoughtForm | None) -> list[str]:
    if thought is None:
        return []
    opening, behind = _spelled(thought.opening), _spelled((thought.behind,))
    if isinstance(thought.closing, int):  # no text contains a token that stands by itself
        return [f"thought: {opening} words <[{thought.closing}]> {behind}", f"words: {ANY_TEXT}"]
    closing = json.dumps(thought.closing, ensure_ascii=False)
    return [f"thought: {opening} words {behind}", f"words[suffix={closing}]: {ANY_TEXT}"]


def _spelled(text: Spelling) -> str:
    return " ".join(
        f"<[{piece}]>" if isinstance(piece, int) else json.dumps(piece, ensure_ascii=False)
        for piece in text
    )


ANY_OBJECT: Mapping[str, Any] = {"type": "object"}

MOST_SCHEMA = 256 * 1024
"""Characters of a schema, or of those of all tools: more than any provider takes."""

COMPILED_BYTES = 256 * 1024 * 1024
"""Bytes of the schemas kept compiled; the one that was not used for longest goes first."""

BYTES_EACH, BYTES_PER_CHARACTER = 100_000, 400
"""What a compiled schema takes, at most: measured on long constants, the worst there are."""

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
    from any thread, so that an event loop need not wait for a large schema; whoever asks for a
    schema that is being compiled waits for it, and nobody else does.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._tokens: Any = None  # made when it is first needed: a large vocabulary takes a second
        self._reading = threading.Lock()
        self._under_way: dict[str, Future[_JsonGrammar]] = {}
        self._lock = threading.Lock()
        self._compiled: ByteBoundCache[str, _JsonGrammar] = ByteBoundCache(
            self._compile,
            lambda grammar, _: BYTES_EACH + BYTES_PER_CHARACTER * len(grammar),
            most_bytes=COMPILED_BYTES,
        )

    def of(
        self,
        schema: Mapping[str, Any] | None = None,
        thought: ThoughtForm | None = None,
        calls: CallsForm | None = None,
    ) -> "TokenGrammar":
        """The grammar of a JSON schema, after a thought; without a schema, of any JSON object.

        Properties are written in the order in which the schema lists them. With `calls` the turn
        may call tools instead; what cannot be enforced of their arguments is left to the model, as
        it is where no answer has a form.

        Raises:
            MissingExtra: llguidance is not installed.
            UserError: the schema is none, or says something that cannot be enforced.
        """
        asked = ANY_OBJECT if schema is None else schema
        return self._grammar(*json_rules(asked, thought, calls), lenient=calls is not None)

    def choices(
        self,
        texts: Sequence[str],
        thought: ThoughtForm | None = None,
        calls: CallsForm | None = None,
    ) -> "TokenGrammar":
        """The grammar of an answer that is one of several texts, or of calls of tools."""
        return self._grammar(*choice_rules(texts, thought, calls), lenient=calls is not None)

    def calls(self, form: CallsForm, thought: ThoughtForm | None = None) -> "TokenGrammar":
        """The grammar of a turn that calls tools, after a thought.

        Raises:
            MissingExtra: llguidance is not installed.
            UserError: the schema of a tool's arguments cannot be enforced.
        """
        return self._grammar(*call_rules(form, thought))

    def _grammar(
        self, rules: str, schemas: Mapping[str, Mapping[str, Any]], *, lenient: bool = False
    ) -> "_JsonGrammar":
        named = [
            {
                "name": name,
                "json_schema": {
                    **schema,
                    "x-guidance": {**WRITING, "lenient": lenient and name != JSON_NAME},
                },
            }
            for name, schema in schemas.items()
        ]
        try:
            key = json.dumps({"grammars": [{"lark_grammar": rules}, *named]})
        except (TypeError, ValueError, RecursionError) as error:
            raise _refused(str(error)) from None
        if len(key) > MOST_SCHEMA:
            raise UserError(
                f"the JSON schema has {len(key)} characters, and {MOST_SCHEMA} can be enforced; "
                "make it shorter"
            )
        return self.compiled(key)

    def compiled(self, source: str) -> "_JsonGrammar":
        """The grammar of a `source` that another process was given.

        Raises:
            UserError: it is no grammar.
        """
        key = source
        with self._lock:
            known = self._under_way.get(key)
            found = known or self._under_way.setdefault(key, Future())
        if known is None:  # compiled without the lock: others go on meanwhile
            try:
                found.set_result(self._compiled(key))
            except BaseException as error:  # noqa: BLE001 - whoever waits is told too
                found.set_exception(error)
            finally:
                with self._lock:
                    del self._under_way[key]
        return found.result()

    def _compile(self, grammar: str) -> "_JsonGrammar":
        try:
            from llguidance import LLMatcher
            from llguidance.hf import from_tokenizer
        except ImportError:
            raise MissingExtra.for_extra("gateway", "an answer in the form of a schema") from None
        tokens = self._read_tokens(from_tokenizer)
        matcher = LLMatcher(tokens, grammar, log_level=0)
        trial = matcher.deep_copy()
        trial.compute_bitmask()  # some schemas turn out to have no values only when one is begun
        if trial.is_error():
            said = trial.get_error()
            raise _refused("no value has this form" if said.startswith("NoExtension") else said)
        return _JsonGrammar(
            matcher, tokens.eos_token, lambda: self._compiled.drop(grammar), source=grammar
        )

    def _read_tokens(self, read: Callable[[Any], Any]) -> Any:
        """The tokenizer's vocabulary, read once."""
        with self._reading:
            if self._tokens is None:
                try:
                    self._tokens = read(self._tokenizer)
                except ValueError as error:
                    raise UserError(
                        f"this model's tokenizer cannot be held to a schema "
                        f"({_in_short(str(error))}); leave out the schema or choose a model with a "
                        "fast tokenizer"
                    ) from None
            return self._tokens


class _JsonGrammar:
    """A compiled schema."""

    def __init__(
        self, matcher: Any, end: int, drop: Callable[[], None], *, source: str = ""
    ) -> None:
        self._matcher, self._end, self._drop = matcher, end, drop
        self.source = source
        """See `PortableGrammar`."""

    def start(self) -> "GrammarMatcher":
        """A walk for one completion."""
        return _JsonWalk(self._matcher.deep_copy(), self._end, self._drop)


class _JsonWalk:
    """One completion on its way; the matcher falls silent on errors, so each answer is checked.

    A schema that fails is not kept compiled.
    """

    def __init__(self, matcher: Any, end: int, drop: Callable[[], None]) -> None:
        self._matcher, self._end, self._drop = matcher, end, drop

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
            self._drop()
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
