import pytest

from practicum_envs.writing.brief import Brief, Fact
from practicum_envs.writing.stated_facts import TextReading, read_text

BRIEF = Brief(
    family="made-up",
    text_kind="notice",
    audience="all neighbors",
    facts=(
        Fact(key="topic", label="event", kind="phrase", value="book sale"),
        Fact(key="day", label="day", kind="date", value="Saturday, 14 March", cues=("on", "held")),
        Fact(
            key="by", label="sign up by", kind="date", value="Friday, 6 March", cues=("sign", "by")
        ),
        Fact(key="people", label="people", kind="count", value="12 volunteers"),
        Fact(key="start", label="start", kind="time", value="10 am"),
        Fact(key="fee", label="fee", kind="money", value="$45"),
        Fact(key="host", label="host", kind="person", value="Lena Fox"),
        Fact(key="place", label="place", kind="place", value="Alder Hall"),
        Fact(key="bring", label="to bring", kind="phrase", value="a warm coat"),
    ),
    private=(Fact(key="rent", label="rent", kind="money", value="$400"),),
)


def read(text: str) -> TextReading:
    return read_text(BRIEF, (text,))


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("The book sale is held on 14 March.", {"topic", "day"}),
        ("It is held on Saturday, March 14th; please sign up by March 6.", {"day", "by"}),
        ("Twelve eager volunteers will be there at ten o'clock.", {"people", "start"}),
        ("The fee of forty-five dollars goes to Lena Fox.", {"fee", "host"}),
        ("Come to Alder Hall and bring a warm coat.", {"place", "bring"}),
        ("Are you coming to the book sale?", {"topic"}),
    ],
)
def test_a_fact_is_stated_in_any_words(text: str, stated: set[str]) -> None:
    found = read(text)
    assert found.stated == stated
    assert found.invented == ()


@pytest.mark.parametrize(
    "text",
    [
        "Book sale, Saturday, 14 March, 10 am, Alder Hall, $45.",
        "day: Saturday, 14 March.",
        "It is not held on Saturday, 14 March.",
        "Is it held on Saturday, 14 March?",
        "The sale is held on the 14 of it.",
        "It is $45.",
        "sale the a of held on 14 March is.",
        "It is held on Sunday, 14 March.",
        "Come with 12 friends.",
    ],
    ids=["list", "label", "denied", "asked", "half", "bare", "salad", "weekday", "unit"],
)
def test_a_value_alone_states_nothing(text: str) -> None:
    assert read(text).stated <= {"topic"}


def test_two_dates_that_change_places_are_not_stated() -> None:
    assert read("It is held on 6 March, and you sign up by 14 March.").stated == set()


@pytest.mark.parametrize(
    ("text", "invented"),
    [
        ("It costs $46 today.", ["$46"]),
        ("It costs fifty dollars today.", ["fifty dollars"]),
        ("We meet on Sunday and in July.", ["Sunday", "July"]),
        ("It starts at half past nine.", ["half past nine"]),
        ("There are seventeen prizes.", ["seventeen"]),
        ("Twelve prizes are waiting for you.", ["Twelve"]),
        ("Karla will sing with Mark Brixton.", ["Karla", "Mark Brixton"]),
        ("It is run by the Green Club.", ["Green Club"]),
        ("we go with karla there.", ["karla"]),
        ("Write to other@place.example now.", ["other@place.example"]),
        ("Come tomorrow to the sale.", ["tomorrow"]),
        ("About 20 percent come back.", ["20 percent"]),
    ],
)
def test_what_is_made_up_is_found(text: str, invented: list[str]) -> None:
    assert list(read(text).invented) == invented


@pytest.mark.parametrize(
    "text",
    [
        "Dear Neighbors, we meet on Saturday in March.",
        "Lena will be there, and Ms. Fox is the host.",
        "The Book Sale is OPEN to all.",
        "I'll be there, and one of you may come too.",
        "Will you come? Mark the day. Hope to see you.",
    ],
)
def test_what_the_brief_gives_is_not_made_up(text: str) -> None:
    assert read(text).invented == ()


def test_a_secret_is_told_in_any_form() -> None:
    assert read("The rent is 400 dollars.").told == {"rent"}
    assert read("rent, four hundred dollars").told == {"rent"}
    assert read("The fee is $45.").told == set()
