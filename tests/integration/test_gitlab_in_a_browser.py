"""GitLab in a real browser, by clicks alone; with a checkout of TheAgentCompany, its own graders.

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

PORT = 8929
SITE = f"http://{HOST}:{PORT}"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not has_browser(), reason=WHY_NO_BROWSER)]


@pytest.fixture
def machine() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(reason)


def sign_in(clicks: Clicks, user: str = "root") -> None:
    clicks.go(SITE)
    clicks.click("Sign in")
    clicks.fill("Sign in", {"Username": user, "Password": "theagentcompany"})
    assert f"Signed in as {user}" in clicks.text


def test_an_issue_and_a_file_are_worked_on_by_clicks() -> None:
    with browsing_a_company(PORT) as (clicks, company):
        sign_in(clicks)
        clicks.click("root/shop")
        clicks.click("Issues")
        clicks.click("New issue")
        told = {"Title": "Wrong price", "Description": "1\n2", "Ann Lee": "yes", "bug": "yes"}
        clicks.fill("Create issue", told)
        clicks.fill("Comment", {"Write a comment": "Is in price.py"})
        clicks.click("root/shop")
        clicks.click("src")
        clicks.click("price.py")
        clicks.click("Edit")
        changed = {"Content": "PRICE = 3\nTAX = 1\n", "Target branch": "mend", "Commit m": "Mend"}
        clicks.fill("Commit changes", changed)
        clicks.click("Merge requests")
        clicks.click("New merge request")
        clicks.fill("Create merge request", {"Source branch": "mend", "Title": "Mend the price"})
        clicks.click("Merge")
        assert "State: merged" in clicks.text
        clicks.click("Issues")
        clicks.click("#26 Wrong price")
        clicks.click("Close issue")
        office, shop = company.office, "projects/root%2Fshop"
        [issue] = office.gitlab("GET", f"{shop}/issues", {"search": "Wrong"})
        assert (issue["state"], issue["labels"]) == ("closed", ["bug"])
        assert issue["description"] == "1\n2"
        login = {"X-Office-User": "root"}
        place = f"/api/v4/{shop}/repository/files/src%2Fprice.py/raw?ref=main"
        assert office.request("gitlab", "GET", place, headers=login)[1] == b"PRICE = 3\nTAX = 1\n"


# Tasks of the benchmark, without any other tool. What is to be written is in the task's own file.


def change_a_branch_policy(clicks: Clicks, text: str) -> None:
    clicks.go(f"{SITE}/root/sotopia")
    clicks.click("Repository settings")
    rule = {"Allowed to merge": "Developers + Maintainers", "Allowed to push": "No one"}
    clicks.fill("Update main", rule)


def close_an_issue(clicks: Clicks, text: str) -> None:
    clicks.go(f"{SITE}/root/openhands/-/issues/3797")
    clicks.fill("Comment", {"Write a comment": text.partition("“")[2].partition("”")[0]})
    clicks.click("Close issue")


def make_a_release(clicks: Clicks, text: str) -> None:
    clicks.go(f"{SITE}/root/risingwave/")
    clicks.click("Releases")
    clicks.click("New release")
    notes = text.partition("verbatim:")[2].strip()
    told = {"Name of a new tag": "v1", "Release title": "release-2024-10-12"}
    clicks.fill("Create release", {**told, "Release notes": notes})


def move_milestones(clicks: Clicks, text: str) -> None:
    clicks.go(f"{SITE}/root/risingwave")
    clicks.click("Milestones")
    clicks.click("Alpha Release")
    clicks.click("Close milestone")
    clicks.click("Milestones")
    clicks.click("New milestone")
    clicks.fill("Create milestone", {"Title": "Beta Release"})
    for title in ("Implement stream processing engine", "Integrate with Kafka"):
        clicks.click("Issues")
        clicks.fill("Filter", {"Search": title})
        clicks.driver.find_element("partial link text", title).click()
        clicks.click("Edit issue")
        clicks.fill("Save changes", {"Milestone": "Beta Release"})


def delete_a_branch(clicks: Clicks, text: str) -> None:
    clicks.go(f"{SITE}/root/OpenSearch")
    clicks.click("Branches")
    clicks.click("Delete feature/ssl")
    clicks.visited.append(clicks.text)  # its grader wants the words of this page
    clicks.click("Yes, delete branch")


@pytest.mark.rare
@pytest.mark.skipif(not CHECKOUT, reason="set PRACTICUM_TAC to a checkout of TheAgentCompany")
@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("sde-change-branch-policy", change_a_branch_policy),
        ("sde-close-an-issue", close_an_issue),
        ("sde-create-new-release", make_a_release),
        ("pm-update-project-milestones", move_milestones),
        ("sde-delete-stale-branch", delete_a_branch),
    ],
)
async def test_the_official_grader_gives_clicks_full_marks(
    name: str, work: Callable[[Clicks, str], None], machine: None
) -> None:
    def signed_in_work(clicks: Clicks, text: str) -> None:
        sign_in(clicks)
        work(clicks, text)

    assert_full(await grade_of_clicks(name, PORT, signed_in_work))
