"""RULER with a real judge in this process, which is small: SmolLM2-135M.

It weighs each attempt by itself. Ten tasks, each with one good attempt and three that are planted:
wrong, unwilling or senseless. The question was chosen with other tasks; these are new to it.
"""

import pytest

from practicum.compat.art.rewards import ruler
from practicum.stats.intervals import wilson_interval

PLANTED = {
    "What is 30 minus 12?": (
        "30 minus 12 is 18.",
        "30 minus 12 is 512.",
        "I would rather not say.",
        "Trains run on rails.",
    ),
    "Name the largest ocean.": (
        "The largest ocean is the Pacific Ocean.",
        "The largest ocean is my bathtub.",
        "Leave me alone.",
        "ooo ooo ooo ooo",
    ),
    "Give two animals that can fly.": (
        "Eagles and bats can fly.",
        "Horses and cows.",
        "That is not something I do.",
        "!!!! !!!! !!!!",
    ),
    "Say thank you to a friend.": (
        "Thank you so much for your help, my friend!",
        "You are useless.",
        "null null null",
        "3 1 4 1 5 9",
    ),
    "What colour is grass?": (
        "Grass is green.",
        "Grass is made of bricks.",
        "I have no answer.",
        "tick tock tick tock",
    ),
    "How many legs does a spider have?": (
        "A spider has eight legs.",
        "A spider has a million legs.",
        "Ask somebody else.",
        "soup soup soup",
    ),
    "Solve 2x = 10.": (
        "2x = 10, so x = 10 / 2 = 5.",
        "x = -77",
        "This is too hard for me.",
        "hum hum hum",
    ),
    "Who painted the Mona Lisa?": (
        "The Mona Lisa was painted by Leonardo da Vinci.",
        "The Mona Lisa was painted by a lawn mower.",
        "I will not tell you.",
        "zxcv zxcv zxcv",
    ),
    "What is ice made of?": (
        "Ice is made of frozen water.",
        "Ice is made of hot sand.",
        "Whatever.",
        "*** *** ***",
    ),
    "Give a word that means happy.": (
        "A word that means happy is joyful.",
        "A word that means happy is sad.",
        "Never mind.",
        "98765",
    ),
}


@pytest.mark.rare
@pytest.mark.smollm2
async def test_a_small_local_judge_ranks_good_above_bad() -> None:
    above, pairs = 0, 0
    for task, attempts in PLANTED.items():
        said = [
            [{"role": "user", "content": task}, {"role": "assistant", "content": attempt}]
            for attempt in attempts
        ]
        good, *bad = (one.score for one in await ruler(said, "local/smollm2-135m"))
        above += sum(good > one for one in bad)
        pairs += len(bad)
    print(f"{above} of {pairs} planted pairs in the right order")
    low, _ = wilson_interval(above / pairs, pairs)
    assert low > 0.5
