"""Tasks of sales and business: prices, offers, customers, presentations."""

from practicum_envs.office.company_seed import Colleague, CompanySeed, Fact, Person
from practicum_envs.office.evidence import Evidence, rows_of
from practicum_envs.office.families import allow, bash
from practicum_envs.office.families import business_wordings as words
from practicum_envs.office.families.family_parts import (
    edited,
    must,
    table,
    table_checks,
)
from practicum_envs.office.families.seed_documents import docx, pptx, xlsx
from practicum_envs.office.generated_company import CITIES, CUSTOMERS, PRODUCTS
from practicum_envs.office.office_plan import OfficePlan, Setting, family

SHARES = "http://the-agent-company.com:8092/ocs/v1.php/apps/files_sharing/api/v1/shares"


@family(level=1, domain="business", services=("owncloud",), split="train")
def share_an_offer(setting: Setting) -> OfficePlan:
    """Share a file with someone, to read only."""
    rng = setting.rng
    person, other = setting.people(2)
    names = [one.split()[0].lower() for one in rng.sample(CUSTOMERS, 4)]
    files = {f"Offers/{one}.txt": f"Offer {rng.randrange(10**6)}\n" for one in names}
    path, wrong = f"Offers/{names[0]}.txt", f"Offers/{names[1]}.txt"
    company = setting.base + CompanySeed(files=files)

    def share(what: str, who: str, permissions: int) -> tuple[str, ...]:
        login = "curl -s -u theagentcompany:theagentcompany"
        fields = f"-d path=/{what} -d shareType=0 -d shareWith={who} -d permissions={permissions}"
        return (f"{login} {fields} {SHARES}",)

    def is_shared(seen: Evidence) -> bool:
        return (path, person.username) in {one[:2] for one in seen.shares()}

    return OfficePlan(
        instruction=setting.told(words.SHARE_AN_OFFER, path=path, person=person, SHARES=SHARES),
        company=company,
        checkpoints=(
            must("the file is shared with the person", is_shared),
            must(
                "it is to read only, and nothing else is shared",
                lambda seen: seen.shares() == {(path, person.username, 1)},
            ),
        ),
        allows=(allow.new_at("owncloud", "shares", "*"),),
        reference=share(path, person.username, 1),
        near_misses=(
            share(path, person.username, 31),
            share(path, other.username, 1),
            share(wrong, person.username, 1),
            (*share(path, person.username, 1), *share(wrong, person.username, 1)),
        ),
    )


RAISE_PRICES_SOLUTION = """
import csv
from decimal import Decimal as D, ROUND_HALF_UP
rows = list(csv.reader(open("{file}")))
for r in rows[1:]:
    if r[1] == "{group}":
        r[2] = (D(r[2]) * (100 + {percent}) / 100).quantize(D("0.01"), ROUND_HALF_UP)
csv.writer(open("new.csv", "w")).writerows(rows)
"""


