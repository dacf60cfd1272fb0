"""GitLab's API, and git itself over HTTP."""

import base64
import json
import subprocess
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum_envs.office.companies import Companies
from practicum_envs.office.company_seed import (
    Commit,
    CompanySeed,
    Issue,
    MergeRequest,
    Project,
)
from practicum_envs.office.office_client import Office, OfficeError
from practicum_envs.office.tests.serving_companies import Served

SHOP = "projects/root%2Fshop"


def git(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "GIT_TERMINAL_PROMPT": "0", "HOME": "/nonexistent"},
    )


def test_lists_have_twenty_entries_and_lead_to_the_next_page(office: Office) -> None:
    assert len(office.gitlab("GET", f"{SHOP}/issues")) == 20
    rest = office.gitlab("GET", f"{SHOP}/issues", {"page": 2})
    assert [issue["iid"] for issue in rest] == [5, 4, 3, 2, 1]
    _, _, headers = office.request(
        "gitlab", "GET", f"/api/v4/{SHOP}/issues", headers={"PRIVATE-TOKEN": "root-token"}
    )
    assert (headers["x-total"], headers["x-next-page"]) == ("25", "2")
    assert 'rel="next"' in headers["link"]


def test_errors_have_gitlabs_shapes(office: Office) -> None:
    with pytest.raises(OfficeError, match='"message":"404 Project Not Found"'):
        office.gitlab("GET", "projects/root%2Fnone")
    with pytest.raises(OfficeError, match='"error":"title is missing"'):
        office.gitlab("POST", f"{SHOP}/issues", {"description": "x"})
    stranger = Office(door=office._door, gitlab_token="wrong")
    with pytest.raises(OfficeError, match='"message":"401 Unauthorized"'):
        stranger.gitlab("GET", "projects")


def test_a_private_project_is_not_there_for_others(office: Office) -> None:
    status, _, _ = office.request("gitlab", "GET", "/api/v4/projects/root%2Fsecret")
    assert status == 404
    pair = base64.b64encode(b"ann_lee:theagentcompany").decode()
    own = {"Authorization": f"Basic {pair}"}
    status, _, _ = office.request("gitlab", "GET", "/api/v4/projects/root%2Fsecret", headers=own)
    assert status == 404


def test_issues_are_closed_labelled_and_searched(office: Office) -> None:
    made = office.gitlab("POST", f"{SHOP}/issues", {"title": "Odd total", "labels": "bug,new"})
    place = f"{SHOP}/issues/{made['iid']}"
    office.gitlab("PUT", place, {"state_event": "close", "add_labels": "done"})
    office.gitlab("POST", f"{place}/notes", {"body": "Fixed"})
    found = office.gitlab("GET", f"{SHOP}/issues", {"search": "odd", "state": "closed"})
    assert [one["labels"] for one in found] == [["bug", "new", "done"]]
    assert found[0]["user_notes_count"] == 1
    names = [label["name"] for label in office.gitlab("GET", f"{SHOP}/labels")]
    assert names == ["bug", "done", "new"]


def test_a_merge_request_is_merged_by_git(office: Office) -> None:
    [request] = office.gitlab("GET", f"{SHOP}/merge_requests", {"state": "opened"})
    [change] = office.gitlab("GET", f"{SHOP}/merge_requests/{request['iid']}/diffs")
    assert change["diff"] == "@@ -1 +1 @@\n-PRICE = 1\n+PRICE = 2\n"
    office.gitlab("PUT", f"{SHOP}/merge_requests/{request['iid']}/merge")
    file = office.gitlab("GET", f"{SHOP}/repository/files/src%2Fprice.py", {"ref": "main"})
    assert base64.b64decode(file["content"]) == b"PRICE = 2\n"
    again = office.gitlab("GET", f"{SHOP}/merge_requests/{request['iid']}")
    assert (again["state"], again["merged_by"]["username"]) == ("merged", "root")


def test_branches_that_conflict_are_not_merged(office: Office) -> None:
    change = {"branch": "main", "content": "PRICE = 9\n", "commit_message": "Other"}
    office.gitlab("PUT", f"{SHOP}/repository/files/src%2Fprice.py", change)
    with pytest.raises(OfficeError, match="406"):
        office.gitlab("PUT", f"{SHOP}/merge_requests/1/merge")


