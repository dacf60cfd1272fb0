"""The eighteen families of cases, three of each kind; one of each kind is held out.

A family is its numbers and one exact computation. The words of its formula are the names that its
columns, facts and figures have, so that a reader can tell which item the answer needs.
"""

from fractions import Fraction
from math import ceil

from practicum_envs.business.business_case import Facts, Family, Figures, Limit, Row

PERCENTS = (range(10, 60, 10), range(10, 60, 10), range(5, 65, 5))
YEARS = ("year1", "year2", "year3")
PAYMENTS = ("pay1", "pay2", "pay3", "pay4")
RECEIPTS = ("get1", "get2", "get3", "get4")


def _part(of: int, parts: int) -> Fraction | int:
    """An exact quotient, whole where it can be: whole numbers are quicker than fractions."""
    whole, rest = divmod(of, parts)
    return Fraction(of, parts) if rest else whole


def _price(facts: Facts, row: Row) -> Figures:
    margin = row["price"] - facts["unit_cost"]
    return {"margin": margin, "profit": margin * row["sold"]}


def _discount(facts: Facts, row: Row) -> Figures:
    price = _part(facts["list_price"] * (100 - row["discount"]), 100)
    return {"price": price, "profit": (price - facts["unit_cost"]) * row["sold"]}


def _membership(facts: Facts, row: Row) -> Figures:
    monthly = (row["fee"] - facts["service_cost"]) * row["members"]
    return {"monthly": monthly, "total": monthly * facts["months"] - row["setup"]}


def _order(facts: Facts, row: Row) -> Figures:
    revenue = facts["price"] * min(row["order"], facts["demand"])
    return {"revenue": revenue, "profit": revenue - facts["unit_cost"] * row["order"]}


def _lots(facts: Facts, row: Row) -> Figures:
    # A part of a lot is ordered as a whole one.
    ordering = ceil(Fraction(facts["demand"], row["lot"])) * facts["order_fee"]
    return {"ordering": ordering, "cost": ordering + _part(facts["holding"] * row["lot"], 2)}


def _fresh(facts: Facts, row: Row) -> Figures:
    low, high = min(row["order"], facts["low"]), min(row["order"], facts["high"])
    sold = _part(facts["good_day"] * high + (100 - facts["good_day"]) * low, 100)
    revenue = facts["price"] * sold
    return {"revenue": revenue, "profit": revenue - facts["unit_cost"] * row["order"]}


def _crew(facts: Facts, row: Row) -> Figures:
    overtime = max(0, facts["work_hours"] - row["people"] * facts["shift"])
    return {"overtime": overtime, "cost": row["people"] * facts["wage"] + overtime * facts["rate"]}


def _candidate(facts: Facts, row: Row) -> Figures:
    worth = row["output"] * facts["piece_value"]
    return {"worth": worth, "gain": worth - row["wage"]}


def _trainee(facts: Facts, row: Row) -> Figures:
    earned = (facts["weeks"] - row["training"]) * row["output"]
    return {"earned": earned, "gain": earned - facts["weeks"] * row["wage"]}


def _workshop(facts: Facts, row: Row) -> Figures:
    variable = row["unit_cost"] * facts["volume"]
    return {"variable": variable, "cost": row["fixed"] + variable}


def _supplier(facts: Facts, row: Row) -> Figures:
    good = _part(facts["quantity"] * (100 - row["defects"]), 100)
    spent = row["unit_cost"] * facts["quantity"] + row["freight"]
    return {"good": good, "profit": facts["price"] * good - spent}


def _break_even(facts: Facts, row: Row) -> Figures:
    margin = facts["price"] - row["unit_cost"]
    even = _part(row["fixed"], margin)
    return {"break_even": even, "profit": margin * facts["volume"] - row["fixed"]}


def _present(facts: Facts, row: Row) -> Figures:
    flows = [row[year] for year in YEARS if year in row]
    grown = 100 + facts["rate"]
    worth = sum(_part(flow * 100**year, grown**year) for year, flow in enumerate(flows, 1))
    return {"worth": worth, "npv": worth - row["cost"]}


