"""Tasks of the finance team: expenses, invoices, currencies, approvals."""

import json

from practicum_envs.office.company_seed import Colleague, CompanySeed, Fact, Person
from practicum_envs.office.evidence import Evidence, are_rows, is_cell, rows_of, text_of
from practicum_envs.office.families import allow, bash
from practicum_envs.office.families import finance_wordings as words
from practicum_envs.office.families.family_parts import edited, must, table
from practicum_envs.office.families.seed_documents import docx
from practicum_envs.office.generated_company import CUSTOMERS
from practicum_envs.office.office_plan import OfficePlan, Setting, family

READ_DOCX = """
import re, zipfile
text = zipfile.ZipFile("request.docx").read("word/document.xml").decode()
print(re.findall("<w:t>(.*?)</w:t>", text))
"""
KINDS = ("travel", "meals", "hotel", "software", "training")


@family(level=1, domain="finance", services=("owncloud",), split="heldout")
def count_an_invoice(setting: Setting) -> OfficePlan:
    """Add the amounts of an invoice in a text file."""
    rng = setting.rng
    number = f"INV-{rng.randrange(10_000, 100_000)}"
    cents = [rng.randrange(500, 200_000) for _ in range(rng.randrange(4, 9))]
    lines = [f"Item {n}: {value / 100:.2f} EUR" for n, value in enumerate(cents, 1)]
    path = f"Invoices/{number}.txt"
    text = "\n".join((f"Invoice {number}", f"From {rng.choice(CUSTOMERS)}", *lines, ""))
    other = f"Invoices/INV-{rng.randrange(1000, 9999)}.txt"
    company = setting.base + CompanySeed(files={path: text, other: text.replace(": 1", ": 2")})
    total = f"{sum(cents) / 100:.2f}"
    sums = f"awk '/^Item/ {{s += $3}} END {{printf \"%.2f\\n\", s}}' {number}.txt > total.txt"
    reference = (f"{bash.fetch(path)}\n{sums}",)
    return OfficePlan(
        instruction=setting.told(words.COUNT_AN_INVOICE, path=path),
        company=company,
        checkpoints=(
            must("the total is right", lambda seen: text_of(seen.file("total.txt")) == total),
        ),
        reference=reference,
        near_misses=(
            edited(reference, ("/^Item/", "/^Item [2-9]/")),
            edited(reference, ("%.2f", "%.0f")) if sum(cents) % 100 else reference[:0],
            (*reference, bash.put("total.txt", "Invoices/total.txt")),
        ),
    )


REJECT_EXPENSES_SOLUTION = """
import csv, json
limits, out = json.load(open("limits.json")), csv.writer(open("rejected.csv", "w"))
out.writerow(["id", "person", "kind", "amount", "over"])
for r in csv.DictReader(open("expenses.csv")):
    over = int(r["amount"]) - limits[r["kind"]]
    if over > 0:
        out.writerow([*r.values(), over])
"""


@family(level=2, domain="finance", services=("owncloud",), split="train")
def reject_expenses(setting: Setting) -> OfficePlan:
    """List the expenses that are over their limits."""
    rng = setting.rng
    limits = {kind: rng.randrange(50, 900) for kind in KINDS}
    expenses = []
    for number in rng.sample(range(100, 1000), 14):
        kind = rng.choice(KINDS)
        amount = limits[kind] + rng.choice((-40, -7, -1, 0, 1, 9, 60, 200))
        expenses.append((f"E{number}", setting.person().name, kind, amount))
    kind = expenses[0][2]
    expenses += [("E98", setting.person().name, kind, limits[kind])]
    expenses += [("E99", setting.person().name, kind, limits[kind] + 1)]
    rng.shuffle(expenses)
    head, target = ("id", "person", "kind", "amount"), f"Finance/rejected-{setting.date()}.csv"
    company = setting.base + CompanySeed(
        files={
            "Finance/expenses.csv": table([head, *expenses]),
            "Finance/limits.json": json.dumps(limits, indent=1),
        }
    )
    over = [(i, who, kind, a, a - limits[kind]) for i, who, kind, a in expenses if a > limits[kind]]
    wanted = rows_of(table([(*head, "over"), *over]).encode())
    reference = (
        bash.fetch("Finance/expenses.csv", "Finance/limits.json"),
        bash.make(REJECT_EXPENSES_SOLUTION, "rejected.csv", target),
    )

    return OfficePlan(
        instruction=setting.told(words.REJECT_EXPENSES, target=target),
        company=company,
        checkpoints=(
            must(
                "the right expenses are rejected",
                lambda seen: {one[0] for one in seen.rows(target)} == {one[0] for one in wanted},
                2,
            ),
            must(
                "every line is right and in order", lambda seen: are_rows(seen.rows(target), wanted)
            ),
        ),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, ("over > 0", "over >= 0")),
            edited(reference, (', "over"]', "]"), ("[*r.values(), over]", "r.values()")),
        ),
    )


