"""Families about dates, which are texts such as 2031-04-09."""

import calendar
import random
from datetime import date, timedelta

from practicum_envs.code.families.drafting import Draft, Shelf, Twist, first_of_each

DATES = Shelf("dates")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def a_day(rng: random.Random) -> str:
    """A day between 2020 and 2031."""
    return str(date(2020, 1, 1) + timedelta(days=rng.randint(0, 4200)))


def some_days(rng: random.Random, size: int) -> tuple[list[str]]:
    """Days, of which some are equal."""
    days = [a_day(rng) for _ in range(rng.randint(0, size))]
    return (days + days[: rng.randint(0, 2)],)


def day_twists(rng: random.Random) -> tuple[Twist, ...]:
    """What may be asked of a list of days first."""
    year = rng.randint(2023, 2027)
    return (
        Twist(
            says=f"Days before the year {year} are left out first.",
            line=f'days = [d for d in days if d >= "{year}"]',
            change=lambda days: [d for d in days if date.fromisoformat(d).year >= year],
        ),
        Twist(
            says="Of equal days only the first is kept.",
            line="days = list(dict.fromkeys(days))",
            change=first_of_each,
        ),
    )


def one_day_twists(rng: random.Random) -> tuple[Twist, ...]:
    """What may be asked of one day first."""
    year = rng.randint(2024, 2027)
    return (
        Twist(
            says=f"A day after the year {year} counts as the last day of {year}.",
            line=f'day = min(day, "{year}-12-31")',
            change=lambda day: str(min(date.fromisoformat(day), date(year, 12, 31))),
        ),
    )


@DATES.family()
def days_of_month(rng: random.Random, level: int) -> Draft:
    """The days of one month."""
    month = rng.randint(1, 12)
    return Draft(
        says=f"Days are texts such as 2031-04-09. Return how many of them are in "
        f"{calendar.month_name[month]} of any year.",
        args=("days",),
        body=f'return sum(1 for d in days if d[5:7] == "{month:02}")',
        answer=lambda days: sum(date.fromisoformat(d).month == month for d in days),
        sample=lambda rng, size: (
            [
                d[:5] + f"{month:02}" + "-10" if rng.random() < 0.3 else d
                for d in some_days(rng, size)[0]
            ],
        ),
        twists=day_twists(rng),
    )


@DATES.family()
def add_days(rng: random.Random, level: int) -> Draft:
    """A day some days later."""
    k = rng.randint(2, 400)
    return Draft(
        says=f"The day is a text such as 2031-04-09. Return the day {k} days later, in that form.",
        args=("day",),
        body="from datetime import date, timedelta\n\n"
        f"return str(date.fromisoformat(day) + timedelta(days={k}))",
        answer=lambda day: str(date.fromordinal(date.fromisoformat(day).toordinal() + k)),
        sample=lambda rng, size: (a_day(rng),),
        twists=one_day_twists(rng),
    )


@DATES.family()
def write_day(rng: random.Random, level: int) -> Draft:
    """A day in another form."""
    sign, order = rng.choice("./ "), rng.choice(["dmy", "mdy", "ymd"])
    if order == "ymd" and sign == "-":
        sign = "."
    shown = sign.join({"d": "day", "m": "month", "y": "year"}[one] for one in order)
    return Draft(
        says=f"The day is a text such as 2031-04-09. Return it as {shown}, with the same digits.",
        args=("day",),
        body=f'y, m, d = day.split("-")\nreturn {sign!r}.join([{", ".join(order)}])',
        answer=lambda day: date.fromisoformat(day).strftime(
            sign.join({"d": "%d", "m": "%m", "y": "%Y"}[one] for one in order)
        ),
        sample=lambda rng, size: (a_day(rng),),
        twists=one_day_twists(rng),
    )


@DATES.family(heldout=True)
def on_weekday(rng: random.Random, level: int) -> Draft:
    """The days on some weekday."""
    weekday = rng.randint(0, 6)
    return Draft(
        says="Days are texts such as 2031-04-09. Return a list of those that are a "
        f"{DAYS[weekday]}.",
        args=("days",),
        body="from datetime import date\n\n"
        f"return [d for d in days if date.fromisoformat(d).weekday() == {weekday}]",
        answer=lambda days: [
            d for d in days if calendar.weekday(int(d[:4]), int(d[5:7]), int(d[8:])) == weekday
        ],
        sample=lambda rng, size: (
            [d for d in some_days(rng, 4 * size)[0] if rng.random() < 0.2]
            + [str(date(2026, 1, 5 + weekday + 7 * rng.randint(0, 2)))] * rng.randint(0, 2),
        ),
        twists=day_twists(rng),
    )


@DATES.family()
def longest_gap(rng: random.Random, level: int) -> Draft:
    """Days between the first and the last."""
    plus = rng.randint(0, 3)
    return Draft(
        says="Days are texts such as 2031-04-09, in any order. Return how many days there are from "
        f"the first to the last, plus {plus}; None for no days.",
        args=("days",),
        body="from datetime import date\n\nfound = [date.fromisoformat(d) for d in days]\n"
        f"return (max(found) - min(found)).days + {plus} if found else None",
        answer=lambda days: (
            None
            if not days
            else plus
            + date.fromisoformat(max(days)).toordinal()
            - date.fromisoformat(min(days)).toordinal()
        ),
        sample=some_days,
        twists=day_twists(rng),
    )
