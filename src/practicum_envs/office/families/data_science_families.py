"""Tasks of a data analyst: tables, databases, surveys."""

import json
import sqlite3

from practicum_envs.office.company_seed import CompanySeed
from practicum_envs.office.evidence import Evidence, is_rounded, rows_of, text_of
from practicum_envs.office.families import allow, bash
from practicum_envs.office.families import data_science_wordings as words
from practicum_envs.office.families.family_parts import (
    edited,
    must,
    table,
    table_checks,
)
from practicum_envs.office.families.seed_documents import xlsx
from practicum_envs.office.generated_company import CITIES, CUSTOMERS, PRODUCTS
from practicum_envs.office.office_plan import OfficePlan, Setting, family


@family(level=1, domain="data science", services=("owncloud",), split="train")
def add_up_a_column(setting: Setting) -> OfficePlan:
    """Add up a column of a csv file."""
    rng = setting.rng
    names = rng.sample(("visits", "orders", "returns", "calls"), 3)
    column = rng.randrange(3)
    values = [[rng.randrange(10, 900) for _ in names] for _ in range(rng.randrange(8, 16))]
    rows = [(setting.date(), *row) for row in values]
    path = f"Data/{rng.choice(CITIES).lower()}-{rng.randrange(10, 100)}.csv"
    company = setting.base + CompanySeed(files={path: table([("date", *names), *rows])})
    total = sum(row[column] for row in values)
    file = path.rpartition("/")[2]
    rows_of = f"csv.DictReader(open('{file}'))"  # by name: nothing said which column it is
    sums = (
        f"python3 -c \"import csv; print(sum(int(row['{names[column]}']) for row in {rows_of}))\""
        " > total.txt"
    )
    reference = (f"{bash.fetch(path)}\n{sums}",)
    return OfficePlan(
        instruction=setting.told(words.ADD_UP_A_COLUMN, path=path, value1=names[column]),
        company=company,
        checkpoints=(
            must("the sum is right", lambda seen: text_of(seen.file("total.txt")) == str(total)),
        ),
        reference=reference,
        near_misses=(
            edited(reference, (f"['{names[column]}']", f"['{names[column - 1]}']")),
            edited(reference, (rows_of, f"list({rows_of})[1:]")),
            edited(reference, (sums, f"{sums}\n{bash.put('total.txt', path)}")),
        ),
    )


CLEAN_A_TABLE_SOLUTION = """
import csv
head, *rows = csv.reader(open("raw.csv"))
kept = sorted({tuple(r) for r in rows if all(r)}, key=lambda r: int(r[0]))
csv.writer(open("clean.csv", "w")).writerows([head, *kept])
"""


@family(level=2, domain="data science", services=("owncloud",), split="train")
def clean_a_table(setting: Setting) -> OfficePlan:
    """Leave out lines that are double or incomplete, and sort."""
    rng = setting.rng
    good = [
        (number, rng.choice(CUSTOMERS), rng.choice(CITIES), rng.randrange(100, 9000))
        for number in rng.sample(range(1000, 9999), 8)
    ]
    bad: list[tuple[object, ...]] = [
        (n, who, "", amount) for n, (_, who, _, amount) in enumerate(good[:2], 10_001)
    ]
    bad += [(10_100, rng.choice(CUSTOMERS), rng.choice(CITIES), "")]
    lines = [*good, *bad, *rng.sample(good, 3)]
    rng.shuffle(lines)
    head = ("id", "customer", "city", "amount")
    source, target = "Data/raw.csv", f"Data/clean-{setting.date()}.csv"
    company = setting.base + CompanySeed(files={source: table([head, *lines])})
    reference = (
        bash.fetch(source) + "\nhead raw.csv",
        bash.make(CLEAN_A_TABLE_SOLUTION, "clean.csv", target),
    )
    wanted = rows_of(table([head, *sorted(good)]).encode())

    return OfficePlan(
        instruction=setting.told(words.CLEAN_A_TABLE, source=source, target=target),
        company=company,
        checkpoints=table_checks("no line is missing or double", target, wanted, is_exact=True),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, (" if all(r)", "")),
            edited(reference, (", key=lambda r: int(r[0])", ", key=lambda r: r[1:]")),
            edited(reference, (target, source)),
        ),
    )


