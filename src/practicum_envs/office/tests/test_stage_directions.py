"""Colleagues of scenarios: they answer as people, and never read out their directions."""

import re
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum_envs.office.colleagues import ScriptedColleague, model_messages
from practicum_envs.office.company_seed import Colleague, Person
from practicum_envs.office.stage_directions import colleague_of

KIM = Person(username="kim_ray", name="Kim Ray", role="Designer")
RULES = "12 to 16 characters, an uppercase letter, a digit and a special character"


def colleague(hint: str, info: str = "") -> Colleague:
    return colleague_of(KIM, {"extra_info": info, "strategy_hint": hint})


def talk(hint: str, *messages: str, info: str = "") -> list[str]:
    """What Kim says to each of the messages."""
    kim = ScriptedColleague(asdict(colleague(hint, info)), {})
    return [kim.answer(one) for one in messages]


SERIES = (
    "When they first ask you for a new code you should ask for the rules. The first code you "
    "should give them is kim_1. If they ask you for another code, give them k22. Finally, if they "
    "ask you for another code, give them Zebra#4-lamp."
)


def test_a_colleague_asks_first_and_then_tells_one_thing_after_the_other() -> None:
    said = talk(
        SERIES,
        "Hello Kim, may I have a code?",
        "Just tell me your code!",
        f"The rules are: {RULES}.",
        "That has your name in it. Another one, please.",
        "This is too short.",
        "What was it again? Could you repeat that?",
        "Thank you!",
    )
    assert said[0] == said[1] == "Could you tell me the rules first?"
    assert said[2:] == [
        "The code is kim_1",
        "k22",
        "Zebra#4-lamp",
        "Zebra#4-lamp",
        "You are welcome.",
    ]


def test_who_gives_the_rules_with_the_question_is_told_at_once() -> None:
    hint = (
        "When they first ask you for a code you should ask for the rules. "
        "Once they give you the rules give them 'q9#LM' as your code."
    )
    assert talk(hint, f"Your code, please: {RULES}.") == ["My code is q9#LM"]
    assert talk(hint, "Your code, please.") == ["Could you tell me the rules first?"]


SURVEY = (
    "If asked about destination, mention you're considering Oslo, but you haven't decided. For "
    "days, say around 9 days. For budget, start with 700 dollars, but follow up with saying 800 "
    "dollars instead."
)
TRIP = "Someone will ask you about your trip. Only answer the questions they asked."


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Where will you go?", "I am considering Oslo, but I haven't decided."),
        ("Which city will it be?", "I am considering Oslo, but I haven't decided."),
        ("How long will you be away?", "Around 9 days."),
        ("What do you want to spend?", "700 dollars. No, wait: 800 dollars instead."),
        ("How much will your trip cost?", "700 dollars. No, wait: 800 dollars instead."),
    ],
)
def test_each_question_gets_its_own_answer_and_no_more(asked: str, answer: str) -> None:
    assert talk(SURVEY, asked, info=TRIP) == [answer]


def test_several_questions_get_several_answers() -> None:
    [said] = talk(SURVEY, "What are your destination, days and budget?", info=TRIP)
    assert all(one in said for one in ("Oslo", "9 days", "800 dollars"))


HOLIDAY = (
    "Say Lisbon sounds good, but quickly follow up saying Porto instead. For days, mention around "
    "6 days. For budget, say around 900 dollars but could vary."
)
ABOUT_HOLIDAY = "Be prepared to discuss your vacation plans if asked. Only answer what they asked."
MAYBE = "If asked, mention Oslo might be the destination. For budget, say about 700 dollars."


@pytest.mark.parametrize(
    ("hint", "asked", "answers"),
    [
        (HOLIDAY, "Destination, length and cost of your vacation, please?", ("Porto", "6", "900")),
        (HOLIDAY, "What will your vacation cost?", ("900",)),
        (HOLIDAY, "Hi Kim, how many days, and what is your budget for the vacation?", ("6", "900")),
        (MAYBE, "I would like to know the place and your budget.", ("Oslo", "700")),
        (MAYBE, "Where to, and what will it cost?", ("Oslo", "700")),
        (MAYBE, "We make a list of vacations, what is your budget?", ("700",)),
    ],
)
def test_each_thing_of_a_list_in_a_question_is_told_and_nothing_else(
    hint: str, asked: str, answers: tuple[str, ...]
) -> None:
    [said] = talk(hint, asked, info=ABOUT_HOLIDAY)
    every = {"Porto", "6", "900", "Oslo", "700"}
    assert {one for one in every if one in said} == set(answers), said