@family(level=2, domain="business", services=("owncloud",), split="train")
def raise_prices(setting: Setting) -> OfficePlan:
    """Raise the prices of one group, rounded to cents."""
    rng = setting.rng
    group, other = rng.sample(("furniture", "electronics", "paper", "kitchen"), 2)
    percent = rng.randrange(2, 19)
    head = ("product", "group", "price")
    goods = rng.sample(PRODUCTS, 8)
    kinds = [group, other, group, other, *(rng.choice((group, other)) for _ in range(4))]
    cents = [rng.randrange(199, 40_000) for _ in goods]
    rows = list(zip(goods, kinds, [f"{one / 100:.2f}" for one in cents], strict=True))
    raised = [(one * (100 + percent) + 50) // 100 for one in cents]
    new = [
        (good, kind, f"{up / 100:.2f}" if kind == group else price)
        for (good, kind, price), up in zip(rows, raised, strict=True)
    ]
    path = f"Sales/prices-{rng.choice(CITIES).lower()}-{rng.randrange(10, 100)}.csv"
    company = setting.base + CompanySeed(files={path: table([head, *rows])})
    file = path.rpartition("/")[2]
    solve = RAISE_PRICES_SOLUTION.format(file=file, group=group, percent=percent)
    reference = (bash.fetch(path) + f"\nhead -4 {file}", bash.make(solve, "new.csv", path))

    def is_raised(seen: Evidence) -> bool:
        found = [one for one in seen.rows(path) if one[1:2] == (group,)]
        return found == [one for one in new if one[1] == group]

    return OfficePlan(
        instruction=setting.told(words.RAISE_PRICES, path=path, group=group, percent=percent),
        company=company,
        checkpoints=(
            must(f"the prices of {group} are right", is_raised, 2),
            must(
                "the rest of the list is as it was",
                lambda seen: seen.rows(path) == [head, *new],
            ),
        ),
        allows=allow.file(path),
        reference=reference,
        near_misses=(
            edited(reference, (f'if r[1] == "{group}":', "if True:")),
            edited(reference, (f"(100 + {percent})", f"(101 + {percent})")),
            edited(reference, ('D("0.01")', 'D("0.001")')),
        ),
    )


LIST_FOLLOW_UPS_SOLUTION = """
import csv, re, zipfile
sheet = zipfile.ZipFile("{file}").read("xl/worksheets/sheet1.xml").decode()
rows = [re.findall("<t>(.*?)</t>", row) for row in re.findall("<row.*?</row>", sheet)][1:]
late = sorted((r[3], r[0]) for r in rows if r[2] == "active" and r[3] < "{limit}")
csv.writer(open("f.csv", "w")).writerows([("customer", "last_contact"), *((n, d) for d, n in late)])
"""


@family(level=2, domain="business", services=("owncloud",), split="heldout")
def list_follow_ups(setting: Setting) -> OfficePlan:
    """List the customers of a workbook that nobody has spoken to for long."""
    rng = setting.rng
    customers = rng.sample(CUSTOMERS, 9)
    limit = f"2026-{rng.randrange(3, 11):02d}-{rng.randrange(1, 29):02d}"
    states = [
        "active",
        "active",
        "active",
        "closed",
        *(rng.choice(("active", "closed")) for _ in range(5)),
    ]
    days = [f"2025-{rng.randrange(1, 13):02d}-15", "2026-01-20", limit, "2025-11-11"]
    days += [setting.date() for _ in range(5)]
    rows = [
        (name, rng.choice(CITIES), state, day)
        for name, state, day in zip(customers, states, days, strict=True)
    ]
    file = f"{rng.choice(CITIES).lower()}-{rng.randrange(10, 100)}.xlsx"
    path, target = f"Sales/{file}", f"Sales/follow-up-{limit}.csv"
    head = ("customer", "city", "status", "last_contact")
    company = setting.base + CompanySeed(files={path: xlsx([head, *rng.sample(rows, 9)])})
    late = sorted((day, name) for name, _, state, day in rows if state == "active" and day < limit)
    wanted = rows_of(table([("customer", "last_contact"), *((n, d) for d, n in late)]).encode())
    solve = LIST_FOLLOW_UPS_SOLUTION.format(file=file, limit=limit)
    reference = (bash.fetch(path), bash.make(solve, "f.csv", target))

    return OfficePlan(
        instruction=setting.told(words.LIST_FOLLOW_UPS, path=path, limit=limit, target=target),
        company=company,
        checkpoints=table_checks("the right customers are listed", target, wanted),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, ('r[2] == "active" and ', "")),
            edited(reference, (f'< "{limit}"', f'<= "{limit}"')),
            edited(reference, ("for d, n in late)", "for d, n in late[::-1])")),
        ),
    )


OUTLINE_A_DECK_SOLUTION = """
import re, zipfile
deck, lines = zipfile.ZipFile("{name}.pptx"), []
count = sum(n.startswith("ppt/slides/slide") for n in deck.namelist())
for n in range(1, count + 1):
    title = re.findall("<a:t>(.*?)</a:t>", deck.read(f"ppt/slides/slide{{n}}.xml").decode())[0]
    lines.append(f"{{n}}. {{title}}")
open("outline.txt", "w").write("\\n".join(lines) + "\\n")
"""


