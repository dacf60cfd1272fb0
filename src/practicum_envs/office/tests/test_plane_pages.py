"""Plane by its pages alone, as someone with a browser uses it: no script, only links and forms."""

import urllib.error
import urllib.parse
import urllib.request

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum_envs.office.office_client import Office
from practicum_envs.office.services.plane_layout import html_of, text_of
from practicum_envs.office.tests.form_browser import FormBrowser
from practicum_envs.office.tests.serving_companies import Served


@pytest.fixture
def browser(served: Served) -> FormBrowser:
    found = FormBrowser(served.url(8091))
    found.go("/")
    found.press("Sign in", email="agent@company.com", password="theagentcompany")
    assert found.status == 200
    return found


def only_project(office: Office) -> str:
    [project] = office.plane("GET", "projects/")["results"]
    return f"projects/{project['id']}"


def issue_named(office: Office, name: str) -> dict[str, object]:
    found = office.plane("GET", f"{only_project(office)}/issues/")["results"]
    return next(one for one in found if one["name"] == name)


def test_an_issue_is_made_and_changed_by_forms(browser: FormBrowser, office: Office) -> None:
    browser.follow("Shop")
    browser.follow("Settings")
    browser.press("Add label", name="bug")
    browser.follow("Issues")
    browser.press(
        *("Create issue", ("Ann Lee", "bug")),
        **{"name": "Ship <it>", "state": "Todo", "priority": "high", "start_date": "2026-03-03"},
        **{"target_date": "2026-03-09", "description_html": "1 < 2\nand more"},
    )
    made = issue_named(office, "Ship <it>")
    assert (made["priority"], made["start_date"], made["target_date"]) == (
        *("high", "2026-03-03", "2026-03-09"),
    )
    assert len(made["assignees"]) == len(made["labels"]) == 1
    assert made["description_html"] == "<p>1 &lt; 2<br>and more</p>"
    page = browser.follow("Ship <it>")
    assert "1 < 2\nand more" in page.text
    browser.press("Save issue", state="Done", target_date="")
    done = issue_named(office, "Ship <it>")
    assert done["completed_at"]
    assert done["target_date"] is None
    assert (done["assignees"], done["labels"]) == (made["assignees"], made["labels"])
    assert done["description_html"] == made["description_html"]
    browser.press("Comment", comment_html="Shipped & done")
    assert "Shipped & done" in browser.page.text
    assert browser.page.links[f"/tac/{only_project(office)}/issues/"] == "Issues"
    browser.press("Delete issue")
    assert "Ship <it>" not in browser.page.text


def test_what_is_taken_out_of_a_form_is_taken_away(browser: FormBrowser, office: Office) -> None:
    ann = next(m for m in office.plane("GET", "members/") if m["last_name"] == "Lee")
    issue = issue_named(office, "Pay by card")
    route = f"{only_project(office)}/issues/{issue['id']}/"
    office.plane("PATCH", route, {"assignees": [ann["id"]]})
    browser.go(f"/tac/{route}")
    form = next(one for one in browser.page.forms if one.button == "Save issue")
    form.fields = [one for one in form.fields if one[0] != "assignees[]"]
    browser.press("Save issue")
    assert issue_named(office, "Pay by card")["assignees"] == []


def test_cycles_and_modules_by_forms(browser: FormBrowser, office: Office) -> None:
    browser.follow("Shop")
    browser.follow("Cycles")
    browser.press(
        *("Create cycle",), name="Sprint 2", start_date="2026-03-15", end_date="2026-03-28"
    )
    browser.follow("Modules")
    browser.press("Create module", ("Ann Lee",), name="Checkout", status="planned")
    browser.follow("Issues")
    browser.follow("Pay by card")
    browser.press("Save cycle and modules", ("Checkout",), cycle="Sprint 2")
    route = only_project(office)
    found = {
        one["name"]: one["total_issues"]
        for kind in ("cycles", "modules")
        for one in office.plane("GET", f"{route}/{kind}/")["results"]
    }
    assert found == {"Sprint 1": 0, "Sprint 2": 1, "Checkout": 1}
    browser.follow("Cycles")
    browser.follow("Sprint 2")
    browser.press("Remove SHOP-1")
    assert "Pay by card" not in browser.page.text.partition("Add issues")[0]
    browser.press("Add to cycle", ("SHOP-1",))
    browser.press("Transfer unfinished issues", new_cycle_id="Sprint 1")
    browser.follow("Issues")
    assert "Sprint 1" in browser.page.text
    browser.follow("Cycles")
    browser.press("Create cycle", name="Odd", start_date="2026-03-15")
    assert browser.status == 400
    assert "Both start date and end date" in browser.page.text


def test_a_project_from_its_beginning_to_its_end(browser: FormBrowser, office: Office) -> None:
    browser.press("Create project", name="Backend", identifier="back", network="Private")
    browser.follow("Project members")
    browser.press("Add member", member="Bo Cruz (bo.cruz@agentcompany.com)")
    assert "Bo Cruz" in browser.page.text.partition("Add member")[0]
    browser.press("Remove")
    browser.follow("Settings")
    browser.press("Update project", name="Back office")
    browser.press("Add state", name="Blocked", group="started")
    made = next(p for p in office.plane("GET", "projects/")["results"] if p["name"] != "Shop")
    assert (made["name"], made["identifier"], made["network"]) == ("Back office", "BACK", 0)
    states = office.plane("GET", f"projects/{made['id']}/states/")["results"]
    assert [one["group"] for one in states if one["name"] == "Blocked"] == ["started"]
    browser.press("Update project", name="Shop")
    assert "already taken" in browser.page.text
    browser.go(f"/tac/projects/{made['id']}/settings")
    browser.press("Delete project")
    assert [p["name"] for p in office.plane("GET", "projects/")["results"]] == ["Shop"]
    assert browser.url.endswith("/tac/projects")


def test_analytics_count_what_there_is(browser: FormBrowser) -> None:
    words = browser.follow("Analytics").text
    assert "Total open tasks1" in words
    assert "Unstarted tasks1" in words
    assert "Unassigned issues1" in words


def test_a_form_of_another_site_changes_nothing(
    browser: FormBrowser, served: Served, office: Office
) -> None:
    where = f"/tac/{only_project(office)}/issues"
    for token in ("", "0" * 64):
        body = urllib.parse.urlencode({"name": "Forged", "csrfmiddlewaretoken": token})
        browser.go(where, body.encode())
        assert browser.status == 403
        assert "CSRF" in browser.page.text
    names = [one["name"] for one in office.plane("GET", where.removeprefix("/tac/"))["results"]]
    assert names == ["Pay by card"]


def test_who_signed_out_sees_nothing(browser: FormBrowser, office: Office) -> None:
    browser.press("Sign out")
    browser.go(f"/tac/{only_project(office)}/issues")
    assert browser.status == 401
    assert "Pay by card" not in browser.page.text
    browser.press("Sign in", email="agent@company.com", password="wrong")
    assert browser.status == 401


def test_the_command_page_is_logged_in_to_plane(served: Served, office: Office) -> None:
    agent = Office(door=office._door)
    where = f"http://the-agent-company.com:8091/tac/{only_project(office)}/issues/"
    assert "Pay by card" in agent.page(where)
    assert "Pay by card" in office.page(where)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")))
@settings(deadline=None)
def test_text_is_shown_as_it_was_written(text: str) -> None:
    assert text_of(html_of(text)) == text.strip()