QUERY_A_DATABASE_SOLUTION = """
import csv, sqlite3
rows = sqlite3.connect("shop.db").execute('''SELECT name, SUM(amount) AS total FROM orders
  JOIN customers ON customers.id = customer_id WHERE status = '{state}'
  GROUP BY name ORDER BY total DESC, name''')
csv.writer(open("report.csv", "w")).writerows([("customer", "total"), *rows])
"""


@family(level=2, domain="data science", services=("owncloud",), split="heldout")
def query_a_database(setting: Setting) -> OfficePlan:
    """Sums by group from an SQLite database."""
    rng = setting.rng
    customers = rng.sample(CUSTOMERS, 5)
    orders = [
        (
            n,
            rng.randrange(1, 6),
            rng.choice(("paid", "paid", "open", "cancelled")),
            rng.randrange(20, 900),
        )
        for n in range(1, 31)
    ]
    orders += [(31, 1, "paid", rng.randrange(20, 900)), (32, 2, "open", 55)]
    state = rng.choice(("paid", "open"))
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE customers (id INTEGER, name TEXT)")
    base.execute(
        "CREATE TABLE orders (id INTEGER, customer_id INTEGER, status TEXT, amount INTEGER)"
    )
    base.executemany("INSERT INTO customers VALUES (?, ?)", enumerate(customers, 1))
    base.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", orders)
    base.commit()
    content = base.serialize()
    base.close()
    path, target = "Data/shop.db", f"Reports/{state}-{setting.date()}.csv"
    company = setting.base + CompanySeed(files={path: content}, folders=("Reports",))
    totals = {
        name: sum(a for _, c, s, a in orders if c == n and s == state)
        for n, name in enumerate(customers, 1)
    }
    ranked = sorted(((k, v) for k, v in totals.items() if v), key=lambda one: (-one[1], one[0]))
    wanted = rows_of(table([("customer", "total"), *ranked]).encode())
    solve = QUERY_A_DATABASE_SOLUTION.format(state=state)
    reference = (bash.fetch(path), bash.make(solve, "report.csv", target))

    return OfficePlan(
        instruction=setting.told(words.QUERY_A_DATABASE, path=path, state=state, target=target),
        company=company,
        checkpoints=table_checks("the totals are right", target, wanted),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, (f"WHERE status = '{state}'", "")),
            edited(reference, ("total DESC", "total")),
            edited(reference, ("SUM(", "COUNT(")),
        ),
    )


JOIN_TWO_TABLES_SOLUTION = """
import csv, json
prices, found = json.load(open("prices.json")), {{}}
for r in csv.DictReader(open("sales.csv")):
    if r["date"].startswith("{month}"):
        found[r["product"]] = found.get(r["product"], 0) + int(r["quantity"]) * prices[r["product"]]
json.dump(found, open("revenue.json", "w"))
"""