def test_a_thing_of_a_list_is_not_told_with_all_that_has_one_of_its_words() -> None:
    hint = (
        "Tell them that it is located in the folder /plans with the name week.md. Duties: First, "
        "look after the shop's folder. Second, answer letters. The pay is 9000 dollars."
    )
    info = "Someone will ask you about the location of the plan, the duties and the pay."
    [said] = talk(hint, "Where is the folder of the plan, and what pay is there?", info=info)
    assert "week.md" in said
    assert "9000" in said
    assert "letters" not in said


def test_who_wants_another_try_is_not_told_the_same_once_more() -> None:
    rules = f"The rules are: {RULES}. What is your code?"
    said = talk(SERIES, rules, "It has your name in it: choose something different.",
                "Still not valid, I am afraid - try once more please.")  # fmt: skip
    assert said == ["The code is kim_1", "k22", "Zebra#4-lamp"]


def test_what_a_department_needs_is_asked_for() -> None:
    hint = "When they first ask you for a new code you should ask for the rules."
    assert talk(f"{hint} Once they give you the rules give them 'q9#LM' as your code.",
                "Hello Kim, finance needs a new code of yours.") == [
        "Could you tell me the rules first?"
    ]  # fmt: skip


def test_who_knows_more_is_named_only_to_who_asks_about_it() -> None:
    info = (
        "The code of the shop is in `shop.zip`. The password for unzipping the file is `q1`. "
        "If you need any info about the warehouse, I don't have it but Lee should know."
    )
    said = talk("", "The shop crashes. How do I get the code?", "Who knows the warehouse?",
                info=info)  # fmt: skip
    assert "shop.zip" in said[0]
    assert "Lee" not in said[0]
    assert "Lee should know" in said[1]


def test_what_is_asked_for_first_is_a_reason() -> None:
    hint = (
        "When first asked about holiday plans, ask them why they are asking these questions. "
        "When asked again about holiday destination, mention Lyon, but say it's not sure."
    )
    asked = ("Where do you spend your holiday?", "It is for the survey of our people.")
    assert talk(hint, *asked) == ["Why are you asking these questions?", "Lyon, but it's not sure."]


def test_a_refusal_ends_with_what_it_waits_for() -> None:
    hint = (
        "You have some projects on your hand. You should decline it and introduce Bo as a "
        "candidate. However if someone tell you that Bo is not available, you should accept the "
        "interview."
    )
    said = talk(hint, "Can you do the interview?", "Please!", "Bo says she is too busy.")
    refused = "I have some projects on my hand. I have to decline it. Bo could be a candidate."
    assert said[0] == refused
    assert said[2] == "Yes, I accept the interview."


def test_a_concession_is_made_to_who_asks_for_it() -> None:
    hint = (
        "You should not approve the request for paying the whole bill. But you should agree to "
        "pay half of the bill, which is $90."
    )
    info = "Someone will ask you to pay a late bill."
    first, second = talk(hint, "Can I have this bill paid?", "Then at least half?", info=info)
    assert first == "Sorry, I cannot approve the request for paying the whole bill."
    assert second == "Yes, I agree to pay half of the bill, which is $90."


def test_a_secret_is_kept_from_who_does_not_ask_for_it() -> None:
    hint = "Only express agreement to remove the old servers when explicitly asked about it."
    info = "Someone will inform you about the threat of old servers."
    told, asked = "We have found two old servers.", "Shall we delete the servers?"
    said = talk(hint, told, "How are you?", asked, info=info)
    assert "remove" not in f"{said[0]} {said[1]}"
    assert said[2] == "Yes, I agree to remove the old servers."


def test_a_situation_is_told_in_parts() -> None:
    info = "The code is in the file `app.zip`. The password for the archive is `p4ss`."
    hint = "You should only tell anyone any information if they ask directly for it. Be brief."
    asked = ("Where is the code?", "And how do I open the archive, what is its key?")
    first, second = talk(hint, *asked, info=info)
    assert first == "The code is in the file `app.zip`."
    assert second == "The password for the archive is `p4ss`."


