"""The stub of vLLM's endpoints answers as vLLM itself did when it was recorded."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.unit.samplers.record_vllm import RECORDINGS, ask_all, build_recorded, prepare
from tests.unit.samplers.replica_servers import served
from tests.unit.samplers.vllm_stub import VllmStub

OPEN = {"permission", "system_fingerprint", "text_offset", "id", "created", "root", "text"}
"""What no run reads; `text` has bytes that are no text."""
DRAWN = ("tokens", "token_ids", "token_logprobs", "top_logprobs", "stop_reason", "finish_reason")
"""What depends on the random numbers, of which vLLM has its own."""


def compare(ours: Any, theirs: Any, *, is_drawn: bool, where: str = "") -> None:
    """The same keys and values, numbers within rounding."""
    name = where.rpartition(".")[2]
    if name in OPEN:
        return
    if is_drawn and name in DRAWN:
        assert type(ours) is type(theirs), where
        return
    if isinstance(theirs, dict):
        assert set(ours) >= set(theirs), where
        for key, value in theirs.items():
            compare(ours[key], value, is_drawn=is_drawn, where=f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for one, other in zip(ours, theirs, strict=True):
            compare(one, other, is_drawn=is_drawn, where=where)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=1e-4), where
    else:
        assert ours == theirs, where


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("recorded") / "made"
    prepare(folder)
    stub = VllmStub(build_recorded)
    with served(stub.app) as [app]:
        return ask_all(app.url, folder)


def test_the_stub_answers_as_vllm_did(answers: list[dict[str, Any]]) -> None:
    recorded = json.loads(RECORDINGS.read_text())
    assert [one["asked"] for one in answers] == [one["asked"] for one in recorded]
    for number, (ours, theirs) in enumerate(zip(answers, recorded, strict=True)):
        where = f"answer {number}"
        assert ours["status"] == theirs["status"], where
        compare(ours["told"], theirs["told"], is_drawn=number in (7, 8), where=where)


def test_vllm_and_the_stub_draw_among_the_allowed_tokens_with_one_distribution(
    answers: list[dict[str, Any]],
) -> None:
    recorded = json.loads(RECORDINGS.read_text())
    [ours], [theirs] = (
        one[8]["told"]["choices"][0]["logprobs"]["top_logprobs"] for one in (answers, recorded)
    )
    assert set(ours) == set(theirs) == {"token_id:97", "token_id:98", "token_id:259"}
    for token, logprob in theirs.items():
        assert ours[token] == pytest.approx(logprob, abs=1e-4)
    assert sum(map(math.exp, theirs.values())) == pytest.approx(1.0, abs=1e-5)
