"""Closed rollouts that a full disk does not take, and where they go."""

import json
import secrets
from pathlib import Path

import pytest
from tests.unit.gateway.pieces import say, talk

from practicum.core.conversation import RolloutLimits
from practicum.gateway.requests import ChatRequest, Refused
from practicum.gateway.rollouts import OpenRollouts, RolloutController
from practicum.store.closed_rollouts import EpisodeKeeper, put_aside
from practicum.store.trace_store import SqliteTraceStore


async def test_a_full_disk_is_survived_and_nothing_said_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    with SqliteTraceStore(tmp_path / "traces.sqlite") as store:
        keeper = EpisodeKeeper(store)
        made = RolloutController(OpenRollouts(), lambda seed: talk()[0], keeper.add)
        opened = [made.open(RolloutLimits()) for _ in range(2)]
        for rollout in opened:
            question = say("user", secrets.token_hex(2000))
            await rollout.conversation.respond(ChatRequest(messages=(question,)))
        store._db.execute("PRAGMA max_page_count = 1")  # not below what it has already
        with pytest.raises(Refused, match="disk is full"):
            made.close(opened[0].id)
        store._db.execute("PRAGMA max_page_count = 1000000")
        made.close(opened[0].id)
        store._db.execute("PRAGMA max_page_count = 1")

        made.close_all(lambda episode, why: said.append(put_aside(episode, why)))
        assert [row.trace.id for row in store.query("")] == [f"gateway/{opened[0].id}"]
    assert "disk is full" in said[0]
    assert opened[1].id in said[0]
    [file] = tmp_path.glob("practicum-rollouts-*.jsonl")
    assert str(file) in said[0]
    record = json.loads(file.read_text())
    assert record["episode"]["trace"]["id"] == f"gateway/{opened[1].id}"