@family(level=2, domain="business", services=("owncloud",), split="heldout")
def outline_a_deck(setting: Setting) -> OfficePlan:
    """Write down the titles of a presentation's slides."""
    rng = setting.rng
    themes = ("Market", "Team", "Costs", "Risks", "Plan", "Demand", "Rivals", "Product", "Outlook")
    titles = [f"{word} in {rng.choice(CITIES)}" for word in rng.sample(themes, rng.randrange(4, 8))]
    slides = [(one, f"Growth of {rng.randrange(2, 60)} percent", "More to come") for one in titles]
    name = f"{rng.choice(CUSTOMERS).split()[0].lower()}-{rng.randrange(10, 1000)}"
    path, target = f"Decks/{name}.pptx", f"Decks/{name}-outline.txt"
    company = setting.base + CompanySeed(files={path: pptx(slides)})
    wanted = [f"{n}. {title}" for n, title in enumerate(titles, 1)]
    solve = OUTLINE_A_DECK_SOLUTION.format(name=name)
    reference = (bash.fetch(path), bash.make(solve, "outline.txt", target))

    def lines(seen: Evidence) -> list[str]:
        return [one.strip() for one in seen.text(target).splitlines()]

    return OfficePlan(
        instruction=setting.told(words.OUTLINE_A_DECK, path=path, target=target),
        company=company,
        checkpoints=(
            must(
                "every slide has a line",
                lambda seen: len(lines(seen)) == len(wanted) and wanted[0] in lines(seen),
            ),
            must("the outline is right", lambda seen: lines(seen) == wanted, 2),
        ),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, ("decode())[0]", "decode())[1]")),
            edited(reference, ("range(1, count + 1)", "range(1, count)")),
            edited(reference, ("{n}. {title}", "{n - 1}. {title}")),
        ),
    )


QUOTE_A_CUSTOMER_SOLUTION = """
import csv, re, zipfile
letter = zipfile.ZipFile("letter.docx").read("word/document.xml").decode()
print(re.findall("<w:t>(.*?)</w:t>", letter))
prices = {r["product"]: int(r["price"]) for r in csv.DictReader(open("prices.csv"))}
print(sum(int(n) * prices[p] for n, p in re.findall(r"<w:t>(\\d+) x (.*?)</w:t>", letter)))
"""


@family(level=3, domain="business", services=("owncloud", "rocketchat"), split="train")
def quote_a_customer(setting: Setting) -> OfficePlan:
    """Work out a quote from a letter and a price list, and tell the sales director."""
    rng = setting.rng
    customer, goods = rng.choice(CUSTOMERS), rng.sample(PRODUCTS, 12)
    prices = {one: rng.randrange(4, 400) for one in goods}
    wants = [(one, rng.randrange(2, 40)) for one in goods[:6]]
    boss, other = setting.with_role("Sales Director"), setting.with_role("Data Analyst")
    letter = (
        f"Letter from {customer}",
        f"Dear sales team, we have moved to {rng.choice(CITIES)} and are growing.",
        f"There are {rng.randrange(20, 90)} of us now, in {rng.randrange(2, 9)} rooms.",
        f"The {goods[7]} that you sent us in spring is still in use, and the {goods[8]} too.",
        f"We had thought of {rng.randrange(3, 9)} pieces of {goods[9]} as well, but not this year.",
        "Please send us a quote for:",
        *(f"{count} x {one}" for one, count in wants),
        "All of it has to be here before the summer, in one delivery.",
        f"Our old order was 5 pieces, number {rng.randrange(1000, 9999)}.",
    )
    company = setting.base + CompanySeed(
        files={
            "Sales/letter.docx": docx(letter),
            "Sales/prices.csv": table([("product", "price"), *prices.items()]),
        }
    )
    total = sum(count * prices[one] for one, count in wants)
    text = f"Quote for {customer}: {total} EUR"
    find = (
        bash.fetch("Sales/letter.docx", "Sales/prices.csv")
        + "\n"
        + bash.python(QUOTE_A_CUSTOMER_SOLUTION)
    )

    def told(seen: Evidence) -> list[str]:
        return seen.spoken().get(f"@{boss.username}", [])

    return OfficePlan(
        instruction=setting.told(words.QUOTE_A_CUSTOMER, boss=boss),
        company=company,
        checkpoints=(
            must(
                "the message names the customer",
                lambda seen: any(one.startswith(f"Quote for {customer}: ") for one in told(seen)),
            ),
            must("the price is right", lambda seen: told(seen).count(text) == 1, 2),
        ),
        allows=(allow.post(f"@{boss.username}"),),
        reference=(find, bash.post(f"@{boss.username}", text)),
        near_misses=(
            (
                find,
                bash.post(f"@{boss.username}", f"Quote for {customer}: {sum(prices.values())} EUR"),
            ),
            (find, bash.post(f"@{other.username}", text)),
            (find, bash.post(f"@{boss.username}", text), bash.post("#general", text)),
        ),
    )


