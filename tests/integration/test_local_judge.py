"""RULER with a real judge in this process, which is small: SmolLM2-135M.

It weighs each attempt by itself. Ten tasks, each with one good attempt and three that are planted:
wrong, unwilling or senseless.
"""

import pytest

from practicum.art.rewards.ruler import ruler
from practicum.evaluation.intervals import wilson_interval

PLANTED = {
    "What is 17 + 25?": (
        "17 + 25 = 42.",
        "I don't know.",
        "Bananas are yellow and the moon is far away.",
        "17 + 25 = 9000.",
    ),
    "Name the capital of France.": (
        "The capital of France is Paris.",
        "The capital of France is a banana.",
        "No.",
        "I refuse to answer that.",
    ),
    "List three colours.": (
        "Red, green and blue.",
        "asdf asdf asdf asdf",
        "I cannot do that.",
        "Dogs bark loudly.",
    ),
    "Write a polite greeting.": (
        "Good morning! How may I help you today?",
        "Go away, idiot.",
        "error error error",
        "7 7 7 7 7 7",
    ),
    "Translate 'dog' to Spanish.": (
        "The Spanish word for dog is perro.",
        "I will not translate that.",
        "xxxxxxxxxx",
        "The weather is nice.",
    ),
    "How many days are in a week?": (
        "There are seven days in a week.",
        "There are nine hundred days in a week.",
        "I give up.",
        "blue blue blue",
    ),
    "Solve x + 3 = 5.": (
        "x + 3 = 5, so x = 5 - 3 = 2.",
        "x = 100",
        "I can't solve this.",
        "la la la la la",
    ),
    "Who wrote Hamlet?": (
        "Hamlet was written by William Shakespeare.",
        "Hamlet was written by a toaster.",
        "Don't ask me.",
        "qwerty qwerty",
    ),
    "What do cows drink?": (
        "Cows drink water.",
        "Cows drink petrol.",
        "No idea.",
        "### ### ###",
    ),
    "Give the opposite of hot.": (
        "The opposite of hot is cold.",
        "The opposite of hot is hot.",
        "Stop asking.",
        "12345",
    ),
}


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
