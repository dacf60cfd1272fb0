"""The limit of an episode that a program's error may come from."""

import time

import pytest
from tests.unit.gateway.pieces import CharacterCodec, SlowSampler

from practicum.core.conversation import Endpoint, RolloutLimits
from practicum.core.sampling import SamplingParams
from practicum.core.trace import StopReason
from practicum.gateway.rollout_server import ProgramConversation, ReachedConversation
from practicum.gateway.rollouts import OpenRollouts


@pytest.mark.parametrize(
    ("is_late", "is_full", "turns", "met"),
    [
        (False, False, 0, None),
        (False, False, 3, StopReason.MAX_TURNS),
        (False, True, 1, StopReason.CONTEXT_FULL),
        # A first request that does not fit is the program's mistake, and told as its error.
        (False, True, 0, None),
        # The gateway refuses a request a moment before the rollout's own deadline.
        (True, False, 0, StopReason.TIMED_OUT),
        (True, True, 3, StopReason.TIMED_OUT),
    ],
)
def test_the_limit_that_was_met(
    is_late: bool, is_full: bool, turns: int, met: StopReason | None
) -> None:
    params, sampler = SamplingParams(max_tokens=8), SlowSampler(lambda request: "yes")
    conversation = ProgramConversation(sampler, CharacterCodec(), params, 1)
    conversation.is_full = is_full
    rollout = OpenRollouts().open(conversation, RolloutLimits(max_turns=3, deadline_s=60.0))
    rollout.use.turns = turns
    rollout.use.opened = time.monotonic() - (61.0 if is_late else 0.0)
    address = Endpoint(url="http://127.0.0.1:9", key="k")
    reached = ReachedConversation(conversation=conversation, rollout=rollout, address=address)
    assert reached.limit_met() is met
