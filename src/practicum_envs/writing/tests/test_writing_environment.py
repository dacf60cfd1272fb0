import asyncio
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.core.errors import MissingExtra, UserError
from practicum.core.task import Task
from practicum.environments.checker import check_environment
from practicum.environments.reference_policies import ReferenceActor, ScriptActor, play_episode
from practicum.environments.registry import build_environment, build_level
from practicum_envs.writing import language_checks
from practicum_envs.writing.brief_generator import FAMILIES, LEVELS, draw_task
from practicum_envs.writing.text_score import score_text
from practicum_envs.writing.writing_environment import WritingEnvironment, WritingOptions
from practicum_envs.writing.writing_session import FOR_NOTHING, FULL_MARKS
from practicum_envs.writing.writing_turns import NAMES

ENVIRONMENT = WritingEnvironment(WritingOptions())


@pytest.mark.parametrize("level", LEVELS)
async def test_every_level_is_sound(level: int) -> None:
    found = await check_environment(
        lambda one: build_level("writing", one), levels=(level,), n=3, seed=level
    )
    assert found.is_sound, found.levels[0].problems
    assert found.levels[0].warnings == ()
    assert found.levels[0].near_misses > 60


@pytest.mark.parametrize("name", FAMILIES)
async def test_the_reference_earns_full_marks_in_eight_turns(name: str) -> None:
    for level in LEVELS:
        task = draw_task(level, FAMILIES[name], FAMILIES[name].split, level)
        play = await play_episode(ENVIRONMENT, task, ReferenceActor(ENVIRONMENT), 8)
        assert play.outcome.success
        assert play.total_reward == pytest.approx(FULL_MARKS)


def test_heldout_families_or_heldout_names() -> None:
    for heldout, split in (("kinds", "heldout"), ("names", "train")):
        environment = build_environment("writing", {"heldout": heldout, "level": [1, 2]})
        tasks = list(islice(environment.tasks("heldout", 0), 20))
        assert {FAMILIES[str(task.data["family"])].split for task in tasks} == {split}
        assert {task.split for task in tasks} == {"heldout"}


async def play(turns: list[str], task: Task) -> tuple[list[str], Any]:
    async with ENVIRONMENT.open(task) as session:
        told = [(await session.act(turn)).message.content for turn in turns]
        return told, await session.outcome()


NOTE = draw_task(1, FAMILIES["notice"], "train", 2)
LONG = draw_task(4, FAMILIES["notice"], "train", 2)


async def test_a_person_is_told_what_is_missing_and_what_was_made_up() -> None:
    first = str(NOTE.data["reference"][0]).split(". ")[0] + "."  # type: ignore[index]
    told, outcome = await play([f"write_paragraph {first} Ask Karla."], NOTE)
    assert "Not said: " in told[0]
    assert "Not to be said: Karla." in told[0]
    assert outcome.success is False
    assert outcome.evidence["text"] == f"{first} Ask Karla."


async def test_notes_are_opened_by_brainstorming_and_secrets_are_marked() -> None:
    brief: Any = LONG.data["brief"]
    asked = " | ".join(fact["label"] for fact in (brief["facts"][1], brief["private"][0]))
    told, outcome = await play([f"brainstorm_ideas {asked} | weather"], LONG)
    assert brief["facts"][1]["value"] in told[0]
    assert f"{brief['private'][0]['value']} (do not tell)" in told[0]
    assert "Nothing is known of: weather" in told[0]
    assert outcome.turn_rewards == (0.0,)


@pytest.mark.parametrize(
    "turn",
    [
        "",
        "   ",
        "I would write about the sale.",
        "write_paragraph",
        "edit_content nothing like it => else",
        "edit_content no arrow",
        "edit_content => new",
        "hand_in",
        "write_paragraphs All of it.",
        "\0",
    ],
)
async def test_a_turn_that_does_nothing_costs_a_little_and_ends_nothing(turn: str) -> None:
    _, outcome = await play([turn, turn], NOTE)
    assert outcome.turn_rewards == (FOR_NOTHING, FOR_NOTHING)


