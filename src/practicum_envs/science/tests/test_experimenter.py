"""The reference knows what the session shows, and nothing else."""

import re
from dataclasses import replace
from itertools import islice

import pytest

from practicum_envs.science.briefing import prompt
from practicum_envs.science.conclusion_scoring import FULL_MARKS
from practicum_envs.science.experimenter import conclude, design, formulate, reference_turns
from practicum_envs.science.laboratory import ANALYZE, Laboratory
from practicum_envs.science.law_spaces import LEVELS
from practicum_envs.science.law_syntax import syntax_of
from practicum_envs.science.posterior import Reading
from practicum_envs.science.science_problems import generate, world_of
from practicum_envs.science.subjects import SUBJECTS
from practicum_envs.science.worlds import Brief

EVERY_LEVEL = sorted(LEVELS)
FAMILY_OF = {subject.measured: name for name, subject in SUBJECTS.items()}


def brief_from_prompt(level: int, text: str) -> Brief:
    """The brief as a reader of the prompt has it."""
    told = re.search(
        r"Reading: (.+?)\. Factors: (.+?)\. With all at 0 it is (\d+)\. Readings scatter by (\d)\.",
        text,
    )
    assert told is not None
    factors = tuple(told[2].split(", "))
    records = re.search(r"moved by the same [^:]+: (.+?)\. \d+ experiments", text)
    rows = records[1].split(", ") if records else []
    return Brief(
        level=level,
        family=FAMILY_OF[told[1]],
        factors=factors,
        base=int(told[3]),
        scatter=int(told[4]),
        records=tuple(reading_from(row, level, factors) for row in rows),
    )


def reading_from(text: str, level: int, factors: tuple[str, ...]) -> Reading:
    written, value = re.fullmatch(r"(.+): (-?\d+)", text).groups()  # type: ignore[union-attr]
    setting = syntax_of(level, factors).read_setting(written)
    assert setting is not None
    return Reading(setting=setting, value=int(value))


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_whoever_reads_no_more_than_prompt_and_answers_takes_the_same_turns(level: int) -> None:
    for task in islice(generate("train", ["plants", "bees", "bikes"], [level], 5), 12):
        world = world_of(task)
        laboratory = Laboratory(world)
        brief = brief_from_prompt(level, prompt(world.brief)[1].content)
        readings: tuple[Reading, ...] = ()
        turns = [formulate(brief)]
        laboratory.act(turns[-1])
        while (turn := design(brief, readings)) is not None:
            turns.append(turn)
            said = laboratory.act(turn).said.partition(". ")[0]
            readings = (*readings, reading_from(said, level, brief.factors))
        turns += [ANALYZE, conclude(brief, readings)]
        assert tuple(turns) == reference_turns(world)
        assert brief == world.brief


def test_a_world_with_another_law_and_the_same_readings_has_the_same_reference() -> None:
    """The readings are taken from the first world, whatever the second one's law is."""
    task = next(generate("train", ["plants"], [2], 0))
    world = world_of(task)

    class Twin(type(world)):  # type: ignore[misc]
        def measure(self, setting: tuple[int, ...], repeat: int) -> Reading:
            return world.measure(setting, repeat)

    for other in (world.law[1:], (*world.law, *world.law)):
        twin = Twin(brief=world.brief, law=other, seed="another")
        assert reference_turns(twin) == reference_turns(world)


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_the_reference_earns_full_marks_in_every_family(level: int) -> None:
    for subject in SUBJECTS:
        split = SUBJECTS[subject].split
        for task in islice(generate(split, [subject], [level], 11), 2):
            laboratory = Laboratory(world_of(task))
            earned = sum(laboratory.act(one).pay for one in reference_turns(laboratory.world))
            assert earned == pytest.approx(FULL_MARKS)
            assert laboratory.verdict is not None
            assert laboratory.verdict.succeeds


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_reference_fits_the_default_turns_at_the_lower_levels(level: int) -> None:
    for task in islice(generate("train", list(SUBJECTS)[:6], [level], 3), 30):
        assert len(reference_turns(world_of(task))) <= 8


def test_the_reference_is_not_always_as_sure() -> None:
    stated = {
        reference_turns(world_of(task))[-1].rpartition(" ")[2]
        for task in islice(generate("train", ["plants", "soap", "fish"], [2, 3], 2), 90)
    }
    assert {"80", "90", "95", "99"} <= stated


def test_where_records_mislead_the_reference_experiments_first() -> None:
    for task in islice(generate("train", ["plants", "soap"], [3], 4), 20):
        world = world_of(task)
        turns = reference_turns(world)
        assert any(turn.startswith("design_experiment") for turn in turns)
        without = replace(world.brief, records=())
        assert without.beliefs().entropy > world.brief.beliefs().entropy
