"""Tasks of the front desk: rooms, channels, letters, supplies."""

from practicum_envs.office.company_seed import (
    Channel,
    Colleague,
    CompanySeed,
    Fact,
    Person,
    Post,
)
from practicum_envs.office.evidence import Evidence, are_rows, asked, rows_of
from practicum_envs.office.families import admin_wordings as words
from practicum_envs.office.families import allow, bash
from practicum_envs.office.families.family_parts import edited, must, table
from practicum_envs.office.generated_company import CITIES, CUSTOMERS, DAYS, PRODUCTS
from practicum_envs.office.office_plan import OfficePlan, Setting, family

ROOMS = ("Amber", "Basil", "Cedar", "Dune", "Elm", "Fern", "Grove", "Heath")
SUPPLIES = ("stapler", "marker", "folder", "envelope", "battery pack", "notepad")


@family(level=1, domain="admin", services=("rocketchat",), split="train")
def set_a_topic(setting: Setting) -> OfficePlan:
    """Set the topic of a channel."""
    rng = setting.rng
    names = [one.name for one in setting.base.channels]
    channel, other = rng.sample(names, 2)
    event = rng.choice(("Fire drill", "Summer party", "Open day", "Stock count", "Repainting"))
    room = rng.choice(ROOMS)
    topic = (
        f"{event} on {rng.choice(DAYS)} at {rng.randrange(8, 18)}:{rng.choice((15, 45))}, {room}"
    )

    def topics(seen: Evidence) -> dict[str, str]:
        found = seen.office.rocketchat("GET", "channels.list", {"count": 0})["channels"]
        return {one["name"]: one["topic"] for one in found}

    def set_to(where: str, text: str) -> tuple[str, ...]:
        return (f"office rocketchat POST channels.setTopic roomName={where} topic={bash.q(text)}",)

    return OfficePlan(
        instruction=setting.told(words.SET_A_TOPIC, channel=channel, topic=topic),
        company=setting.base,
        checkpoints=(
            must(f"the topic of #{channel} is set", lambda seen: topics(seen)[channel] == topic),
        ),
        allows=(allow.room(channel, "topic"),),
        reference=set_to(channel, topic),
        near_misses=(
            set_to(other, topic),
            set_to(channel, topic.rpartition(",")[0]),
            (bash.post(f"#{channel}", topic),),
        ),
    )


BOOK_A_ROOM_SOLUTION = """
import csv
booked = list(csv.DictReader(open("bookings.csv")))
taken = {{r["room"] for r in booked if (r["date"], r["start"]) == ("{day}", "{start}")}}
rooms = [(int(r["seats"]), r["room"]) for r in csv.DictReader(open("rooms.csv"))]
room = min(r for r in rooms if r[0] >= {needed} and r[1] not in taken)[1]
open("bookings.csv", "a").write(f"{day},{start},{{room}},{owner}\\n")
"""


@family(level=2, domain="admin", services=("owncloud",), split="train")
def book_a_room(setting: Setting) -> OfficePlan:
    """Book the smallest free room that is large enough."""
    rng = setting.rng
    sizes = sorted(rng.sample(range(3, 40), 6))
    rooms = list(zip(rng.sample(ROOMS, 6), sizes, strict=True))
    day, start, owner = setting.date(), f"{rng.randrange(8, 17):02d}:00", setting.person().name
    first, busy = rng.randrange(0, 3), rng.randrange(1, 3)
    needed = rng.randrange(sizes[first - 1] + 1 if first else 2, sizes[first] + 1)
    right = rooms[first + busy]
    bookings = [
        (day, start, room, setting.person().name) for room, _ in rooms[first : first + busy]
    ]
    bookings += [
        (setting.date(), start, rng.choice(rooms)[0], one.name) for one in setting.people(6)
    ]
    bookings = [one for one in bookings if one[:3] != (day, start, right[0])]
    rng.shuffle(bookings)
    head, line = ("date", "start", "room", "booked_by"), (day, start, right[0], owner)
    path = "Rooms/bookings.csv"
    company = setting.base + CompanySeed(
        files={
            path: table([head, *bookings]),
            "Rooms/rooms.csv": table([("room", "seats"), *rng.sample(rooms, 6)]),
        }
    )
    solve = BOOK_A_ROOM_SOLUTION.format(day=day, start=start, needed=needed, owner=owner)
    reference = (bash.fetch(path, "Rooms/rooms.csv"), bash.make(solve, "bookings.csv", path))

    def is_booked(seen: Evidence) -> bool:
        mine = [one for one in seen.rows(path) if one not in bookings and one != head]
        return len(mine) == 1 and mine[0][:2] == line[:2] and mine[0][3:] == line[3:]

    return OfficePlan(
        instruction=setting.told(
            words.BOOK_A_ROOM, owner=owner, day=day, start=start, needed=needed, path=path
        ),
        company=company,
        checkpoints=(
            must("there is one new booking for that time and person", is_booked),
            must(
                "it is the right room",
                lambda seen: is_booked(seen) and seen.rows(path).count(line) == 1,
                2,
            ),
            must(
                "the other bookings are as they were",
                lambda seen: seen.rows(path) == [head, *bookings, line],
            ),
        ),
        allows=allow.file(path),
        reference=reference,
        near_misses=(
            edited(reference, (" and r[1] not in taken", "")),
            edited(reference, ("min(", "max(")) if right != rooms[-1] else reference[:1],
            edited(reference, ('"a").write(', '"w").write(')),
        ),
    )


