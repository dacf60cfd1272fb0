"""Protected branches hold over git, by the API and for merges, as in GitLab."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum_envs.office.branch_protection import may_merge, may_push, rules_of
from practicum_envs.office.office_client import Office, OfficeError
from practicum_envs.office.tests.serving_companies import Served
from practicum_envs.office.tests.test_gitlab import SHOP, git

NO_PUSH = "You are not allowed to push code to protected branches on this project."
NO_FORCE = "You are not allowed to force push code to a protected branch on this project."


def clone(served: Served, folder: Path, user: str, project: str = "root/shop") -> Path:
    """A clone with a commit on `main` that was not pushed."""
    address = served.url(8929).replace("//", f"//{user}:theagentcompany@")
    cloned = git("clone", f"{address}/{project}.git", str(folder))
    assert cloned.returncode == 0, cloned.stderr
    commit(folder, f"{folder.name}.txt")
    return folder


def commit(work: Path, name: str) -> None:
    (work / name).write_text("x")
    git("add", ".", cwd=work)
    assert git("commit", "-m", f"Add {name}", cwd=work).returncode == 0


def push(work: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return git("push", *words, cwd=work)


def branches(office: Office, project: str = SHOP) -> dict[str, str]:
    found = office.gitlab("GET", f"{project}/repository/branches")
    return {one["name"]: one["commit"]["id"] for one in found}


def assert_refused(pushed: subprocess.CompletedProcess[str], said: str) -> None:
    assert pushed.returncode != 0
    assert f"GitLab: {said}" in pushed.stderr.replace("remote: ", "")
    assert "pre-receive hook declined" in pushed.stderr


def test_a_developer_pushes_everywhere_but_to_the_protected_branch(
    served: Served, tmp_path: Path
) -> None:
    before = branches(served.company.office)
    work = clone(served, tmp_path / "shop", "ann_lee")
    assert_refused(push(work, "origin", "main"), NO_PUSH)
    assert_refused(push(work, "origin", "main", "main:more"), NO_PUSH)  # all of it or nothing
    assert branches(served.company.office) == before
    pushed = push(work, "origin", "main:topic")
    assert pushed.returncode == 0, pushed.stderr
    commit(work, "second.txt")
    git("commit", "--amend", "-m", "Another", cwd=work)
    assert push(work, "--force", "origin", "main:topic").returncode == 0
    assert push(work, "origin", ":topic").returncode == 0
    assert branches(served.company.office) == before


def test_a_protected_branch_is_not_forced_or_deleted_by_anyone(
    served: Served, tmp_path: Path
) -> None:
    office = served.company.office
    work = clone(served, tmp_path / "shop", "root")
    assert push(work, "origin", "main").returncode == 0
    before = branches(office)
    git("reset", "--hard", "HEAD~1", cwd=work)
    commit(work, "other.txt")
    assert_refused(push(work, "--force", "origin", "main"), NO_FORCE)
    assert_refused(push(work, "origin", ":main"), "The default branch of a project cannot be")
    office.gitlab("POST", f"{SHOP}/protected_branches", {"name": "rai*"})
    only = "You can only delete protected branches using the web interface."
    assert_refused(push(work, "origin", ":raise"), only)
    assert branches(office) == before
    office.gitlab("PATCH", f"{SHOP}/protected_branches/main", {"allow_force_push": True})
    assert push(work, "--force", "origin", "main").returncode == 0
    assert branches(office)["main"] != before["main"]


def test_developers_push_where_the_branch_allows_them_and_nobody_where_it_allows_no_one(
    served: Served, tmp_path: Path
) -> None:
    office = served.company.office
    work = clone(served, tmp_path / "ann", "ann_lee")
    change = {"allowed_to_push": [{"access_level": 30}]}
    office.gitlab("PATCH", f"{SHOP}/protected_branches/main", change)
    assert push(work, "origin", "main").returncode == 0
    office.gitlab("DELETE", f"{SHOP}/protected_branches/main")
    nobody = {"name": "main", "push_access_level": 0, "merge_access_level": 30}
    office.gitlab("POST", f"{SHOP}/protected_branches", nobody)
    assert_refused(push(clone(served, tmp_path / "root", "root"), "origin", "main"), NO_PUSH)
    office.as_user("ann_lee").gitlab("PUT", f"{SHOP}/merge_requests/1/merge")
    assert office.gitlab("GET", f"{SHOP}/merge_requests/1")["state"] == "merged"


def test_a_branch_of_a_protected_name_is_made_by_who_may_push_to_it(
    served: Served, tmp_path: Path
) -> None:
    office = served.company.office
    office.gitlab("POST", f"{SHOP}/protected_branches", {"name": "stable/*"})
    work = clone(served, tmp_path / "ann", "ann_lee")
    said = "You are not allowed to create protected branches on this project."
    assert_refused(push(work, "origin", "main:stable/1"), said)
    ann = office.as_user("ann_lee")
    with pytest.raises(OfficeError, match=r"400: .*create protected branches"):
        ann.gitlab("POST", f"{SHOP}/repository/branches", {"branch": "stable/1", "ref": "main"})
    assert push(clone(served, tmp_path / "root", "root"), "origin", "main:stable/1").returncode == 0


def test_the_first_push_protects_the_default_branch_however_many_come_with_it(
    served: Served, tmp_path: Path
) -> None:
    office = served.company.office
    made = office.gitlab("POST", "projects", {"name": "Fresh", "visibility": "public"})
    project = f"projects/{made['id']}"
    ann = office.gitlab("GET", "users", {"username": "ann_lee"})[0]["id"]
    office.gitlab("POST", f"{project}/members", {"user_id": ann, "access_level": 30})
    address = served.url(8929)
    git("init", "-b", "main", str(tmp_path / "fresh"))
    commit(tmp_path / "fresh", "a.txt")
    git("branch", "topic", cwd=tmp_path / "fresh")
    for user in ("ann_lee", "root"):
        with_login = address.replace("//", f"//{user}:theagentcompany@")
        git("remote", "add", user, f"{with_login}/root/fresh.git", cwd=tmp_path / "fresh")
    refused = push(tmp_path / "fresh", "ann_lee", "main")
    assert_refused(refused, "A default branch (e.g. main) does not yet exist for root/fresh.")
    assert push(tmp_path / "fresh", "root", "main", "topic").returncode == 0
    [rule] = office.gitlab("GET", f"{project}/protected_branches")
    assert rule["name"] == "main"


def test_the_apis_of_commits_files_branches_and_merges_keep_to_the_protection(
    office: Office,
) -> None:
    ann = office.as_user("ann_lee")
    file = {"branch": "main", "content": "x", "commit_message": "x"}
    with pytest.raises(OfficeError, match=r"400: .*not allowed to push into this branch"):
        ann.gitlab("POST", f"{SHOP}/repository/files/a.txt", file)
    actions = [{"action": "create", "file_path": "a.txt", "content": "x"}]
    commits = {"branch": "main", "commit_message": "x", "actions": actions}
    with pytest.raises(OfficeError, match=r"403: .*not allowed to push into this branch"):
        ann.gitlab("POST", f"{SHOP}/repository/commits", commits)
    ann.gitlab("POST", f"{SHOP}/repository/commits", {**commits, "branch": "raise"})
    with pytest.raises(OfficeError, match="401"):
        ann.gitlab("PUT", f"{SHOP}/merge_requests/1/merge")
    office.gitlab("POST", f"{SHOP}/protected_branches", {"name": "raise"})
    with pytest.raises(OfficeError, match=r"403: .*Protected branch can't be removed"):
        ann.gitlab("DELETE", f"{SHOP}/repository/branches/raise")
    with pytest.raises(OfficeError, match=r"403: .*Cannot remove HEAD branch"):
        office.gitlab("DELETE", f"{SHOP}/repository/branches/main")
    for route in ("protected_branches", "protected_branches/main"):
        with pytest.raises(OfficeError, match="403"):
            ann.gitlab("POST" if "/" not in route else "PATCH", f"{SHOP}/{route}", {"name": "x"})
    can = {one["name"]: one["can_push"] for one in ann.gitlab("GET", f"{SHOP}/repository/branches")}
    assert can == {"main": False, "raise": False}
    office.gitlab("PUT", f"{SHOP}/merge_requests/1/merge", {"should_remove_source_branch": True})
    assert set(branches(office)) == {"main", "raise"}  # a protected branch is not removed


@pytest.mark.parametrize("level", [5, "x", None, [], {}, 45])
def test_an_access_level_that_there_is_not_is_refused(office: Office, level: Any) -> None:
    for given_ in (
        {"name": "x", "push_access_level": level},
        {"name": "x", "allowed_to_merge": [{"access_level": level}]},
    ):
        with pytest.raises(OfficeError, match=r"400: .*does not have a valid value"):
            office.gitlab("POST", f"{SHOP}/protected_branches", given_)
    assert [one["name"] for one in office.gitlab("GET", f"{SHOP}/protected_branches")] == ["main"]


LEVELS = st.sampled_from([0, 10, 20, 30, 40, 50, 60])
RULES = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.text("ab*?[", min_size=1, max_size=5),
            "push_access_levels": st.lists(
                st.sampled_from([{"access_level": n} for n in (0, 30, 40, 60)])
            ),
            "merge_access_levels": st.lists(
                st.sampled_from([{"access_level": n} for n in (0, 30, 40, 60)])
            ),
        }
    ),
    max_size=4,
)


@given(LEVELS, LEVELS, RULES, st.text("ab?[", min_size=1, max_size=5))
def test_rights_grow_with_the_level_and_never_below_developers(
    low: int, high: int, rules: list[dict[str, Any]], branch: str
) -> None:
    project = {"protected_branches": rules}
    low, high = sorted((low, high))
    for may in (may_push, may_merge):
        assert not may(low, project, branch) or may(high, project, branch)
        assert not may(low, project, branch) or low >= 30
    assert not may_push(high, project, branch) or may_merge(high, project, branch)
    exact = [rule for rule in rules if rule["name"] == branch]
    assert all(rule in rules_of(project, branch) for rule in exact)
    assert rules_of(project, branch) == [rule for rule in rules if is_like(branch, rule["name"])]


def is_like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return is_like(text, pattern[1:]) or (bool(text) and is_like(text[1:], pattern))
    return bool(text) and text[0] == pattern[0] and is_like(text[1:], pattern[1:])