async def test_no_turn_follows_the_end() -> None:
    async with ENVIRONMENT.open(NOTE) as session:
        for turn in ENVIRONMENT.reference(NOTE):
            last = await session.act(turn)
        assert last.terminated
        with pytest.raises(RuntimeError, match="is over"):
            await session.act("hand_in")


SCRAPS = [
    *(str(text) for text in NOTE.data["reference"]),  # type: ignore[union-attr]
    "It is on Monday.",
    "We => You",
    "a | b",
    "Please",
    "",
]
TURNS = st.tuples(
    st.sampled_from([*NAMES[:-1], "what"]), st.sampled_from(SCRAPS) | st.text(max_size=60)
)


@given(st.lists(TURNS, max_size=10), st.sampled_from(LEVELS), st.booleans())
@settings(max_examples=40)
def test_turns_pay_what_the_text_is_better_by(
    turns: list[tuple[str, str]], level: int, hands_in: bool
) -> None:
    """Whatever is done, the pay adds up to the progress of the text, less what costs."""
    task = draw_task(level, FAMILIES["notice"], "train", 2)
    written = [f"{name} {text}" for name, text in turns] + ["hand_in"] * hands_in
    _, outcome = asyncio.run(play(written, task))
    brief: Any = task.data["brief"]
    from practicum_envs.writing.brief import Brief

    start = score_text(Brief.of(brief), tuple(brief["draft"])).value
    progress = max(-1.0, (outcome.evidence["score"] - start) / (1 - start))
    spent = sum(pay for pay in outcome.turn_rewards if pay == FOR_NOTHING)
    ended = outcome.turn_rewards[-1] if outcome.evidence["handed_in"] else 0.0
    assert sum(outcome.turn_rewards) - spent - ended == pytest.approx(0.5 * progress, abs=1e-3)
    assert -0.5 - 0.1 + spent - 1e-9 <= sum(outcome.turn_rewards) <= FULL_MARKS + 1e-9


async def test_a_long_text_is_refused_rather_than_scored() -> None:
    told, outcome = await play(["write_paragraph " + "We like it. " * 150] * 5, NOTE)
    assert len(outcome.evidence["text"]) <= 6100
    assert told[-1].startswith("Nothing was changed")


def test_a_task_is_found_by_its_id_and_a_wrong_one_is_told() -> None:
    assert ENVIRONMENT.find(NOTE.id) == NOTE
    for wrong in ("writing-train-9-notice-1", "writing-train-1-nonsense-1", "x"):
        with pytest.raises(UserError, match="an id looks like writing-train-1-notice-7"):
            ENVIRONMENT.find(wrong)


def test_a_missing_library_is_told_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_checks, "NEEDED", {"no_such_package": "the environment 'writing'"})
    with pytest.raises(MissingExtra, match=r"pip install 'practicum\[writing\]'"):
        WritingEnvironment(WritingOptions())


@pytest.mark.parametrize(
    ("line", "turn"),
    [
        ("Please come.", "write_paragraph Please come."),
        ("add At noon.", "add_details At noon."),
        ("edit a => b", "edit_content a => b"),
        ("done", "hand_in"),
    ],
)
def test_a_person_may_type_less(line: str, turn: str) -> None:
    assert ENVIRONMENT.turn_from_line(line) == turn


async def test_an_action_on_a_later_line_is_not_part_of_the_text() -> None:
    _, outcome = await play(["write_paragraph It is open.\nIt is free.\nhand_in"], NOTE)
    assert outcome.evidence["text"] == "It is open. It is free."
    assert outcome.evidence["handed_in"] is False


async def test_the_same_turns_give_the_same_episode() -> None:
    turns = list(ENVIRONMENT.reference(LONG))
    plays = [await play_episode(ENVIRONMENT, LONG, ScriptActor(turns)) for _ in range(2)]
    assert plays[0] == plays[1]