def _break_even_step(column: str, facts: Facts, row: Row) -> int:
    """What is fixed is a multiple of the margin."""
    return facts["price"] - row["unit_cost"] if column == "fixed" else 1


def _present_step(column: str, facts: Facts, row: Row) -> int:
    """Flows are multiples of what they are divided by."""
    rate = _part(100 + facts["rate"], 100)
    return int(rate.numerator ** (1 + YEARS.index(column))) if column in YEARS else 1


def _launch(facts: Facts, row: Row) -> Figures:
    back = _part(row["chance"] * row["gain"] + (100 - row["chance"]) * facts["salvage"], 100)
    return {"back": back, "net": back - row["cost"]}


def _bundle(facts: Facts, row: Row) -> Figures:
    kept = _part((row["gain1"] + row["gain2"]) * (100 - facts["tax"]), 100)
    cost = row["cost1"] + row["cost2"]
    return {"cost": cost, "net": kept - cost}


def _balance(facts: Facts, row: Row) -> Figures:
    balance = lowest = facts["cash"]
    for get, pay in zip(RECEIPTS, PAYMENTS, strict=True):
        if pay in row:
            balance -= row[pay]
            lowest = min(lowest, balance)
            balance += facts[get]
    return {"lowest": lowest, "end": balance}


def _loan(facts: Facts, row: Row) -> Figures:
    interest = _part(row["amount"] * row["rate"] * facts["months"], 100)
    return {"interest": interest, "cost": interest + row["fee"]}


def _invoice(facts: Facts, row: Row) -> Figures:
    cash = _part(facts["invoices"] * row["advance"], 100)
    return {"cash": cash, "net": cash - row["fee"]}


PRICING = (
    Family(
        name="price",
        kind="pricing",
        stories=("A stall sets the price of its lemonade.", "A baker sets the price of a cake."),
        formula="margin = price - unit_cost, profit = margin x sold",
        columns={
            "price": (range(5, 13), range(12, 40), range(40, 120)),
            "sold": (range(3, 13), range(10, 40), range(30, 150)),
        },
        facts={"unit_cost": (range(1, 5), range(3, 15), range(10, 60))},
        hidden="unit_cost",
        limit=Limit(on="sold", name="capacity"),
        work_out=_price,
    ),
    Family(
        name="discount",
        kind="pricing",
        stories=("A shop chooses a discount for its coats.", "A sale of old lamps is planned."),
        formula="price = list_price less discount %, profit = (price - unit_cost) x sold",
        columns={
            "discount": PERCENTS,
            "sold": (range(2, 13), range(10, 40), range(30, 150)),
        },
        facts={
            "unit_cost": (range(1, 7), range(5, 20), range(10, 60)),
            "list_price": (range(10, 50, 10), range(40, 100, 10), range(100, 300, 20)),
        },
        hidden="list_price",
        limit=Limit(on="sold", name="in_stock"),
        work_out=_discount,
    ),
    Family(
        name="membership",
        kind="pricing",
        stories=("A gym chooses a monthly fee.", "A library of tools chooses its monthly fee."),
        formula="monthly = (fee - service_cost) x members, total = monthly x months - setup",
        columns={
            "fee": (range(4, 12), range(10, 30), range(25, 80)),
            "members": (range(3, 10), range(10, 40), range(30, 120)),
            "setup": (range(5, 30), range(50, 200), range(200, 900)),
        },
        facts={
            "months": (range(2, 4), range(3, 7), range(6, 13)),
            "service_cost": (range(1, 4), range(3, 10), range(8, 25)),
        },
        hidden="service_cost",
        limit=Limit(on="members", name="places"),
        work_out=_membership,
        is_heldout=True,
    ),
)

