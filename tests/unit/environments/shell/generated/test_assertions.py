"""Assertions as records: the checker knows each kind, and nothing is lost on the way."""

import json
from dataclasses import fields

import pytest

from practicum.environments.shell import state_checker
from practicum.environments.shell.generated.assertions import (
    KINDS,
    Ageing,
    Archive,
    Assertion,
    Group,
    Lines,
    Process,
    User,
    assertion_from_json,
    digest,
)


def test_the_checker_knows_exactly_these_kinds() -> None:
    assert set(KINDS) == set(state_checker.CHECKS)


@pytest.mark.parametrize(
    "assertion",
    [
        Lines("/a", ("x", "y"), ordered=False),
        User("ann", uid=5),
        Group("crew", gid_range=(5, 9), members=()),
        Ageing("ann", {"max_days": 5}),
        Archive("/a.zip", "zip", {"b": "text"}),
        Process("/a.pid", ("sleep", "5")),
    ],
)
def test_an_assertion_comes_back_from_json(assertion: Assertion) -> None:
    assert assertion_from_json(json.loads(json.dumps(assertion.to_json()))) == assertion


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_record_has_every_field_and_its_kind(kind: str) -> None:
    values = {field.name: "x" for field in fields(KINDS[kind])}
    assert KINDS[kind](**values).to_json() == {"kind": kind, **values}


def test_a_digest_is_the_sha256() -> None:
    assert digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
