"""Plane in a real browser, by clicks alone; with a checkout of TheAgentCompany, its own graders.

`PRACTICUM_TAC` names the checkout, as for test_agent_company_checkout.py.
"""

from collections.abc import Callable

import pytest
from tests.integration.clicks import (
    CHECKOUT,
    HOST,
    WHY_NO_BROWSER,
    Clicks,
    assert_full,
    browsing_a_company,
    grade_of_clicks,
    has_browser,
)
from tests.integration.machines import why_no_machine

PORT = 8091
SITE = f"http://{HOST}:{PORT}"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not has_browser(), reason=WHY_NO_BROWSER)]


@pytest.fixture
def machine() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(reason)


def sign_in(clicks: Clicks) -> None:
    clicks.go(SITE)
    clicks.fill("Sign in", {"Email": "agent@company.com", "Password": "theagentcompany"})


def test_an_issue_is_made_and_moved_by_clicks() -> None:
    with browsing_a_company(PORT) as (clicks, company):
        sign_in(clicks)
        clicks.click("Shop")
        clicks.fill(
            "Create issue",
            {"Title": "Ship it", "State": "Todo", "Start date": "03/03/2026", "Ann Lee": "yes"},
        )
        clicks.click("Ship it")
        assert "Ann Lee" in clicks.text
        clicks.fill("Save issue", {"State": "Done", "Priority": "urgent"})
        clicks.fill("Save cycle and modules", {"Cycle": "Sprint 1"})
        clicks.fill("Comment", {"Comment": "Shipped"})
        assert "Shipped" in clicks.text
        office = company.office
        [project] = office.plane("GET", "projects/")["results"]
        found = office.plane("GET", f"projects/{project['id']}/issues/")["results"]
        issue = next(one for one in found if one["name"] == "Ship it")
        assert (issue["priority"], issue["start_date"]) == ("urgent", "2026-03-03")
        assert len(issue["assignees"]) == 1
        assert issue["completed_at"]
        [cycle] = office.plane("GET", f"projects/{project['id']}/cycles/")["results"]
        assert cycle["completed_issues"] == 1


# Tasks of the benchmark, without any other tool.


def create_an_issue(clicks: Clicks) -> None:
    clicks.click("Frontend Development")
    clicks.fill("Create issue", {"Title": "Improve Page Loading Speed"})


def update_a_sprint(clicks: Clicks) -> None:
    clicks.click("RisingWave")
    clicks.click("Cycles")
    clicks.click("Sprint 1")
    clicks.click("Evaluate data throughput")
    clicks.fill("Save issue", {"State": "Done"})
    clicks.click("Issues")
    clicks.click("Decrease database latency")
    clicks.fill("Save cycle and modules", {"Cycle": "Sprint 2"})


def assign_issues(clicks: Clicks) -> None:
    clicks.fill("Create project", {"Project name": "Backend Development", "Project ID": "BACK"})
    work = {
        "Emily Zhou": "Implement new navigation bar for the frontend",
        "Alex Turner": "Set up backend API for payment processing",
        "Emma Lewis": "Write unit tests for authentication service",
    }
    clicks.click("Project members")
    for name in work:
        address = f"{name.lower().replace(' ', '.')}@agentcompany.com"
        clicks.fill("Add member", {"Member": f"{name} ({address})"})
    clicks.click("Issues")
    for name, title in work.items():
        clicks.fill("Create issue", {"Title": title, name: "yes"})


def delete_all_projects(clicks: Clicks) -> None:
    while clicks.driver.find_elements("link text", "Settings"):
        clicks.click("Settings")
        clicks.click("Delete project")


@pytest.mark.rare
@pytest.mark.skipif(not CHECKOUT, reason="set PRACTICUM_TAC to a checkout of TheAgentCompany")
@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("pm-create-plane-issue", create_an_issue),
        ("sde-update-issue-status-on-plane", update_a_sprint),
        ("pm-assign-issues", assign_issues),
        ("sde-delete-all-project-under-plane", delete_all_projects),
    ],
)
async def test_the_official_grader_gives_clicks_full_marks(
    name: str, work: Callable[[Clicks], None], machine: None
) -> None:
    def signed_in_work(clicks: Clicks, text: str) -> None:
        sign_in(clicks)
        work(clicks)

    assert_full(await grade_of_clicks(name, PORT, signed_in_work))
