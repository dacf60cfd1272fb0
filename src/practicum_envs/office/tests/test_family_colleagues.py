"""Colleagues of every family that has some are understood in whatever words they are asked.

The wordings were written from the tasks' texts alone.
"""

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from practicum_envs.office.colleagues import ScriptedColleague
from practicum_envs.office.company_seed import Colleague, Fact
from practicum_envs.office.families.all_families import families
from practicum_envs.office.office_plan import Family

FAMILIES = {one.name: one for one in families().values() if one.level == 4}
BY_WHEN = (
    "By when can you fix it?",
    "When will the bug be fixed?",
    "What is the due date of the fix?",
    "How long does the repair take you, until which day?",
    "On what day can we have a solution?",
)
SCORE = (
    "What score do you give the paper?",
    "How many points is it worth to you?",
    "How did you rate it?",
    "Your mark for the paper, please",
    "Which rating shall I write down for you?",
)
ASKED = {
    "order-equipment": (
        (
            "What is the price of one {thing}?",
            "How much is a {thing}?",
            "What does one {thing} cost us?",
            "Unit price of the {thing}, please",
            "What do they charge for each {thing}?",
        ),
        (
            "Which cost center do I use?",
            "Where should this order be charged?",
            "Which account is it booked on?",
            "What do I bill it to?",
            "cost centre, please",
        ),
    ),
    "grant-a-discount": (
        (
            "Which discount may I give?",
            "By how many percent can we reduce the price?",
            "What rebate is okay for them?",
            "How much off do they get?",
            "Do they get the goods cheaper, and by how much?",
        ),
        (
            "When can we deliver?",
            "On what day will they arrive?",
            "The delivery date, please",
            "By when could the goods be shipped?",
            "How soon can they have it?",
        ),
    ),
    "get-a-budget-approved": (
        (
            "What is the budget number?",
            "Which budget does it run on?",
            "Could you give me the number of the budget I should use?",
            "Where does the money come from, which budget?",
            "budget no. please",
        ),
        (
            "Do you approve it?",
            "Please sign off on the money.",
            "Can I have your approval?",
            "Is it all right with you? I need your code.",
            "Can you OK this?",
        ),
    ),
    "collect-locker-numbers": (
        (
            "What is your locker number?",
            "Which locker do you have?",
            "Please tell me the number of your locker.",
            "Where do you lock up your things, which locker?",
            "locker no.?",
        ),
        (
            "Which locker does {thing} have?",
            "What is {thing}'s locker number?",
            "{thing} said that you know the number of the locker; which is it?",
            "The locker of {thing}, please",
            "Do you know where {thing} has a locker?",
        ),
    ),
    "find-who-takes-it": (
        (
            "Could you take the issue, and until when?",
            "Nobody has it yet. Would you do it? By what day?",
            "Are you free to work on it?",
            "Will you look after this one?",
            "May I assign it to you?",
        ),
    ),
    "reproduce-a-bug": (
        (
            "Which version do you use?",
            "What release were you running when it failed?",
            "The version, please",
            "On which version did it happen?",
            "Do you remember the version number?",
        ),
        (
            "What was the error code?",
            "Which error did it show?",
            "What did the message say?",
            "The code of the error, please",
            "What error do you get?",
        ),
        BY_WHEN,
    ),
    "collect-reviews": (SCORE, SCORE),
    "set-up-a-deployment": (
        (
            "Which port is it?",
            "What port does the service listen on?",
            "Port number, please",
            "I need the port.",
            "Can you tell me at which port I reach it?",
        ),
        (
            "Which host is it?",
            "What is the hostname?",
            "On what machine does it run?",
            "The name of the server, please",
            "Where do we deploy to, which host?",
        ),
    ),
}


def facts_of(family: Family) -> Iterator[tuple[Colleague, Fact]]:
    """Who knows what in a task, in the order in which they are listed."""
    for colleague in family.plan("0", family.split).company.colleagues:
        for fact in colleague.facts:
            yield colleague, fact


@pytest.mark.parametrize(
    ("family", "number", "wording"),
    [
        (family, number, wording)
        for family, every in ASKED.items()
        for number, some in enumerate(every)
        for wording in some
    ],
)
def test_a_colleague_is_understood_in_each_of_five_wordings(
    family: str, number: int, wording: str
) -> None:
    colleague, fact = list(facts_of(FAMILIES[family]))[number]
    given = "".join(f" It is about {one}." for one in (*fact.needs, *fact.when[1:]))
    asked = wording.format(thing=fact.when[-1].partition("|")[0])
    assert fact.say in ScriptedColleague(asdict(colleague), {}).answer(f"{asked}{given}")


@pytest.mark.parametrize("family", FAMILIES)
def test_there_are_wordings_for_every_fact_and_one_at_least_has_to_be_earned(family: str) -> None:
    facts = [fact for _, fact in facts_of(FAMILIES[family])]
    assert len(ASKED[family]) <= len(facts)
    assert any(fact.needs and fact.otherwise for fact in facts)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_has_to_be_earned_is_told_to_nobody_who_only_asks(family: str) -> None:
    told = list(facts_of(FAMILIES[family]))
    for number, some in enumerate(ASKED[family]):
        colleague, fact = told[number]
        for wording in some if fact.needs else ():
            asked = wording.format(thing=fact.when[-1].partition("|")[0])
            said = ScriptedColleague(asdict(colleague), {}).answer(asked)
            assert fact.say not in said