CONVERT_CURRENCIES_SOLUTION = """
import csv
from decimal import Decimal as D, ROUND_HALF_UP
rates = {r["currency"]: D(r["eur"]) for r in csv.DictReader(open("rates.csv"))}
rows, total = [("id", "eur")], D(0)
for r in csv.DictReader(open("payments.csv")):
    eur = (D(r["amount"]) * rates[r["currency"]]).quantize(D("0.01"), ROUND_HALF_UP)
    rows.append((r["id"], eur))
    total += eur
csv.writer(open("euro.csv", "w")).writerows([*rows, ("total", total)])
"""


@family(level=2, domain="finance", services=("owncloud",), split="train")
def convert_currencies(setting: Setting) -> OfficePlan:
    """Convert payments to one currency and round them."""
    rng = setting.rng
    names = rng.sample(("USD", "GBP", "NOK", "JPY", "CHF", "TRY"), 4)
    parts = {name: rng.randrange(200, 19_000) for name in names}
    rates = {name: f"{part / 10_000:.4f}" for name, part in parts.items()}
    payments = [
        (f"P{n}", rng.choice(names), rng.randrange(100, 90_000))
        for n in rng.sample(range(100, 999), 9)
    ]
    cents = [(amount * parts[name] + 50) // 100 for _, name, amount in payments]
    target = f"Finance/euro-{setting.date()}.csv"
    company = setting.base + CompanySeed(
        files={
            "Finance/payments.csv": table([("id", "currency", "amount"), *payments]),
            "Finance/rates.csv": table([("currency", "eur"), *rates.items()]),
        }
    )
    lines = [(i, f"{eur / 100:.2f}") for (i, _, _), eur in zip(payments, cents, strict=True)]
    wanted = [("id", "eur"), *lines, ("total", f"{sum(cents) / 100:.2f}")]
    reference = (
        bash.fetch("Finance/payments.csv", "Finance/rates.csv"),
        bash.make(CONVERT_CURRENCIES_SOLUTION, "euro.csv", target),
    )

    return OfficePlan(
        instruction=setting.told(words.CONVERT_CURRENCIES, target=target),
        company=company,
        checkpoints=(
            must(
                "every payment is converted", lambda seen: seen.rows(target)[:-1] == wanted[:-1], 2
            ),
            must("the total is right", lambda seen: seen.rows(target)[-1:] == wanted[-1:]),
        ),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, ('quantize(D("0.01"), ROUND_HALF_UP)', 'quantize(D("0.1"))')),
            edited(reference, (', ("total", total)', "")),
            edited(reference, ("* rates", "/ rates")),
        ),
    )


CHASE_A_PAYMENT_SOLUTION = """
import csv
paid = {}
for r in csv.DictReader(open("payments.csv")):
    paid[r["invoice"]] = paid.get(r["invoice"], 0) + int(r["amount"])
for r in csv.DictReader(open("invoices.csv")):
    if int(r["amount"]) != paid.get(r["invoice"], 0):
        print(r, int(r["amount"]) - paid.get(r["invoice"], 0))
"""


@family(level=3, domain="finance", services=("owncloud", "rocketchat"), split="heldout")
def chase_a_payment(setting: Setting) -> OfficePlan:
    """Find the invoice that was not paid in full and tell whoever looks after the customer."""
    rng = setting.rng
    owners = [*setting.people(6), *setting.people(6)]
    customers = rng.sample(CUSTOMERS, 12)
    numbers = [f"INV-{n}" for n in rng.sample(range(1000, 10_000), 12)]
    amounts = [rng.randrange(400, 20_000) for _ in numbers]
    late, folder = rng.randrange(1, 6), f"Finance/{setting.date()}"
    missing = rng.randrange(1, amounts[late] - 100)
    paid = []
    for n, amount in enumerate(amounts):
        first = rng.randrange(50, 100 if n == late else 300)
        due = amount - (missing if n == late else 0)
        parts = [due] if due <= first or rng.random() < 0.5 else [first, due - first]
        paid += [(setting.date(), numbers[n], part) for part in parts]
    rng.shuffle(paid)
    invoices = list(zip(numbers, customers, [one.username for one in owners], amounts, strict=True))
    company = setting.base + CompanySeed(
        files={
            f"{folder}/invoices.csv": table(
                [("invoice", "customer", "owner", "amount"), *invoices]
            ),
            f"{folder}/payments.csv": table([("date", "invoice", "amount"), *paid]),
        }
    )
    owner = owners[late].username
    text = f"{numbers[late]} is not paid in full: {missing} EUR are open."
    find = (
        bash.fetch(f"{folder}/invoices.csv", f"{folder}/payments.csv")
        + "\n"
        + bash.python(CHASE_A_PAYMENT_SOLUTION)
    )

    def told(seen: Evidence) -> bool:
        return text in seen.spoken().get(f"@{owner}", [])

    return OfficePlan(
        instruction=setting.told(words.CHASE_A_PAYMENT, folder=folder),
        company=company,
        checkpoints=(
            must(
                "the owner was written to",
                lambda seen: f"@{owner}" in seen.spoken(),
            ),
            must("the message has the right invoice and amount", told, 2),
        ),
        allows=(allow.post(f"@{owner}"),),
        reference=(find, bash.post(f"@{owner}", text)),
        near_misses=(
            (find, bash.post(f"@{owners[late - 1].username}", text)),
            (find, bash.post(f"@{owner}", text.replace(f" {missing} ", f" {amounts[late]} "))),
            (find, bash.post(f"@{owner}", text), bash.post("#general", text)),
        ),
    )


