"""The OpenHands SDK, unmodified, as a client of the gateway in a process of its own.

As an agent whose commands run in a sandbox it is tested in tests/integration/test_openhands.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.clients.serving import Served, call, check_recomputed, run_script, serving

from practicum.agents.installation import installed
from practicum.core.conversation import RolloutLimits
from practicum.engine.policy import TorchPolicy

FOUND = installed()
pytestmark = pytest.mark.skipif(
    FOUND is None, reason="needs OpenHands: practicum agents install openhands"
)
SCRIPT = Path(__file__).parent / "scripts" / "openhands_sdk.py"
PATIENCE_S = 150


async def run(served: Served, folder: Path) -> tuple[dict[str, Any], str]:
    """What the script found, and what it complained of."""
    assert FOUND is not None
    command = [str(FOUND.python), "-I", str(SCRIPT)]
    status, said, complained = await run_script(
        command, served, folder, PATIENCE_S, OPENHANDS_SUPPRESS_BANNER="1"
    )
    assert status == 0, complained[-2000:]
    return json.loads(said.strip().splitlines()[-1]), complained


async def test_its_tool_loop_goes_round(policy: TorchPolicy, tmp_path: Path) -> None:
    # A call, then two at once, then the end by its own tool.
    turns = (
        call("add", a=17, b=25),
        f"{call('add', a=1, b=2)}\n{call('think', thought='Once more.')}",
        call("finish", message="The sum is 42."),
    )
    async with serving(policy, turns) as served:
        found, complained = await run(served, tmp_path)
        assert found == {"answer": "The sum is 42.", "called": [[17, 25], [1, 2]]}, complained
        assert served.check_all_recorded() == sum(len(turn.encode()) + 1 for turn in turns)
        assert served.conversation.graph.retokenised == 0
        assert len(served.trace().leaves()) == 1


async def test_every_token_of_the_model_is_recorded(policy: TorchPolicy, tmp_path: Path) -> None:
    async with serving(policy, limits=RolloutLimits(max_turns=4)) as served:
        await run(served, tmp_path)
        assert served.check_all_recorded() > 0
        check_recomputed(policy, served)
