"""Numbers as people write them: digits and words."""

import re

UNITS = dict(
    zip(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen".split(),
        range(20),
        strict=True,
    )
)
TENS = dict(
    zip(
        "twenty thirty forty fifty sixty seventy eighty ninety".split(),
        range(20, 100, 10),
        strict=True,
    )
)
SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
ORDINALS = dict(
    zip(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
        "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth "
        "twentieth".split(),
        range(1, 21),
        strict=True,
    )
) | {"thirtieth": 30}

_SMALL = "|".join([*sorted(UNITS, key=len, reverse=True), *TENS])
_ALL = f"{_SMALL}|{'|'.join(SCALES)}|dozen"
WORDS = rf"(?:\b(?:{_ALL})s?\b(?:[\s-]+(?:and\s+)?(?:{_ALL})\b)*)"
"""A number in words."""
DIGITS = r"(?:(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)"
"""A number in digits."""
NUMBER = rf"(?:{DIGITS}|{WORDS})"
_ORDINAL = "|".join(sorted(ORDINALS, key=len, reverse=True))
ORDINAL = rf"(?:(?:twenty|thirty)-(?:{_ORDINAL})|(?:{_ORDINAL}))"
"""A day of a month in words, such as `twenty-first`."""


def number_of(written: str) -> float:
    """The number that some text of the form `NUMBER` stands for.

    >>> number_of("1,250"), number_of("forty-five"), number_of("two hundred and ten")
    (1250.0, 45.0, 210.0)
    """
    if re.fullmatch(DIGITS, written):
        return float(written.replace(",", ""))
    total, part = 0.0, 0.0
    for word in re.findall(r"[a-z]+", written.lower()):
        if word == "and":
            continue
        one = word if word in SCALES or word in UNITS or word in TENS else word.removesuffix("s")
        if one == "dozen":
            part = max(part, 1.0) * 12
        elif one == "hundred":
            part = max(part, 1.0) * 100
        elif one in SCALES:
            total, part = total + max(part, 1.0) * SCALES[one], 0.0
        else:
            part += UNITS.get(one, TENS.get(one, 0))
    return total + part


def ordinal_of(written: str) -> int:
    """The day that some text of the form `ORDINAL` stands for.

    >>> ordinal_of("twenty-first"), ordinal_of("fourteenth")
    (21, 14)
    """
    tens, _, unit = written.lower().rpartition("-")
    return TENS.get(tens, 0) + ORDINALS[unit]