STOCK = (
    Family(
        name="order",
        kind="stock",
        stories=("A kiosk orders umbrellas.", "A school shop orders notebooks for one term."),
        formula="revenue = price x the smaller of order and demand, profit = revenue - unit_cost x "
        "order",
        columns={"order": (range(3, 13), range(15, 60), range(60, 300))},
        facts={
            "demand": (range(4, 12), range(20, 50), range(80, 250)),
            "price": (range(4, 10), range(8, 25), range(15, 60)),
            "unit_cost": (range(1, 6), range(3, 15), range(8, 40)),
        },
        hidden="demand",
        limit=Limit(on="order", name="shelf"),
        work_out=_order,
    ),
    Family(
        name="lots",
        kind="stock",
        stories=("A workshop orders screws in lots.", "A cafe orders coffee beans in lots."),
        formula="ordering = order_fee x (demand / lot rounded up), cost = ordering + holding x "
        "lot / 2",
        columns={
            "lot": ((2, 4, 6, 8, 12), (4, 6, 8, 10, 12, 20, 24, 30), range(10, 102, 2)),
        },
        facts={
            "demand": (range(12, 73, 12), range(120, 361, 60), range(600, 2401, 300)),
            "order_fee": (range(1, 6), range(2, 10), range(3, 20)),
            "holding": (range(2, 8), range(2, 10), range(2, 15)),
        },
        hidden="demand",
        limit=Limit(on="lot", name="space"),
        work_out=_lots,
        lowest_is_best=True,
    ),
    Family(
        name="fresh",
        kind="stock",
        stories=("A market stall orders berries for a day.", "A florist orders roses for a day."),
        formula="revenue = price x (good_day % of the smaller of order and high + (100 - good_day) "
        "% of the smaller of order and low), profit = revenue - unit_cost x order",
        columns={
            "order": (range(5, 31, 5), range(20, 101, 5), range(50, 301, 10)),
        },
        facts={
            "good_day": (range(20, 100, 20), range(20, 100, 20), range(10, 100, 10)),
            "low": (range(5, 16, 5), range(20, 51, 5), range(50, 151, 10)),
            "high": (range(15, 31, 5), range(50, 101, 5), range(150, 301, 10)),
            "price": (range(3, 9), range(5, 15), range(8, 30)),
            "unit_cost": (range(1, 5), range(2, 10), range(4, 20)),
        },
        hidden="good_day",
        limit=Limit(on="order", name="shelf"),
        work_out=_fresh,
        is_heldout=True,
    ),
)

HIRING = (
    Family(
        name="crew",
        kind="hiring",
        stories=("A mover plans its crew for a week.", "A cleaner plans a crew for one job."),
        formula="overtime = work_hours - people x shift, never below 0, cost = people x wage + "
        "overtime x rate",
        columns={"people": (range(1, 7), range(2, 12), range(5, 30))},
        facts={
            "work_hours": (range(20, 60, 2), range(60, 200, 5), range(200, 900, 10)),
            "shift": (range(6, 11), range(8, 21), range(20, 41)),
            "wage": (range(20, 60, 5), range(60, 200, 10), range(200, 800, 20)),
            "rate": (range(3, 10), range(5, 18), range(8, 35)),
        },
        hidden="work_hours",
        limit=Limit(on="overtime", name="most_overtime"),
        work_out=_crew,
        lowest_is_best=True,
    ),
    Family(
        name="candidate",
        kind="hiring",
        stories=("A pottery hires one of several people.", "A bike shop hires one mechanic."),
        formula="worth = output x piece_value, gain = worth - wage",
        columns={
            "output": (range(4, 13), range(10, 40), range(30, 120)),
            "wage": (range(8, 50), range(50, 400, 5), range(400, 3000, 20)),
        },
        facts={"piece_value": (range(2, 9), range(5, 20), range(15, 50))},
        hidden="piece_value",
        limit=Limit(on="wage", name="wage_budget"),
        work_out=_candidate,
    ),
    Family(
        name="trainee",
        kind="hiring",
        stories=("A printer takes on a trainee.", "A tailor takes on a trainee for a season."),
        formula="earned = (weeks - training) x output, gain = earned - weeks x wage",
        columns={
            "training": (range(1, 5), range(1, 9), range(2, 13)),
            "output": (range(8, 20), range(20, 60), range(60, 200)),
            "wage": (range(2, 9), range(5, 30), range(20, 90)),
        },
        facts={"weeks": (range(5, 11), range(9, 26), range(13, 53))},
        hidden="weeks",
        limit=Limit(on="wage", name="wage_budget"),
        work_out=_trainee,
        is_heldout=True,
    ),
)

