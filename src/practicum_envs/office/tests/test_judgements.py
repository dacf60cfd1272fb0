"""What checkpoints take: any faithful way of doing what was asked, in all families alike."""

import random
import re
import shlex
import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from practicum_envs.office.companies import Companies
from practicum_envs.office.evidence import is_cell, project_route
from practicum_envs.office.families.all_families import families
from practicum_envs.office.generated_company import generate_company
from practicum_envs.office.office_plan import Setting
from practicum_envs.office.tests.graded_families import desk

FAMILIES = families()


def test_a_total_may_be_written_with_a_decimal_point(companies: Companies) -> None:
    with desk(companies, FAMILIES["query-a-database"]) as found:
        base = sqlite3.connect(":memory:")
        base.deserialize(found.plan.company.files["Data/shop.db"])  # type: ignore[arg-type]
        script = found.plan.reference[-1]
        state = re.findall(r"status = '(\w+)'", script)[0]
        target = shlex.split(script.splitlines()[-1])[-1]
        rows = base.execute(
            "SELECT name, SUM(amount) AS total FROM orders JOIN customers "
            "ON customers.id = customer_id WHERE status = ? GROUP BY name "
            "ORDER BY total DESC, name",
            (state,),
        ).fetchall()
        base.close()

        def report(form: str) -> bool | None:
            lines = ["customer,total", *(f"{name},{form.format(total)}" for name, total in rows)]
            found.company.office.dav("PUT", target, "\n".join(lines).encode())
            return found.grade().success

        assert report("{:.1f}") is True
        assert report("{}") is True
        assert report("{}.5") is False


def test_issues_for_failing_tests_may_say_more_as_any_issue_may(companies: Companies) -> None:
    with desk(companies, FAMILIES["report-failing-tests"]) as found:
        [project] = found.plan.company.projects
        route = f"{project_route(project.path)}/issues"
        titles = [
            word.removeprefix("title=")
            for word in shlex.split(found.plan.reference[-1])
            if word.startswith("title=")
        ]
        for title in titles:
            fields = {"title": title, "labels": "bug", "description": "It fails on main."}
            found.company.office.gitlab("POST", route, fields)
        outcome = found.grade()
        assert outcome.success is True, outcome.evidence["checks"]


def test_the_example_in_collect_reviews_keeps_to_the_rule_of_its_task() -> None:
    told: list[dict[str, object]] = []

    class Watched(Setting):
        def told(self, wordings, **facts):  # type: ignore[no-untyped-def]
            told.append(facts)
            return super().told(wordings, **facts)

    for n in range(60):
        rng = random.Random(n)
        base = generate_company(rng, "heldout")
        FAMILIES["collect-reviews"].make(Watched(rng=rng, base=base, split="heldout", words=rng))
    assert {one["value1"] for one in told} == {"accept", "reject"}
    for one in told:
        assert one["value1"] == ("accept" if int(str(one["bar"])) <= 54.5 else "reject")


@given(st.integers(-(10**9), 10**9), st.integers(0, 6))
def test_a_number_is_the_same_however_it_is_written(number: int, zeros: int) -> None:
    assert is_cell(f"{number}.{'0' * zeros}" if zeros else str(number), str(number))
    assert not is_cell(str(number + 1), str(number))


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_cells_are_compared(one: str, other: str) -> None:
    assert is_cell(one, one)
    assert is_cell(one, other) == is_cell(other, one)