@family(level=2, domain="admin", services=("owncloud",), split="train")
def file_the_letters(setting: Setting) -> OfficePlan:
    """Move old letters into folders of their years."""
    rng = setting.rng
    customers = rng.sample(CUSTOMERS, 7)
    years = [2023, 2023, 2024, 2024, 2025, 2025, rng.randrange(2023, 2026)]
    limit, inbox = rng.choice((2024, 2025)), f"Inbox-{rng.choice(CITIES)}-{rng.randrange(10, 100)}"
    letters = {
        f"{setting.date(year)}-{name.split()[0].lower()}.txt": f"Dear office,\nregards, {name}\n"
        for name, year in zip(customers, years, strict=True)
    }
    company = setting.base + CompanySeed(
        files={f"{inbox}/{name}": text for name, text in letters.items()},
        folders=("Archive/2023", "Archive/2024", "Archive/2025"),
    )
    old = {name for name in letters if int(name[:4]) < limit}
    moves = {name: f"Archive/{name[:4]}/{name}" for name in sorted(old)}
    after = {
        (f"Archive/{name[:4]}/{name}" if name in old else f"{inbox}/{name}"): text.encode()
        for name, text in letters.items()
    }
    reference = (
        f"office files list {inbox}",
        "\n".join(f"office files move {inbox}/{name} {path}" for name, path in moves.items()),
    )
    younger = min(set(letters) - old)

    def moved(seen: Evidence) -> int:
        read = seen.office.read_file
        there = sum(read(f"{inbox}/{n}") is None and read(p) == after[p] for n, p in moves.items())
        return 2 if there == len(old) else int(there * 2 >= len(old))

    return OfficePlan(
        instruction=setting.told(words.FILE_THE_LETTERS, inbox=inbox, limit=limit),
        company=company,
        checkpoints=(must("the old letters are in their folders", moved, 2),),
        allows=allow.moved({f"{inbox}/{name}": path for name, path in moves.items()}),
        reference=reference,
        near_misses=(
            (*reference, f"office files move {inbox}/{younger} Archive/{younger[:4]}/{younger}"),
            edited(reference, ("Archive/2023", "Archive/2024")),
        ),
    )


def numbers(of: list[tuple[str, int, str]]) -> list[tuple[str, list[int]]]:
    """The numbers that were asked for, by item; `of` has who, how many and what."""
    items = sorted({what for _, _, what in of})
    return [(item, [n for _, n, what in of if what == item]) for item in items]