MAKE_OR_BUY = (
    Family(
        name="workshop",
        kind="make_or_buy",
        stories=("A toy maker can make its wheels or buy them.", "Chairs need legs: make or buy?"),
        formula="variable = unit_cost x volume, cost = fixed + variable",
        columns={
            "fixed": (range(0, 40), range(0, 300, 5), range(0, 3000, 20)),
            "unit_cost": (range(2, 10), range(4, 25), range(8, 60)),
            "days": (range(2, 15), range(5, 40), range(10, 90)),
        },
        facts={"volume": (range(3, 12), range(15, 50), range(60, 200))},
        hidden="volume",
        limit=Limit(on="days", name="deadline"),
        work_out=_workshop,
        lowest_is_best=True,
    ),
    Family(
        name="supplier",
        kind="make_or_buy",
        stories=("A lamp maker buys its bulbs.", "A builder of radios buys a part or makes it."),
        formula="good = quantity less defects %, profit = price x good - unit_cost x quantity - "
        "freight",
        columns={
            "unit_cost": (range(1, 7), range(2, 15), range(5, 40)),
            "freight": (range(1, 60), range(10, 400), range(100, 5000, 10)),
            "defects": PERCENTS,
            "days": (range(2, 15), range(5, 40), range(10, 90)),
        },
        facts={
            "quantity": (range(10, 50, 10), range(40, 200, 20), range(200, 900, 20)),
            "price": (range(3, 8), range(10, 25), range(25, 70)),
        },
        hidden="quantity",
        limit=Limit(on="days", name="deadline"),
        work_out=_supplier,
    ),
    Family(
        name="machine",
        kind="make_or_buy",
        stories=("A jam maker buys a machine.", "A mint buys a press for its coins."),
        formula="break_even = fixed / (price - unit_cost), profit = (price - unit_cost) x volume - "
        "fixed",
        columns={
            "unit_cost": (range(1, 7), range(3, 15), range(5, 40)),
            "fixed": (range(10, 90), range(60, 600), range(400, 8000)),
        },
        facts={
            "price": (range(7, 13), range(15, 30), range(40, 80)),
            "volume": (range(8, 25), range(25, 80), range(80, 300)),
        },
        hidden="volume",
        limit=Limit(on="fixed", name="budget"),
        work_out=_break_even,
        step=_break_even_step,
        is_heldout=True,
    ),
)

