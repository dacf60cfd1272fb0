"""Plane's API."""

from typing import Any

import pytest

from practicum_envs.office.office_client import Office, OfficeError


def board(office: Office) -> tuple[str, dict[str, str]]:
    """The route of the project and its states by name."""
    [project] = office.plane("GET", "projects/")["results"]
    route = f"projects/{project['id']}"
    states = office.plane("GET", f"{route}/states/")["results"]
    return route, {state["name"]: state["id"] for state in states}


def issue_named(office: Office, route: str, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = office.plane("GET", f"{route}/issues")["results"]
    return next(one for one in found if one["name"] == name)


def test_a_project_has_five_states_and_its_issues(office: Office) -> None:
    route, states = board(office)
    assert list(states) == ["Backlog", "Todo", "In Progress", "Done", "Cancelled"]
    assert issue_named(office, route, "Pay by card")["state"] == states["Todo"]
    found = office.plane("GET", f"{route}/states/{states['Done']}")
    assert (found["name"], found["group"]) == ("Done", "completed")


def test_an_issue_is_changed_and_done(office: Office) -> None:
    route, states = board(office)
    issue = office.plane("POST", f"{route}/issues/", {"name": "Ship", "priority": "high"})
    assert issue["state"] == states["Backlog"]
    ann = next(m for m in office.plane("GET", f"{route}/members/") if m["last_name"] == "Lee")
    change = {"state": states["Done"], "assignees": [ann["id"]]}
    done = office.plane("PATCH", f"{route}/issues/{issue['id']}/", change)
    assert done["assignees"] == [ann["id"]]
    assert done["completed_at"]
    for wrong in ({"state": "nowhere"}, {"priority": "huge"}, {"assignees": ["nobody"]}):
        with pytest.raises(OfficeError, match="400"):
            office.plane("PATCH", f"{route}/issues/{issue['id']}/", wrong)


def test_an_issue_is_in_one_cycle_at_most(office: Office) -> None:
    route, _ = board(office)
    [first] = office.plane("GET", f"{route}/cycles")["results"]
    dates = {"start_date": "2026-04-01", "end_date": "2026-04-14"}
    second = office.plane("POST", f"{route}/cycles/", {"name": "Sprint 2", **dates})
    issue = issue_named(office, route, "Pay by card")["id"]
    office.plane("POST", f"{route}/cycles/{second['id']}/cycle-issues/", {"issues": [issue]})
    counts = {
        one["name"]: one["total_issues"]
        for one in office.plane("GET", f"{route}/cycles")["results"]
    }
    assert counts == {"Sprint 1": 0, "Sprint 2": 1}
    assert office.plane("GET", f"{route}/cycles/{first['id']}/cycle-issues/")["results"] == []


def test_a_wrong_key_and_a_wrong_workspace_are_refused(office: Office) -> None:
    with pytest.raises(OfficeError, match="401"):
        Office(door=office._door, plane_key="wrong").plane("GET", "projects/")
    headers = {"x-api-key": office._plane_key}
    with pytest.raises(OfficeError, match="404"):
        office.call("plane", "GET", "/api/v1/workspaces/other/projects/", headers=headers)


def test_names_are_taken_once(office: Office) -> None:
    route, _ = board(office)
    office.plane("POST", f"{route}/labels/", {"name": "bug"})
    with pytest.raises(OfficeError, match="409"):
        office.plane("POST", f"{route}/labels/", {"name": "bug"})


def test_a_slash_too_many_leads_to_the_same_place(office: Office) -> None:
    route, _ = board(office)
    assert office.plane("GET", f"{route}//cycles/") == office.plane("GET", f"{route}/cycles")


def test_a_request_sets_no_field_that_is_not_its_own(office: Office) -> None:
    route, _ = board(office)
    odd = {"name": "Odd", "by": 1, "project": "x", "seed_id": "chosen", "sequence_id": 99}
    made = office.plane("POST", f"{route}/issues/", odd)
    assert made["id"] != "chosen"
    assert (made["sequence_id"], route) == (2, f"projects/{made['project']}")
    by_new_name = office.plane("GET", f"{route}/work-items/{made['id']}/")
    assert by_new_name["name"] == "Odd"


def test_a_projects_settings_are_kept_in_order(office: Office) -> None:
    route, _ = board(office)
    office.plane("POST", "projects/", {"name": "Other", "identifier": "OTH"})
    for wrong in ({"name": "Other"}, {"identifier": "oth"}, {"name": " "}, {"name": 3}):
        with pytest.raises(OfficeError, match=r"4[01]0"):
            office.plane("PATCH", f"{route}/", wrong)
    [cycle] = office.plane("GET", f"{route}/cycles/")["results"]
    with pytest.raises(OfficeError, match="cannot exceed"):
        office.plane("PATCH", f"{route}/cycles/{cycle['id']}/", {"end_date": "2026-01-01"})
    assert office.plane("PATCH", f"{route}/", {"network": "0"})["network"] == 0


def test_the_issues_of_all_projects_come_as_the_web_application_asks(office: Office) -> None:
    route, _ = board(office)
    for name, day in (("A", "2026-05-01"), ("B", "2026-06-01")):
        office.plane("POST", f"{route}/issues/", {"name": name, "target_date": day})
    path = "/api/workspaces/tac/issues/?order_by=-target_date&per_page=2&cursor=2:0:0"
    found = office.call("plane", "GET", path, headers={"x-api-key": office._plane_key})
    assert [one["name"] for one in found["results"]] == ["B", "A"]
    assert found["total_count"] == 3