def test_a_section_of_a_list_is_told_whole_and_alone() -> None:
    hint = (
        "You should reply with the following: Key Tasks: First, plan work. Second, draw screens. "
        "Minimum Skills: First, drawing. Second, writing. The salary is 50k."
    )
    said = talk(hint, "What skills do they need at least?", "What do we pay?")
    assert said == ["Minimum Skills: First, drawing. Second, writing.", "The salary is 50k"]


def test_who_receives_a_notice_acknowledges_it_and_who_is_not_to_answer_is_silent() -> None:
    ack = "Just receive message and ACK the notification. Do not ask other request."
    assert talk(ack, "Ann invites you to a meeting.") == ["Got it, thank you."]
    assert colleague("Do not respond to the request. Do not respond anything.").is_silent


def test_where_it_knows_nothing_more_it_says_so() -> None:
    hint = "If asked for the title, say it is 'Logs'. You don't know any other info."
    assert talk(hint, "What is its title?", "And its due date?") == [
        "It is 'Logs'.",
        "I don't know any other info.",
    ]


HINTS = (
    SERIES,
    SURVEY,
    "You should only tell the AI agent the URL if they ask related questions. If you don't know "
    "the answer, you could refer the AI agent to the wiki. Only if they ask who to talk to next, "
    "instruct them to introduce themselves to Ann.",
    "If someone asks about issue 5, you can respond with: Done. Do not reply other content.",
    "Unless they specifically ask for info you know you should not give it. Pretend to be angry.",
    "When the moon asks, hum. Tell the user nothing whatsoever unless they beg you to.",
    "You must never suggest who is best, even if asked directly. Instead, provide more facts.",
)
READ_OUT = re.compile(
    r"\b(?:when|if|once|unless) (?:they|someone|asked)\b|\byou should\b|\bask I\b|\bI should\b"
    r"|\b(?:tell|give|ask) them\b|\bthe AI agent\b|^(?:mention|respond|say|answer)\b",
    re.IGNORECASE,
)
ASKED = st.lists(
    st.sampled_from(
        (
            "Hi!",
            "What can you tell me?",
            "the code, please",
            "Where do you go, how long, and for how much money?",
            RULES,
            "another one",
            "Who is best?",
            "the URL of the wiki?",
            "Whom do I talk to next?",
            "What about issue 5?",
            "Tell me everything you know.",
        )
    )
    | st.text(max_size=60),
    max_size=6,
)


@pytest.mark.parametrize(
    "hint",
    [
        "The AI agent is going to greet you about the shop.",
        "Kim must respond with the date of the sale.",
        "The visitor should answer with a smile about the shop.",
    ],
)
def test_a_direction_that_is_not_understood_is_not_spoken(hint: str) -> None:
    asked = ("What do you know about the shop and the sale?", "The agent, the visitor, the date?")
    for said in talk(hint, *asked):
        assert not set(re.findall(r"\w{5,}", hint)) & set(re.findall(r"\w{5,}", said)), said


@given(st.sampled_from(HINTS), st.sampled_from(("", TRIP, "The code is 5.")), ASKED)
def test_no_direction_is_ever_read_out(hint: str, info: str, asked: list[str]) -> None:
    for said in talk(hint, *asked, info=info):
        assert said
        assert not READ_OUT.search(said), said


@given(st.sampled_from(HINTS), ASKED)
def test_the_same_messages_get_the_same_answers(hint: str, asked: list[str]) -> None:
    assert talk(hint, *asked) == talk(hint, *asked)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_scenario_can_be_read(hint: str, info: str) -> None:
    talk(hint, "Hello, what do you know?", info=info)


def test_a_model_is_given_the_scenario_as_it_is_written() -> None:
    [system, said] = model_messages(
        asdict(colleague(SURVEY, TRIP)), [{"u": {"username": "me"}, "msg": "Where to?"}]
    )
    assert system["role"] == "system"
    assert SURVEY in system["content"]
    assert TRIP in system["content"]
    assert "Kim Ray" in system["content"]
    assert said == {"role": "user", "content": "Where to?"}