def colleagues_of_get_a_budget_approved(
    planner: Person, boss: Person, name: str, number: str, code: str, amount: int
) -> tuple[Colleague, ...]:
    """Who knows what."""
    return (
        planner.knows(
            Fact(
                when=("budget number|budget",),
                say=f"The budget number of {name} is {number}.",
                needs=(name,),
                otherwise="Which project do you mean?",
            ),
            sends_to=boss,
        ),
        boss.knows(
            Fact(
                when=("approve|approval|code",),
                say=f"Approved. The code is {code}.",
                needs=(number, str(amount)),
                otherwise="I approve nothing without the budget number and the amount. "
                f"Ask @{planner.username} for the number.",
            )
        ),
    )


@family(level=4, domain="finance", services=("owncloud", "rocketchat"), split="train")
def get_a_budget_approved(setting: Setting) -> OfficePlan:
    """Read a request, get a budget number and an approval code, and record them."""
    rng = setting.rng
    boss, planner = setting.with_role("Finance Director"), setting.with_role("Product Manager")
    name = rng.choice(("Aurora", "Beacon", "Compass", "Drift", "Echo", "Falcon", "Glacier"))
    amount, number = rng.randrange(2000, 90_000), f"B-{rng.randrange(1000, 10_000)}"
    code, path = f"OK-{rng.randrange(100_000, 1_000_000)}", "Finance/request.docx"
    target = f"Finance/approvals-{name.lower()}.csv"
    reasons = (
        "We need new machines.",
        f"The old ones are from {rng.randrange(2012, 2019)} and fail every week.",
        f"In {rng.randrange(2020, 2025)} we got {rng.randrange(1000, 90_000)} EUR for others.",
        f"A repair would take {rng.randrange(3, 30)} days and cost {rng.randrange(500, 2000)} EUR.",
        f"We compared {rng.randrange(3, 9)} offers; the dearest was {amount * 2} EUR.",
        "The work begins as soon as the money is there, and ends in the same year.",
    )
    pages = ("Budget request", f"Project: {name}", *reasons, f"Amount: {amount} EUR")
    company = setting.base + CompanySeed(
        files={path: docx(pages)},
        colleagues=colleagues_of_get_a_budget_approved(planner, boss, name, number, code, amount),
    )
    look = f"{bash.fetch(path)}\n{bash.python(READ_DOCX)}"
    questions = (
        (planner, f"What is the budget number of {name}?"),
        (boss, f"Do you approve {amount} EUR from budget {number}?"),
    )

    def record(*cells: object) -> str:
        head = ("project", "amount", "budget", "approval")
        return bash.upload("approval.csv", table([head, cells]), target)

    def row(seen: Evidence) -> dict[str, str]:
        return seen.record(target)

    steps, right = (look, *bash.ask(*questions)), (name, amount, number, code)
    return OfficePlan(
        instruction=setting.told(
            words.GET_A_BUDGET_APPROVED, path=path, planner=planner, boss=boss, target=target
        ),
        company=company,
        checkpoints=(
            must(
                "project and amount are those of the document",
                lambda seen: (
                    row(seen).get("project") == name
                    and is_cell(row(seen).get("amount", ""), str(amount))
                ),
            ),
            must("the budget number is right", lambda seen: row(seen).get("budget") == number),
            must("the approval code is right", lambda seen: row(seen).get("approval") == code, 2),
        ),
        allows=(*allow.file(target), *allow.talk(planner, boss)),
        reference=(*steps, record(*right)),
        near_misses=(
            (*steps[:3], record(name, amount, number, "OK")),
            (*steps, record(name, amount + 1, number, code)),
            (*steps, bash.post("#general", f"{name} is approved."), record(*right)),
        ),
    )
