import stat
from pathlib import Path

import pytest

from practicum.cli.serving_keys import ServingKey
from practicum.cli.serving_keys import choose_key as choose
from practicum.core.errors import UserError
from practicum.core.loopback import is_loopback

KEY_VARIABLE = "PRACTICUM_TEST_KEY"


def choose_key(host: str, file: Path | None) -> ServingKey:
    return choose(host, file, KEY_VARIABLE)


@pytest.fixture(autouse=True)
def no_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_key_is_made_up_once_and_differs_every_time() -> None:
    first, second = choose_key("127.0.0.1", None), choose_key("127.0.0.1", None)
    assert first.is_generated
    assert len(first.key) >= 32
    assert first.key != second.key


def test_a_new_key_goes_to_a_file_only_its_owner_reads_and_is_read_from_there(
    tmp_path: Path,
) -> None:
    file = tmp_path / "key"
    made = choose_key("0.0.0.0", file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = choose_key("0.0.0.0", file)
    assert (again.key, again.is_generated) == (made.key, False)


def test_a_key_file_open_to_others_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("0123456789abcdef")
    file.chmod(0o644)
    with pytest.raises(UserError, match="chmod 600"):
        choose_key("127.0.0.1", file)


def test_another_address_needs_a_key_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="--key-file"):
        choose_key("0.0.0.0", None)
    monkeypatch.setenv(KEY_VARIABLE, "0123456789abcdef")
    assert choose_key("0.0.0.0", None).key == "0123456789abcdef"


@pytest.mark.parametrize("key", ["short", "with space in the middle", "with:colon:0123456789"])
def test_a_key_that_is_weak_or_cannot_be_sent_is_refused(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(UserError, match="16 characters"):
        choose_key("127.0.0.1", None)


def test_a_key_file_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be made"):
        choose_key("127.0.0.1", tmp_path / "nowhere" / "key")
