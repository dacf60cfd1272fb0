"""Whatever a policy wrote and a grader cannot read is not passed; only a grader's fault masks."""

import dataclasses
import json
import random
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.sandboxes.fake_sandbox import FakeSandbox
from practicum_envs.office import evidence, office_grading
from practicum_envs.office.companies import Companies
from practicum_envs.office.company_state import COLLEAGUE_FAULTS, FAULTS
from practicum_envs.office.evidence import (
    Evidence,
    Unreadable,
    is_rounded,
    json_of,
    record_of,
    rows_of,
)
from practicum_envs.office.families.all_families import families
from practicum_envs.office.office_client import OfficeError
from practicum_envs.office.office_plan import Checkpoint
from practicum_envs.office.tests.graded_families import Desk, desk

FAMILIES = families()
HELD_OUT = sorted(name for name, one in FAMILIES.items() if one.split == "heldout")
UNREADABLE = {
    "a bare CR in a csv file": b"id,total\r1,2\r",
    "a field of 200 kB": b"id," + b"x" * 200_000 + b"\n",
    "JSON of any depth": b"[" * 100_000,
    "a number of 400 digits": b'{"total": ' + b"9" * 400 + b"}",
}
MORE = {
    "a number of 5,000 digits": b"9" * 5000,
    "NULs": b"id,\0total\n\0,\0",
    "a lone surrogate": b"\xed\xa0\x80,\xed\xbf\xbf\n",
    "an escaped surrogate": b'{"total": "\\ud800", "customer": "\\udfff"}',
    "what is no number": b'{"total": NaN, "mean": Infinity, "std": -1e999}',
    "numbers beyond floats": b"[1e999, -1e999, 1e-999]",
    "a quote without end": b'"never closed,\n1,2\n',
    "UTF-16": "id,total\n1,2\n".encode("utf-16"),
    "nothing": b"",
    "short rows": b"a\nb\n\nc\n",
    "days that are none": b"0000-00-00,99999-13-45,-1-1-1\n",
    "lists for objects": b'[[{"total": []}]]',
    "a deep object": b'{"a":' * 900 + b"1" + b"}" * 900,
    "a byte order mark": b"\xef\xbb\xbfid,total\n",
    "YAML that refers to itself": b"a: &a [*a, *a]\n",
    "a program": b"import os\nos._exit(0)\n",
    "random bytes": random.Random(0).randbytes(20_000),
}


def spoilt(companies: Companies, family: str, contents: dict[str, bytes]) -> None:
    with desk(companies, FAMILIES[family]) as found:
        paths = found.read_files()
        for name, content in contents.items():
            found.spoil(content, paths)
            outcome = found.grade(said=content[:2000].decode(errors="replace"), answer=name)
            assert outcome.success is False, name
            json.dumps(outcome.evidence, ensure_ascii=False).encode()
            assert not found.was_tried_in_fresh, f"{name}: a reader lets something through"


@pytest.mark.parametrize("family", HELD_OUT)
def test_what_cannot_be_read_is_not_passed(companies: Companies, family: str) -> None:
    spoilt(companies, family, UNREADABLE)


@pytest.mark.rare
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_nothing_that_is_written_masks_an_episode(companies: Companies, family: str) -> None:
    spoilt(companies, family, {**UNREADABLE, **MORE})


@given(st.binary() | st.text(alphabet='[]{}",:\r\n\0019e.-').map(str.encode))
def test_readers_of_policies_files_read_them_or_say_unreadable(content: bytes) -> None:
    for read in (rows_of, json_of, record_of):
        try:
            read(content)
        except Unreadable:
            continue


@given(st.integers() | st.floats() | st.text() | st.just(10**400) | st.just("9" * 400), st.floats())
def test_any_number_is_rounded_or_not(value: object, exact: float) -> None:
    assert is_rounded(value, exact, 2) in (True, False)


