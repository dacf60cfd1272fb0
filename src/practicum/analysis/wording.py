"""Numbers, times and other people's text in few signs."""

from datetime import UTC, datetime

from practicum.core.config.run_config import REFERENCE, RunConfig

IN_ORDER = "good before bad, more than the base model does"
"""What the order of held-out rows means."""
MINUTE, HOUR, DAY = 60, 3600, 86400

ASCII_FORMS = str.maketrans(
    {"−": "-", "×": "x", "·": "-", "→": "->", "≤": "<=", "≥": ">=", "±": "+-", "…": "...", "–": "-"}
)
"""Signs with a plain spelling; every other one becomes a question mark."""


def format_number(value: float | None) -> str:
    """A number in three significant digits.

    >>> [format_number(x) for x in (6.1234, 0.00001234, 0.0, -12.0, 12345.0, None)]
    ['6.12', '1.2e-05', '0', '-12', '12345', '-']
    """
    if value is None:
        return "-"
    if value == 0 or 1e-3 <= abs(value) < 1e3:
        return f"{value:.3g}"
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.1e}"


def format_duration(seconds: float) -> str:
    """A time span in its two largest units.

    >>> [format_duration(s) for s in (4.2, 75, 3900, 100000)]
    ['4 s', '1 min 15 s', '1 h 05 min', '1 d 3 h']
    """
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02d} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02d} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def format_age(seconds: float) -> str:
    """How long ago, in one unit.

    >>> [format_age(s) for s in (3, 200, 8000, 200000)]
    ['now', '3m', '2h', '2d']
    """
    if seconds < MINUTE:
        return "now"
    for size, letter in ((DAY, "d"), (HOUR, "h")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return f"{int(seconds // MINUTE)}m"


def clock_time(seconds: float) -> str:
    """A moment in the user's own time zone, to the minute."""
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone():%Y-%m-%d %H:%M}"


def one_line(text: str) -> str:
    r"""Someone else's text on one line, without anything that could steer the terminal.

    >>> one_line("ok\n\x1b[31mred   x = 3")
    'ok ?[31mred x = 3'
    """
    words = " ".join(text.split())
    return "".join(char if char.isprintable() else "?" for char in words)


def to_ascii(text: str) -> str:
    """The text for a terminal that knows no other signs.

    >>> to_ascii("2 × 3 → 6 ✓")
    '2 x 3 -> 6 ?'
    """
    return text.translate(ASCII_FORMS).encode("ascii", "replace").decode("ascii")


def training_words(config: RunConfig) -> str:
    """What each stage of a run learned by, and from what."""
    env, told = f"the environment `{config.env_name}`", []
    for stage in config.all_stages:
        material = f"on {env}, by acting on its tasks"
        if stage.data is not None:
            own = stage.data.source == REFERENCE
            material = f"on {f'solutions of {env}' if own else f'the data `{stage.data.source}`'}"
        told.append(f"by `{stage.algorithm.name}` {material}")
    return ", then ".join(told)
