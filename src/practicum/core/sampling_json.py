"""`SamplingRequest` and `Completion` as JSON, for a sampler in another process.

Numbers come back bit for bit. What is code stays behind: listeners, and the syntax of an action's
argument, in whose place the caller asks for one token `among` those that it allows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from practicum.core.errors import UserError
from practicum.core.sampling import (
    ActionForm,
    Completion,
    PortableGrammar,
    SamplingParams,
    SamplingRequest,
    TokenGrammar,
)
from practicum.core.task import JSON

MOST_SEED = 2**64
"""Seeds are below this, so that every process draws the same numbers from them."""


class OneAmong:
    """A `TokenGrammar` of one token out of some."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._mask = np.zeros(max(tokens) + 1, np.bool_)
        self._mask[list(tokens)] = True

    def start(self) -> "OneAmong":
        """Nothing is known of the completion but its first token."""
        return self

    def allowed(self) -> Any:
        """The tokens, as a mask."""
        return self._mask

    def advance(self, token: int) -> None:
        """Nothing changes: one token is asked for."""

    @property
    def done(self) -> bool:
        """False: the token may be any of them."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOrder:
    """What a replica is asked for."""

    request: SamplingRequest
    among: tuple[int, ...] = ()
    """If given, one token is drawn, one of these."""


def is_portable(request: SamplingRequest) -> bool:
    """Whether its actions are data alone."""
    return all(form.argument is None for form in request.actions)


def order_to_json(order: SampleOrder) -> dict[str, JSON]:
    """The order as JSON.

    Raises:
        UserError: its grammar cannot be compiled anywhere else.
    """
    request, told = order.request, dict[str, JSON]()
    if request.grammar is not None:
        if not isinstance(request.grammar, PortableGrammar):
            raise UserError(
                f"a {type(request.grammar).__name__} holds this turn, and it cannot be sent to a "
                "sampler in another process; train with sampler=engine"
            )
        told["grammar"] = request.grammar.source
    if request.actions:
        told["actions"] = [form.name for form in request.actions]
    if order.among:
        told["among"] = list(order.among)
    return {
        "prompt_ids": list(request.prompt_ids),
        "params": {**asdict(request.params), "stop": list(request.params.stop)},
        "drawn": request.drawn,
        "top_logprobs": request.top_logprobs,
        **told,
    }


def request_from_json(
    told: Mapping[str, Any], grammar_of: Callable[[str], TokenGrammar]
) -> SamplingRequest:
    """The request that was written by `order_to_json`; for a replica, which trusts nobody.

    Raises:
        UserError: it is none.
    """
    params = told.get("params")
    if not isinstance(params, Mapping):
        raise UserError("the request has no params; send what order_to_json writes")
    among = _ids(told, "among")
    source = told.get("grammar")
    if source is not None and not isinstance(source, str):
        raise UserError("grammar is not the source of one; send what order_to_json writes")
    grammar = OneAmong(among) if among else grammar_of(source) if source else None
    request = SamplingRequest(
        prompt_ids=_ids(told, "prompt_ids"),
        params=_params(params),
        actions=tuple(ActionForm(name=name) for name in _texts(told, "actions")),
        grammar=grammar,
        drawn=_count(told, "drawn"),
        top_logprobs=_count(told, "top_logprobs"),
    )
    return request if not among else replace(request, params=replace(request.params, max_tokens=1))


def _params(told: Mapping[str, Any]) -> SamplingParams:
    numbers = {name: told.get(name) for name in ("temperature", "top_p")}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise UserError(f"{name} is {value!r:.40}; send a number of at least 0")
    seed = _count(told, "seed")
    if seed >= MOST_SEED:
        raise UserError(f"the seed is {seed}; send one below 2**64")
    return SamplingParams(
        temperature=float(numbers["temperature"] or 0.0),
        top_p=float(numbers["top_p"] or 0.0),
        top_k=_count(told, "top_k"),
        max_tokens=_count(told, "max_tokens"),
        stop=_texts(told, "stop"),
        seed=seed,
    )


def _count(told: Mapping[str, Any], name: str) -> int:
    value = told.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UserError(f"{name} is {value!r:.40}; send a whole number of at least 0")
    return value


def _ids(told: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = told.get(name, [])
    if not isinstance(value, list) or not all(
        type(one) is int and 0 <= one < 1 << 31 for one in value
    ):
        raise UserError(f"{name} is no list of token ids; send what order_to_json writes")
    return tuple(value)


def _texts(told: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = told.get(name, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UserError(f"{name} is no list of texts; send what order_to_json writes")
    return tuple(value)


def completion_to_json(completion: Completion) -> dict[str, JSON]:
    """A completion as JSON."""
    return asdict(completion)


def completion_from_json(told: Mapping[str, Any]) -> Completion:
    """The completion that `completion_to_json` wrote.

    Raises:
        ValueError: it is none.
    """
    try:
        completion = Completion(
            token_ids=tuple(map(int, told["token_ids"])),
            text=str(told["text"]),
            logprobs=tuple(map(float, told["logprobs"])),
            loss_mask=tuple(map(bool, told["loss_mask"])),
            log_kept=tuple(map(float, told["log_kept"])),
            choices=tuple(tuple(map(int, each)) for each in told["choices"]),
            temperature=float(told["temperature"]),
            fingerprint=str(told["fingerprint"]),
            finished=bool(told["finished"]),
            ended_turn=bool(told["ended_turn"]),
            cached_tokens=int(told["cached_tokens"]),
            stopped_by=str(told["stopped_by"]),
            top_logprobs=tuple(
                tuple((int(token), float(value)) for token, value in each)
                for each in told["top_logprobs"]
            ),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is no completion ({error})") from None
    count = len(completion.token_ids)
    parts = (completion.log_kept, completion.choices, completion.top_logprobs)
    if not len(completion.logprobs) == len(completion.loss_mask) == count or any(
        part and len(part) != count for part in parts
    ):
        raise ValueError("it is no completion (its parts are of different lengths)")
    return completion
