from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.store.run_dir import RunFacts, installed_versions, read_facts, write_facts


def test_facts_come_back_as_written(tmp_path: Path) -> None:
    facts = RunFacts(
        name="x", created_at=0.1, versions=installed_versions(), hardware={"cores": [0, 1]}
    ).with_attempt(from_step=3, threads=2, device="cpu")
    write_facts(tmp_path / "run.json", facts)
    assert read_facts(tmp_path / "run.json") == facts


def test_attempts_are_numbered_from_one() -> None:
    facts = RunFacts(name="x", created_at=0.0, versions={})
    for _ in range(2):
        facts = facts.with_attempt(from_step=0, threads=2, device="cpu")
    assert [a.attempt for a in facts.attempts] == [1, 2]


def test_the_last_start_is_that_of_the_last_attempt() -> None:
    facts = RunFacts(name="x", created_at=5.0, versions={})
    assert facts.last_started_at == 5.0
    started = facts.with_attempt(from_step=0, threads=1, device="cpu")
    assert started.last_started_at == started.attempts[-1].started_at > 5.0


def test_versions_name_python_and_practicum() -> None:
    assert {"python", "practicum", "numpy"} <= installed_versions().keys()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 1}'])
def test_damaged_facts_are_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(UserError, match="is damaged: ") as caught:
        read_facts(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