def with_checkpoint(found: Desk, passes: object) -> None:
    more = Checkpoint(says="it holds", passes=passes)  # type: ignore[arg-type]
    found.plan = dataclasses.replace(found.plan, checkpoints=(more,))


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("division by zero"),
        RecursionError("too deep"),
        MemoryError("too much"),
        OfficeError(500, "Internal Server Error"),
        ConnectionResetError("gone"),
        KeyError("\ud800\0"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_checkpoint_that_only_what_was_left_stops_is_not_passed_and_says_why(
    companies: Companies, error: Exception
) -> None:
    def fails_once_something_was_done(seen: Evidence) -> bool:
        if seen.trajectory:
            raise error
        return False

    with desk(companies, FAMILIES["announce-in-channel"]) as found:
        with_checkpoint(found, fails_once_something_was_done)
        outcome = found.grade(said="ls")
        assert found.was_tried_in_fresh
    assert outcome.success is False
    assert "not so: it holds (" in json.dumps(outcome.evidence, ensure_ascii=False)
    json.dumps(outcome.evidence, ensure_ascii=False).encode()


def test_a_checkpoint_that_fails_by_itself_masks(companies: Companies) -> None:
    with desk(companies, FAMILIES["announce-in-channel"]) as found:
        with_checkpoint(found, lambda seen: {}["no such cell"])
        with pytest.raises(EnvironmentFailure, match="KeyError: 'no such cell'"):
            found.grade(said="ls")


def test_a_grading_that_only_what_was_left_holds_up_is_not_passed(
    companies: Companies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(office_grading, "GRADING_S", 2.0)
    released = threading.Event()

    def ends(seen: Evidence) -> bool:
        return bool(seen.trajectory) and released.wait(60)

    with desk(companies, FAMILIES["announce-in-channel"]) as found:
        first = Checkpoint(says="it is quick", passes=lambda seen: True)
        last = Checkpoint(says="it ends", passes=ends)
        found.plan = dataclasses.replace(found.plan, checkpoints=(first, last))
        outcome = found.grade(said="ls")
        assert found.was_tried_in_fresh
        released.set()
    assert [one["result"] for one in outcome.evidence["checkpoints"]] == [1, 0, 0]  # type: ignore[index, union-attr, call-overload]
    assert "did not end in 2 s" in json.dumps(outcome.evidence)


def test_more_files_than_anyone_reads_are_not_read(
    companies: Companies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "MOST_FILES", 3)
    with desk(companies, FAMILIES["fix-a-function"]) as found:
        [project] = found.plan.company.projects
        with_checkpoint(found, lambda seen: len(seen.repository(project.path)) == 3)
        assert found.grade().success is True
        route = f"projects/{project.path.replace('/', '%2F')}/repository/files/more"
        change = {"branch": "main", "commit_message": "more", "content": "x"}
        found.company.office.gitlab("POST", route, change)
        assert "has more than 3" in json.dumps(found.grade().evidence)


def test_the_answer_and_the_trajectory_may_hold_anything(companies: Companies) -> None:
    with desk(companies, FAMILIES["announce-in-channel"]) as found:
        assert found.grade(said="\ud800\0", answer="\udfff" * 3).success is False


def test_shares_are_read_whatever_the_agent_did_to_its_password(companies: Companies) -> None:
    with desk(companies, FAMILIES["share-an-offer"]) as found:
        headers = {"X-Office-User": "theagentcompany"}
        fields = b"key=password&value=other"
        found.company.office.request(
            "owncloud", "PUT", "/ocs/v1.php/cloud/users/theagentcompany", fields, headers
        )
        assert found.grade().success is False
        assert not found.was_tried_in_fresh


class GoneSandbox(FakeSandbox):
    """A machine that answers nothing any more."""

    async def read(self, path: str, limit: int = 0) -> bytes:
        raise EnvironmentFailure("the sandbox is gone")


def gone(status: CommandStatus) -> GoneSandbox:
    return GoneSandbox(lambda ran: CommandResult(status=status, exit_code=None))


def test_a_machine_that_the_policy_broke_is_its_failure_and_one_that_died_masks(
    companies: Companies,
) -> None:
    with desk(companies, FAMILIES["count-an-invoice"]) as found:
        found.box = gone(CommandStatus.BROKEN)
        assert found.grade().success is False
        found.box = gone(CommandStatus.DIED)
        with pytest.raises(EnvironmentFailure, match="the machine is gone"):
            found.grade()


def test_words_of_the_policy_in_a_services_fault_are_no_fault_of_a_colleague(
    companies: Companies,
) -> None:
    with desk(companies, FAMILIES["announce-in-channel"]) as found:
        folder = Path(found.company.office._door).parent
        (folder / FAULTS).write_text("a colleague's model gave no answer: ann_lee: TimeoutError")
        assert found.grade().success is False
        (folder / COLLEAGUE_FAULTS).write_text("a colleague's model gave no answer: ann_lee")
        with pytest.raises(EnvironmentFailure, match="gave no answer: ann_lee"):
            found.grade()
