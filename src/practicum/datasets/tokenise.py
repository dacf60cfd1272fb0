r"""Conversations recorded as text, to tokens with a mask of what is learned from.

    <|im_start|>user\nSolve x + 1 = 3<|im_end|>\n<|im_start|>assistant\n     given
    add_terms -1<|im_end|>                                                  learned from
    \n<|im_start|>user\nx = 2<|im_end|>\n<|im_start|>assistant\n             given
    state_answer<|im_end|>                                                  learned from

The tokens are those the model would have been given and would have sampled in the same
conversation: given parts are opened and extended by the codec that rollouts use.
"""

from collections.abc import Sequence

import numpy as np

from practicum.core.errors import UserError
from practicum.core.example import Example, TokenisedExample
from practicum.core.interfaces import ChatCodec
from practicum.core.trace import Message

__all__ = ["tokenise"]


def tokenise(example: Example, codec: ChatCodec, *, model: str = "") -> TokenisedExample:
    """The tokens of an example and which of them are learned from.

    Args:
        example: The conversation. What follows its last assistant turn is left out: nothing is
            predicted from it.
        codec: The codec of the model to be trained.
        model: That model's name. Tokens that it sampled itself are used as they are; those of
            another model mean nothing to it, so the text is tokenised.
    """
    if example.token_ids and model and example.tokens_of == model:
        return _tokenised(example.token_ids, example.loss_mask, example.id)
    ids: list[int] = []
    mask: list[bool] = []
    pending: list[Message] = []
    spoken = False
    for index, message in enumerate(example.messages):
        greets = not spoken and index < example.opening and not _is_asked(pending)
        if message.role != "assistant" or greets:
            pending.append(message)
            continue
        if spoken:
            given: Sequence[int] = codec.extend(pending, True)
        else:
            given = codec.open(pending, example.tools)
        said = codec.write(message)
        ids += [*given, *said]
        learned = index >= example.opening and index not in example.shown
        mask += [False] * len(given) + [learned] * len(said)
        pending, spoken = [], True
    return _tokenised(ids, mask, example.id)


def _is_asked(messages: Sequence[Message]) -> bool:
    """Whether there is anything to answer; templates open no conversation with an answer."""
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
