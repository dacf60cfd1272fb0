"""Assertions as records: the checker knows each kind, and nothing is lost on the way."""

from dataclasses import fields

import pytest

from practicum_envs.shell import state_checker
from practicum_envs.shell.generated.assertions import (
    KINDS,
    Ageing,
    Archive,
    Assertion,
    GroupsOfUser,
    Lines,
    Process,
    digest,
)


def test_the_checker_knows_exactly_these_kinds() -> None:
    assert set(KINDS) == set(state_checker.CHECKS)


@pytest.mark.parametrize(
    ("assertion", "record"),
    [
        (Lines("/a", ("x",), ordered=False), {"path": "/a", "lines": ["x"], "ordered": False}),
        (Ageing("ann", {"max_days": 5}), {"name": "ann", "values": {"max_days": 5}}),
        (Process("/a.pid", ("sleep", "5")), {"pidfile": "/a.pid", "command": ["sleep", "5"]}),
        (Archive("/a", "zip", {"b": "t"}), {"path": "/a", "format": "zip", "members": {"b": "t"}}),
    ],
)
def test_a_record_is_what_json_gives_back(assertion: Assertion, record: dict[str, object]) -> None:
    assert assertion.to_json() == {"kind": assertion.kind, **record}


def test_a_kind_is_the_name_of_its_class_in_lower_case() -> None:
    assert KINDS["groups_of_user"] is GroupsOfUser


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_record_has_every_field_and_its_kind(kind: str) -> None:
    values = {field.name: "x" for field in fields(KINDS[kind])}
    assert KINDS[kind](**values).to_json() == {"kind": kind, **values}


def test_a_digest_is_the_sha256() -> None:
    assert digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
