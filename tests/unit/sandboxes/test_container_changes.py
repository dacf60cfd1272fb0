"""What `diff` of a container engine lists, and whether a checker can be believed after it."""

from hypothesis import given
from hypothesis import strategies as st

from practicum.sandboxes.container_changes import changed_program

KNOWN = {"python3", "bash", "cmp", "[", "su"}
FOLDERS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin", "/usr/local/sbin")
HARMLESS = st.lists(
    st.sampled_from(
        (
            "C /etc",
            "A /etc/passwd-",
            "C /srv",
            "A /usr/local/bin/hello",
            "D /srv/x",
            "A /usr/bin/go",
        )
    )
)


@given(HARMLESS, st.sampled_from(sorted(KNOWN)), st.sampled_from(FOLDERS), st.sampled_from("ACD"))
def test_a_program_of_the_system_is_missed_in_no_folder_and_in_no_listing(
    others: list[str], name: str, folder: str, how: str
) -> None:
    listing = "\n".join((*others, f"C {folder}", f"{how} {folder}/{name}"))
    assert changed_program(listing, KNOWN) == (f"{folder}/{name}", how)


@given(HARMLESS)
def test_what_tasks_ask_for_is_let_be(others: list[str]) -> None:
    assert changed_program("\n".join(others), KNOWN) == ("", "")


def test_a_folder_that_became_something_else_is_seen() -> None:
    assert changed_program("C /usr/sbin\nA /srv/x\n", KNOWN) == ("/usr/sbin", "C")


def test_where_the_names_are_not_known_only_usr_local_may_get_programs() -> None:
    assert changed_program("A /usr/local/bin/hello\n", ()) == ("", "")
    assert changed_program("A /usr/bin/hello\n", ()) == ("/usr/bin/hello", "A")
