"""Families about small classes; a test makes an object and calls its methods in turn."""

import random
from typing import Any

from practicum_envs.code.families.drafting import Draft, Shelf

CLASSES = Shelf("classes")
Steps = list[list[Any]]


def some_steps(rng: random.Random, size: int, methods: dict[str, Any]) -> Steps:
    """Calls of methods, each with the arguments that its entry draws."""
    names = list(methods)
    return [
        [name, methods[name](rng)]
        for name in (rng.choice(names) for _ in range(rng.randint(1, size)))
    ]


@CLASSES.family()
def bounded_counter(rng: random.Random, level: int) -> Draft:
    """A counter with a bound."""
    up, down = rng.sample(["up", "down", "add", "take", "more", "less"], 2)
    k = rng.randint(1, 5)
    more = "The value never goes below 0." if level > 1 else ""
    left = "max(0, self.value - {k})" if level > 1 else "self.value - {k}"

    def answer(start: list[int], steps: Steps) -> list[Any]:
        value, values = start[0], []
        for method, _ in steps:
            if method == up:
                value = value + k
            elif method == down:
                value = max(0, value - k) if level > 1 else value - k
            values.append(value)
        return values

    return Draft(
        says=f"An object begins with a value. Its method {up}() adds {k} to it, {down}() "
        f"takes {k} away, value_now() leaves it; each returns the value.",
        args=(),
        body="class Counter:\n    def __init__(self, value):\n        self.value = value\n\n"
        f"    def {up}(self):\n        self.value += {k}\n        return self.value\n\n"
        f"    def {down}(self):\n        self.value = {left.format(k=k)}\n"
        "        return self.value\n\n    def value_now(self):\n        return self.value",
        answer=answer,
        sample=lambda rng, size: (
            [rng.randint(0, 9)],
            some_steps(rng, min(size, 6), {m: lambda rng: [] for m in (up, down, "value_now")}),
        ),
        more=more,
        via="class",
        names=("Counter", "Meter", "Tally", "Score", "Level"),
    )


@CLASSES.family()
def stack_of_numbers(rng: random.Random, level: int) -> Draft:
    """A stack or a queue."""
    at, kind = rng.choice([(-1, "last"), (0, "first")])
    put, take = rng.choice([("push", "pop"), ("put", "take"), ("add", "remove")])
    empty = rng.choice(["None", "-1", "0"])
    more = "A number that is there already is not added again." if level > 1 else ""
    guard = "        if x in self.items:\n            return\n" if level > 1 else ""

    def answer(start: list[Any], steps: Steps) -> list[Any]:
        items: list[int] = []
        values: list[Any] = []
        for method, given in steps:
            if method == put:
                items += [] if level > 1 and items.count(given[0]) else given
                values.append(None)
            elif items:
                values.append(items[at])
                items = items[:-1] if at else items[1:]
            else:
                values.append({"None": None, "-1": -1, "0": 0}[empty])
        return values

    return Draft(
        says=f"An object holds numbers. {put}(x) adds one and returns nothing; {take}() "
        f"removes the {kind} of them and returns it, or returns {empty} where there is none.",
        args=(),
        body="class Stack:\n    def __init__(self):\n        self.items = []\n\n"
        f"    def {put}(self, x):\n{guard}        self.items.append(x)\n\n"
        f"    def {take}(self):\n        return self.items.pop({at}) if self.items else {empty}",
        answer=answer,
        sample=lambda rng, size: (
            [],
            some_steps(
                rng, min(size, 7), {put: lambda rng: [rng.randint(1, 5)], take: lambda rng: []}
            ),
        ),
        more=more,
        via="class",
        names=("Stack", "Box", "Line", "Pile", "Store"),
    )


@CLASSES.family(heldout=True)
def bank_account(rng: random.Random, level: int) -> Draft:
    """An account with a fee."""
    fee = rng.randint(1, 4)
    more = "A deposit of more than 50 is refused: it changes nothing." if level > 1 else ""
    guard = "        if x > 50:\n            return self.money\n" if level > 1 else ""

    def answer(start: list[int], steps: Steps) -> list[int]:
        money, values = start[0], []
        for method, (x,) in steps:
            if method == "deposit":
                money += 0 if level > 1 and x > 50 else x
            elif x + fee <= money:
                money -= x + fee
            values.append(money)
        return values

    return Draft(
        says="An object begins with some money. deposit(x) adds x; withdraw(x) takes x and "
        f"a fee of {fee}, but nothing where there is not enough for both. Each returns the money "
        "that is left.",
        args=(),
        body="class Account:\n    def __init__(self, money):\n        self.money = money\n\n"
        f"    def deposit(self, x):\n{guard}        self.money += x\n        return self.money\n\n"
        f"    def withdraw(self, x):\n        if x + {fee} <= self.money:\n"
        f"            self.money -= x + {fee}\n        return self.money",
        answer=answer,
        sample=lambda rng, size: (
            [rng.randint(0, 40)],
            some_steps(
                rng,
                min(size, 5),
                {
                    "deposit": lambda rng: [rng.choice([5, 20, 50, 51, 60])],
                    "withdraw": lambda rng: [rng.randint(1, 40)],
                },
            ),
        ),
        more=more,
        via="class",
        names=("Account", "Purse", "Wallet", "Till"),
    )


@CLASSES.family()
def small_cache(rng: random.Random, level: int) -> Draft:
    """A store that forgets."""
    most = rng.randint(2, 3)
    more = "get(key) makes its key the newest." if level > 1 else ""
    fresh = (
        "        if key in self.data:\n            self.data[key] = self.data.pop(key)\n"
        if level > 1
        else ""
    )

    def answer(start: list[Any], steps: Steps) -> list[Any]:
        keys: list[str] = []
        values: dict[str, int] = {}
        found: list[Any] = []
        for method, given in steps:
            key = given[0]
            if method == "put":
                keys = [*(one for one in keys if one != key), key][-most:]
                values[key] = given[1]
                found.append(len(keys))
            else:
                found.append(values[key] if key in keys else None)
                if level > 1 and key in keys:
                    keys = [*(one for one in keys if one != key), key]
        return found

    return Draft(
        says=f"An object keeps the {most} newest keys. put(key, value) keeps a value, makes "
        "its key the newest, forgets the oldest key where there are too many, and returns how many "
        "are kept; get(key) returns the value, or None.",
        args=(),
        body="class Cache:\n    def __init__(self):\n        self.data = {}\n\n"
        "    def put(self, key, value):\n        self.data.pop(key, None)\n"
        f"        self.data[key] = value\n        if len(self.data) > {most}:\n"
        "            del_key = next(iter(self.data))\n            self.data.pop(del_key)\n"
        "        return len(self.data)\n\n"
        f"    def get(self, key):\n{fresh}        return self.data.get(key)",
        answer=answer,
        sample=lambda rng, size: (
            [],
            some_steps(
                rng,
                8,
                {
                    "put": lambda rng: [rng.choice("abcd"), rng.randint(1, 9)],
                    "get": lambda rng: [rng.choice("abcd")],
                },
            ),
        ),
        more=more,
        via="class",
        names=("Cache", "Shelf", "Memo", "Recent"),
    )