PROJECTS = (
    Family(
        name="present_value",
        kind="project",
        stories=("A farm chooses one investment.", "A cinema chooses what to build."),
        formula="worth = each year's cash divided by (1 + rate %) once for every year, npv = "
        "worth - cost",
        columns={
            "cost": (range(2, 40), range(20, 200), range(50, 600)),
            "year1": (range(6, 100), range(10, 200), range(20, 500)),
            "year2": ((), range(16, 300), range(50, 800)),
            "year3": ((), (), range(60, 1500)),
        },
        facts={"rate": ((20, 25, 50, 100), (20, 25, 50, 100), (20, 25, 50, 100))},
        hidden="rate",
        limit=Limit(on="cost", name="budget"),
        work_out=_present,
        step=_present_step,
    ),
    Family(
        name="launch",
        kind="project",
        stories=("A studio chooses a game to make.", "A band chooses where to play."),
        formula="back = chance % of gain + (100 - chance) % of salvage, net = back - cost",
        columns={
            "cost": (range(3, 40), range(30, 200), range(200, 2000, 10)),
            "chance": PERCENTS,
            "gain": (range(20, 110, 10), range(100, 600, 20), range(600, 6000, 100)),
        },
        facts={"salvage": (range(10, 50, 10), range(20, 400, 20), range(100, 3000, 100))},
        hidden="salvage",
        limit=Limit(on="cost", name="budget"),
        work_out=_launch,
    ),
    Family(
        name="bundle",
        kind="project",
        stories=("A town chooses a pair of projects.", "A club chooses two works at once."),
        formula="cost = cost1 + cost2, net = (gain1 + gain2) less tax % - cost",
        columns={
            "cost1": (range(2, 15), range(10, 60), range(50, 500)),
            "gain1": (range(10, 60, 10), range(40, 200, 10), range(200, 1500, 20)),
            "cost2": (range(2, 15), range(10, 60), range(50, 500)),
            "gain2": (range(10, 60, 10), range(40, 200, 10), range(200, 1500, 20)),
        },
        facts={"tax": PERCENTS},
        hidden="tax",
        limit=Limit(on="cost", name="budget"),
        work_out=_bundle,
        is_heldout=True,
    ),
)

CASH_FLOW = (
    Family(
        name="payments",
        kind="cash_flow",
        stories=("A theatre agrees on when to pay a builder.", "A yard pays for a crane."),
        formula="lowest = the least that cash comes to on the way, end = cash - pay1 + get1 - "
        "pay2 + get2 and so on",
        columns={
            "pay1": (range(0, 25), range(0, 90), range(0, 700, 5)),
            "pay2": (range(0, 25), range(0, 90), range(0, 700, 5)),
            "pay3": ((), range(0, 90), range(0, 700, 5)),
            "pay4": ((), (), range(0, 700, 5)),
        },
        facts={
            "cash": (range(15, 40), range(50, 150), range(300, 900, 5)),
            "get1": (range(3, 25), range(10, 90), range(50, 600, 5)),
            "get2": (range(3, 25), range(10, 90), range(50, 600, 5)),
            "get3": ((), range(10, 90), range(50, 600, 5)),
            "get4": ((), (), range(50, 600, 5)),
        },
        hidden="get1",
        limit=Limit(on="lowest", name="reserve", at_least=True),
        work_out=_balance,
    ),
    Family(
        name="loan",
        kind="cash_flow",
        stories=("A ferry borrows until the summer.", "A press borrows until a book is out."),
        formula="interest = rate % of amount x months, cost = interest + fee",
        columns={
            "amount": (range(100, 700, 100), range(500, 2500, 100), range(2000, 9900, 100)),
            "rate": (range(1, 5), range(1, 6), range(1, 8)),
            "fee": (range(1, 30), range(20, 300), range(100, 2000, 10)),
        },
        facts={"months": (range(2, 7), range(3, 13), range(6, 25))},
        hidden="months",
        limit=Limit(on="amount", name="cash_needed", at_least=True),
        work_out=_loan,
        lowest_is_best=True,
    ),
    Family(
        name="invoice",
        kind="cash_flow",
        stories=("A carrier sells its invoices for cash.", "A weaver sells unpaid invoices."),
        formula="cash = advance % of invoices, net = cash - fee",
        columns={
            "advance": (range(50, 100, 10), range(50, 100, 10), range(50, 100, 5)),
            "fee": (range(5, 60), range(20, 200), range(100, 900, 5)),
            "days": (range(2, 15), range(5, 40), range(10, 90)),
        },
        facts={"invoices": (range(100, 500, 100), range(200, 900, 100), range(1000, 6000, 200))},
        hidden="invoices",
        limit=Limit(on="days", name="due_in"),
        work_out=_invoice,
        is_heldout=True,
    ),
)

FAMILIES = {
    one.name: one for one in (*PRICING, *STOCK, *HIRING, *MAKE_OR_BUY, *PROJECTS, *CASH_FLOW)
}
"""Every family by its name."""