@family(level=3, domain="admin", services=("rocketchat", "owncloud"), split="train")
def collect_supplies(setting: Setting) -> OfficePlan:
    """Add up what people asked for in a channel."""
    rng = setting.rng
    wishes = [
        (one.username, rng.randrange(2, 12), rng.choice(SUPPLIES))
        for one in (*setting.people(8), *setting.people(10))
    ]
    cancelled, _, _ = rng.choice(wishes[:5])
    posts = [Post(sender=who, text=f"Please order {n} x {what}.") for who, n, what in wishes]
    talk = Post(sender=setting.person().username, text=f"Is the {rng.choice(SUPPLIES)} shelf full?")
    posts.insert(rng.randrange(len(posts)), talk)
    rng.shuffle(posts)
    posts.append(Post(sender=cancelled, text="Please cancel my order."))
    kept = [one for one in wishes if one[0] != cancelled]

    def totals(of: list[tuple[str, int, str]]) -> str:
        return table([("item", "quantity"), *((item, sum(ns)) for item, ns in numbers(of))])

    channel = rng.choice(("office-supplies", "orders", "stationery"))
    path = f"Orders/{setting.date()}.csv"
    company = setting.base + CompanySeed(
        channels=(
            Channel(
                name=channel, members=tuple({one[0]: None for one in wishes}), posts=tuple(posts)
            ),
        ),
        folders=("Orders",),
    )
    look = (
        f"office rocketchat GET channels.messages roomName={channel} count=0 | "
        'python3 -c \'import json, sys\nfor one in json.load(sys.stdin)["messages"]:\n'
        ' print(one["u"]["username"], one["msg"])\''
    )

    def solve(of: list[tuple[str, int, str]]) -> tuple[str, ...]:
        add_up = [f'echo "{item},$(({" + ".join(map(str, ns))}))"' for item, ns in numbers(of)]
        return (look, "\n".join(add_up), bash.upload("order.csv", totals(of), path))

    wanted = rows_of(totals(kept).encode())
    return OfficePlan(
        instruction=setting.told(words.COLLECT_SUPPLIES, channel=channel, path=path),
        company=company,
        checkpoints=(
            must(
                "the items are listed",
                lambda seen: [r[0] for r in seen.rows(path)] == [r[0] for r in wanted],
            ),
            must("the quantities are right", lambda seen: are_rows(seen.rows(path), wanted), 2),
        ),
        allows=allow.file(path),
        reference=solve(kept),
        near_misses=(
            solve(wishes),
            (*solve(kept), bash.post(f"#{channel}", "Your supplies are ordered.")),
        ),
    )


def colleagues_of_order_equipment(
    clerk: Person, boss: Person, item: str, total: str, price: str, center: str
) -> tuple[Colleague, ...]:
    """Who knows what."""
    return (
        clerk.knows(
            Fact(when=("price|cost|costs", item), say=f"One {item} costs {price}."), sends_to=boss
        ),
        boss.knows(
            Fact(
                when=("cost center|cost centre|centre|center|charge|account|bill|book",),
                say=f"With that total, use cost center {center}.",
                needs=(total,),
                otherwise="Tell me the total of the order first, such as 1234.50.",
            )
        ),
    )


@family(level=4, domain="admin", services=("rocketchat", "owncloud"), split="heldout")
def order_equipment(setting: Setting) -> OfficePlan:
    """Ask one colleague for a price, another for the cost centre, and write the order."""
    rng = setting.rng
    item, count, cents = rng.choice(PRODUCTS), rng.randrange(3, 30), rng.randrange(1500, 90000)
    price, total = f"{cents / 100:.2f}", f"{count * cents / 100:.2f}"
    center = f"CC-{rng.randrange(1000, 10000)}"
    clerk = setting.with_role("Office Administrator")
    boss = setting.with_role("Finance Director")
    path = f"Orders/order-{rng.randrange(100, 1000)}.csv"
    company = setting.base + CompanySeed(
        folders=("Orders",),
        colleagues=colleagues_of_order_equipment(clerk, boss, item, total, price, center),
    )
    steps = (
        *bash.ask((clerk, f"What is the price of one {item}?")),
        f"python3 -c 'print(\"%.2f\" % ({count} * {price}))'",
        *bash.ask((boss, f"The total is {total}. Which cost center shall I use?")),
    )

    def order(*cells: object) -> str:
        head = ("item", "quantity", "unit_price", "total", "cost_center")
        return bash.upload("order.csv", table([head, cells]), path)

    right = (item, count, price, total, center)

    def has_asked(seen: Evidence) -> bool:
        found = asked(seen.office.rocketchat, "im.history", {"roomId": boss.username, "count": 0})
        return any(center in one["msg"] for one in found["messages"])

    return OfficePlan(
        instruction=setting.told(
            words.ORDER_EQUIPMENT, count=count, item=item, clerk=clerk, boss=boss, path=path
        ),
        company=company,
        checkpoints=(
            must("the cost center was asked for, with the total", has_asked),
            must(
                "item, quantity and amounts are right",
                lambda seen: (
                    [seen.record(path).get(k) for k in ("item", "quantity", "unit_price", "total")]
                    == [item, str(count), price, total]
                ),
            ),
            must(
                "the cost center is right",
                lambda seen: seen.record(path).get("cost_center") == center,
            ),
        ),
        allows=(*allow.file(path), *allow.talk(clerk, boss)),
        reference=(*steps, order(*right)),
        near_misses=(
            (*steps, order(item, count, price, price, center)),
            (*steps[:1], order(item, count, price, total, "CC-0000")),
            (*steps, bash.post("#general", f"We order {item}."), order(*right)),
        ),
    )