@family(level=2, domain="data science", services=("owncloud",), split="train")
def join_two_tables(setting: Setting) -> OfficePlan:
    """Revenue of products from a csv file and a JSON file."""
    rng = setting.rng
    products = rng.sample(PRODUCTS, 6)
    prices = {name: rng.randrange(3, 300) for name in products}
    sales = [(setting.date(), rng.choice(products[:5]), rng.randrange(1, 20)) for _ in range(18)]
    month = sales[0][0][:7]
    sales += [(f"{month}-{n:02d}", rng.choice(products[:5]), rng.randrange(1, 20)) for n in (3, 9)]
    folder = f"Data/{rng.choice(CITIES).lower()}-{rng.randrange(10, 100)}"
    target = f"Reports/revenue-{month}.json"
    company = setting.base + CompanySeed(
        files={
            f"{folder}/sales.csv": table([("date", "product", "quantity"), *sales]),
            f"{folder}/prices.json": json.dumps(prices, indent=1),
        },
        folders=("Reports",),
    )
    wanted: dict[str, int] = {}
    for day, name, count in sales:
        if day.startswith(month):
            wanted[name] = wanted.get(name, 0) + count * prices[name]
    solve = JOIN_TWO_TABLES_SOLUTION.format(month=month)
    reference = (
        bash.fetch(f"{folder}/sales.csv", f"{folder}/prices.json")
        + "\nhead -3 sales.csv prices.json",
        bash.make(solve, "revenue.json", target),
    )

    def products_of(seen: Evidence) -> bool:
        got = seen.json(target)
        return isinstance(got, dict) and got.keys() == wanted.keys()

    return OfficePlan(
        instruction=setting.told(words.JOIN_TWO_TABLES, folder=folder, month=month, target=target),
        company=company,
        checkpoints=(
            must("the products of the month are there", products_of),
            must("every revenue is right", lambda seen: seen.json(target) == wanted, 2),
        ),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, (f'.startswith("{month}")', f'.startswith("{month[:4]}")')),
            edited(reference, (' * prices[r["product"]]', "")),
        ),
    )


REPORT_A_SURVEY_SOLUTION = """
import re, zipfile
sheet = zipfile.ZipFile("{file}").read("xl/worksheets/sheet1.xml").decode()
v = [int(x) for x in re.findall(r'<c r="{letter}\\d+"><v>(\\d+)', sheet)]
print(f"{start}{{sum(v) / len(v):.2f}}, low answers {{sum(x <= 2 for x in v)}}")
"""


@family(level=3, domain="data science", services=("owncloud", "rocketchat"), split="train")
def report_a_survey(setting: Setting) -> OfficePlan:
    """Read a workbook and tell a channel the mean of a question."""
    rng = setting.rng
    topics = rng.sample(("food", "tools", "office", "training", "pay", "teamwork"), 5)
    count = rng.randrange(40, 80)
    scores = [[rng.randrange(1, 6) for _ in topics] for _ in range(count)]
    answers = [(f"P{n:02d}", *row) for n, row in enumerate(scores, 1)]
    column = rng.randrange(5)
    values = [row[column] for row in scores]
    mean = sum(values) / count
    path = f"Surveys/survey-{rng.randrange(2020, 2027)}-{rng.randrange(1, 13):02d}.xlsx"
    channel = rng.choice(setting.base.channels).name
    company = setting.base + CompanySeed(files={path: xlsx([("person", *topics), *answers])})
    start = f"Survey: {topics[column]} "
    low = sum(value <= 2 for value in values)
    file, letter = path.rpartition("/")[2], "BCDEF"[column]
    solve = REPORT_A_SURVEY_SOLUTION.format(file=file, letter=letter, start=start)
    send = f"office rocketchat POST chat.postMessage channel='#{channel}' text=\"$TEXT\""
    reference = (bash.fetch(path), f"TEXT=$({bash.python(solve)}\n)\n{send}")

    def parts(seen: Evidence) -> list[tuple[str, str]]:
        said = [one for one in seen.spoken().get(f"#{channel}", []) if one.startswith(start)]
        return [
            (one.removeprefix(start).partition(", low answers ")[0], one.partition("answers ")[2])
            for one in said
        ]

    def is_right(seen: Evidence) -> bool:
        found = parts(seen)
        return len(found) == 1 and is_rounded(found[0][0], mean, 2) and len(found[0][0]) == 4

    return OfficePlan(
        instruction=setting.told(
            words.REPORT_A_SURVEY, path=path, channel=channel, value1=topics[column], start=start
        ),
        company=company,
        checkpoints=(
            must("the mean is right", is_right, 2),
            must(
                "the number of low answers is right",
                lambda seen: [one[1] for one in parts(seen)] == [str(low)],
            ),
        ),
        allows=(allow.post(f"#{channel}"),),
        reference=reference,
        near_misses=(
            edited(reference, (":.2f}", ":.1f}")),
            edited(reference, ("x <= 2", "x < 2")) if 2 in values else reference[:1],
            edited(reference, (f"channel='#{channel}'", "channel=@" + setting.person().username)),
        ),
    )