def test_commits_by_the_api_make_change_and_delete_files(office: Office) -> None:
    actions = [
        {"action": "create", "file_path": "docs/ü.md", "content": "hi"},
        {"action": "delete", "file_path": "README.md"},
        {"action": "move", "file_path": "price.py", "previous_path": "src/price.py"},
    ]
    given = {"branch": "next", "start_branch": "main", "commit_message": "Tidy", "actions": actions}
    office.gitlab("POST", f"{SHOP}/repository/commits", given)
    found = office.gitlab("GET", f"{SHOP}/repository/tree", {"ref": "next", "recursive": True})
    assert [one["path"] for one in found if one["type"] == "blob"] == ["docs/ü.md", "price.py"]
    outside = {"branch": "main", "commit_message": "x", "content": "x"}
    with pytest.raises(OfficeError, match="400"):
        office.gitlab("POST", f"{SHOP}/repository/files/..%2F..%2Fetc%2Fx", outside)


def test_git_clones_and_pushes(served: Served, tmp_path: Path) -> None:
    office = served.company.office
    address = served.url(8929).replace("//", "//root:theagentcompany@")
    assert git("clone", f"{address}/root/secret.git", "work", cwd=tmp_path).returncode == 0
    work = tmp_path / "work"
    (work / "new.bin").write_bytes(bytes(range(256)) * 8000)
    assert git("checkout", "-b", "topic", cwd=work).returncode == 0
    git("add", ".", cwd=work)
    git("commit", "-m", "Add", cwd=work)
    pushed = git("push", "origin", "topic", cwd=work)
    assert pushed.returncode == 0, pushed.stderr
    branches = office.gitlab("GET", "projects/root%2Fsecret/repository/branches")
    assert [branch["name"] for branch in branches] == ["main", "topic"]


def test_git_asks_for_a_login_and_refuses_who_may_not_push(served: Served, tmp_path: Path) -> None:
    address = served.url(8929)
    assert git("clone", f"{address}/root/secret.git", cwd=tmp_path).returncode != 0
    wrong = address.replace("//", "//root:wrong@")
    assert git("clone", f"{wrong}/root/secret.git", cwd=tmp_path).returncode != 0
    guest = address.replace("//", "//bo_cruz:theagentcompany@")
    assert git("clone", f"{guest}/root/shop.git", cwd=tmp_path).returncode == 0
    git("commit", "--allow-empty", "-m", "x", cwd=tmp_path / "shop")
    refused = git("push", "origin", "main", cwd=tmp_path / "shop")
    assert refused.returncode != 0
    assert "403" in refused.stderr


def test_releases_protection_wikis_and_members_are_kept(office: Office) -> None:
    office.gitlab("POST", f"{SHOP}/releases", {"tag_name": "v1", "ref": "main", "name": "One"})
    assert [one["tag_name"] for one in office.gitlab("GET", f"{SHOP}/releases")] == ["v1"]
    office.gitlab("POST", f"{SHOP}/protected_branches", {"name": "raise", "push_access_level": 0})
    rules = office.gitlab("GET", f"{SHOP}/protected_branches")
    assert [one["name"] for one in rules] == ["main", "raise"]
    office.gitlab("POST", f"{SHOP}/wikis", {"title": "How to", "content": "So."})
    [page] = office.gitlab("GET", f"{SHOP}/wikis", {"with_content": 1})
    assert (page["slug"], page["content"]) == ("How-to", "So.")
    assert "So." in office.page("http://the-agent-company.com:8929/root/shop/-/wikis/How-to")
    user = office.gitlab("GET", "users", {"username": "bo_cruz"})[0]["id"]
    office.gitlab("POST", f"{SHOP}/members", {"user_id": user, "access_level": 40})
    assert office.gitlab("GET", f"{SHOP}/members/{user}")["access_level"] == 40


def test_a_deleted_project_is_back_after_a_reset(office: Office) -> None:
    office.gitlab("DELETE", SHOP)
    with pytest.raises(OfficeError, match="404"):
        office.gitlab("GET", SHOP)
    status, _, _ = office.request("api", "POST", "/api/reset-gitlab")
    assert status == 202
    assert len(office.gitlab("GET", f"{SHOP}/repository/commits")) == 1