def colleagues_of_grant_a_discount(
    boss: Person, maker: Person, customer: str, item: str, percent: int, count: int, day: str
) -> tuple[Colleague, ...]:
    """Who knows what."""
    return (
        boss.knows(
            Fact(
                when=("discount|rebate|percent|cheaper|off",),
                say=f"{customer} gets {percent} percent.",
                needs=(customer,),
                otherwise="For which customer? It is not the same for all.",
            ),
            sends_to=maker,
        ),
        maker.knows(
            Fact(
                when=("deliver|delivery|ship|ready|when|arrive",),
                say=f"We can deliver {count} x {item} on {day}.",
                needs=(item, str(count)),
                otherwise="That depends on what they want, and how many pieces of it.",
            )
        ),
    )


@family(level=4, domain="business", services=("owncloud", "rocketchat"), split="train")
def grant_a_discount(setting: Setting) -> OfficePlan:
    """Learn a discount and a delivery day from two colleagues, and write an offer."""
    rng = setting.rng
    customer = rng.choice(CUSTOMERS)
    boss, maker = setting.with_role("Sales Director"), setting.with_role("Product Manager")
    item, count = rng.choice(PRODUCTS), rng.randrange(10, 60)
    price, percent, day = rng.randrange(10, 300), rng.randrange(3, 25), setting.date()
    right = f"{count * price * (100 - percent) / 100:.2f}"
    target = f"Offers/{customer.split()[0].lower()}-{rng.randrange(100, 1000)}.json"
    pieces = [(one, rng.randrange(10, 300)) for one in PRODUCTS if one != item]
    rows = rng.sample([*pieces, (item, price)], len(PRODUCTS))
    company = setting.base + CompanySeed(
        files={"Sales/prices.csv": table([("product", "price"), *rows])},
        folders=("Offers",),
        colleagues=colleagues_of_grant_a_discount(boss, maker, customer, item, percent, count, day),
    )
    questions = (
        (boss, f"Which discount does {customer} get?"),
        (maker, f"When can we deliver {count} x {item}?"),
    )
    add_up = f"python3 -c 'print(\"%.2f\" % ({count} * {price} * (100 - {percent}) / 100))'"
    steps = (bash.fetch("Sales/prices.csv") + "\ncat prices.csv", *bash.ask(*questions), add_up)

    def offer(value: object, when: str) -> str:
        text = f'{{"customer": "{customer}", "total": {value}, "delivery": "{when}"}}'
        return bash.upload("offer.json", text, target)

    wanted = {"customer": customer, "total": float(right), "delivery": day}
    return OfficePlan(
        instruction=setting.told(
            words.GRANT_A_DISCOUNT,
            customer=customer,
            count=count,
            item=item,
            boss=boss,
            maker=maker,
            target=target,
        ),
        company=company,
        checkpoints=(
            must(
                "the total is right",
                lambda seen: seen.json_object(target).get("total") == float(right),
                2,
            ),
            must(
                "the delivery is right",
                lambda seen: seen.json_object(target).get("delivery") == day,
            ),
            must("the offer has nothing else", lambda seen: seen.json_object(target) == wanted),
        ),
        allows=(*allow.file(target), *allow.talk(boss, maker)),
        reference=(*steps, offer(right, day)),
        near_misses=(
            (*steps, offer(count * price, day)),
            (*steps[:3], offer(right, "2026-01-01")),
            (*steps, offer(float(right) + 0.1, day)),
            (*steps, bash.post("#general", customer), offer(right, day)),
        ),
    )