def test_a_clone_on_the_host_becomes_a_project(companies: Companies, tmp_path: Path) -> None:
    work = tmp_path / "work"
    git("init", "-b", "trunk", str(work))
    (work / "a.txt").write_text("a")
    git("add", ".", cwd=work)
    git("commit", "-m", "First", cwd=work)
    git("tag", "v1", cwd=work)
    project = Project(
        path="root/taken",
        origin=str(work),
        commits=(Commit(message="More", files={"b.txt": "b"}, branch="more"),),
        issues=(Issue(title="Describe it"),),
        merge_requests=(MergeRequest(title="More", source_branch="more"),),
    )
    company = companies.open_now(CompanySeed(projects=(project,)))
    office = company.office
    assert office.gitlab("GET", "projects/root%2Ftaken")["default_branch"] == "trunk"
    assert [tag["name"] for tag in office.gitlab("GET", "projects/1/repository/tags")] == ["v1"]
    [entry] = office.gitlab("GET", "projects/1/repository/tree")
    assert entry["path"] == "a.txt"
    [request] = office.gitlab("GET", "projects/1/merge_requests")
    changed = office.gitlab("GET", f"projects/1/merge_requests/{request['iid']}/diffs")
    assert [one["new_path"] for one in changed] == ["b.txt"]
    assert office.gitlab("GET", "projects/1/issues")[0]["title"] == "Describe it"
    company.close()
    with pytest.raises(UserError, match="is no folder"):
        companies.open_now(CompanySeed(projects=(Project(path="root/x", origin="/nowhere"),)))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_benchmarks_health_check_is_answered_in_both_of_its_ways(
    office: Office, method: str
) -> None:
    status, _, _ = office.request("api", method, "/api/healthcheck/gitlab")
    assert status == 200


def test_an_issue_of_a_seed_has_the_number_that_it_asks_for(companies: Companies) -> None:
    issues = (Issue(title="Far", number=759), Issue(title="Next"))
    opened = companies.open_now(CompanySeed(projects=(Project(path="root/far", issues=issues),)))
    found = opened.office.gitlab("GET", "projects/root%2Ffar/issues")
    opened.close()
    assert {one["title"]: one["iid"] for one in found} == {"Far": 759, "Next": 760}


def test_projects_are_made_in_ones_own_namespace_alone_and_keep_addresses_apart(
    office: Office,
) -> None:
    ann = office.as_user("ann_lee")
    for route, given in (
        ("projects", {"name": "Mine", "namespace_id": "root"}),
        ("projects", {"name": "Mine", "namespace_id": "nobody"}),
        (f"{SHOP}/fork", {"namespace_path": "root", "path": "mine"}),
    ):
        with pytest.raises(OfficeError, match=r"400: .*is not valid"):
            ann.gitlab("POST", route, given)
    assert ann.gitlab("POST", f"{SHOP}/fork")["path_with_namespace"] == "ann_lee/shop"
    for path in ("secret", "a/b", "", "-x"):
        with pytest.raises(OfficeError, match="400"):
            office.gitlab("PUT", SHOP, {"path": path})
    assert office.gitlab("PUT", SHOP, {"path": "store"})["path_with_namespace"] == "root/store"


@pytest.mark.parametrize("name", ["..", "a b", "\ud800", "-x", "x" * 300, "a.lock", "@{", "a\n"])
def test_a_name_that_no_branch_tag_file_or_person_can_have_is_refused(
    served: Served, name: str
) -> None:
    office = served.company.office  # a service that fails is noted, and the fixture sees it
    actions = [{"action": "create", "file_path": f"{name}/x", "content": "x"}]
    commit = {"branch": "next", "start_branch": "main", "commit_message": name, "actions": actions}
    for route, given in (
        (f"{SHOP}/repository/commits", {**commit, "branch": name}),
        (f"{SHOP}/repository/commits", {**commit, "author_name": name, "author_email": name}),
        (f"{SHOP}/repository/branches", {"branch": name, "ref": "main"}),
        (f"{SHOP}/repository/branches", {"branch": "other", "ref": name}),
        (f"{SHOP}/repository/tags", {"tag_name": name, "ref": "main"}),
        (f"{SHOP}/releases", {"tag_name": name, "ref": "main"}),
    ):
        login = {"PRIVATE-TOKEN": "root-token", "Content-Type": "application/json"}
        body = json.dumps(given).encode()
        status, _, _ = office.request("gitlab", "POST", f"/api/v4/{route}", body, login)
        assert status < 500, (route, given)
