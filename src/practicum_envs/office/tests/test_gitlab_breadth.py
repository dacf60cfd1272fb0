"""What clients of GitLab use besides projects and issues; what is not here is refused by name."""

import re
import subprocess
from pathlib import Path

import pytest

from practicum_envs.office.office_client import Office, OfficeError
from practicum_envs.office.services.absent import GITLAB
from practicum_envs.office.tests.serving_companies import Served
from practicum_envs.office.tests.test_gitlab import SHOP, git


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"scope": "projects", "search": "SHOP"}, ["root/shop"]),
        ({"scope": "issues", "search": "issue 2", "per_page": 100}, 6),
        ({"scope": "issues", "search": "issue", "state": "closed"}, 0),
        ({"scope": "merge_requests", "search": "raise"}, 1),
        ({"scope": "users", "search": "lee"}, 1),
        ({"scope": "milestones", "search": "v1"}, 1),
        ({"scope": "notes", "search": "hello"}, 1),
        ({"scope": "wiki_blobs", "search": "so."}, 1),
        ({"scope": "commits", "search": "initial"}, 2),
        ({"scope": "blobs", "search": "price ="}, ["src/price.py"]),
        ({"scope": "blobs", "search": "[.*"}, 0),
        ({"scope": "blobs", "search": "--help"}, 0),
    ],
)
def test_search_finds_in_every_scope(
    office: Office, asked: dict[str, str], found: int | list[str]
) -> None:
    office.gitlab("POST", f"{SHOP}/milestones", {"title": "v1"})
    office.gitlab("POST", f"{SHOP}/issues/1/notes", {"body": "Hello there"})
    office.gitlab("POST", f"{SHOP}/wikis", {"title": "How to", "content": "So."})
    shown = office.gitlab("GET", "search", asked)
    if isinstance(found, list):
        assert [one.get("path_with_namespace") or one["path"] for one in shown] == found
    else:
        assert len(shown) == found


def test_search_shows_nobody_what_they_may_not_see(office: Office) -> None:
    ann = office.as_user("ann_lee")
    assert ann.gitlab("GET", "search", {"scope": "blobs", "search": "hidden"}) == []
    found = office.gitlab("GET", "projects/2/search", {"scope": "blobs", "search": "hidden"})
    assert [(one["path"], one["startline"]) for one in found] == [("plan.txt", 1)]
    with pytest.raises(OfficeError, match="404"):
        ann.gitlab("GET", "projects/2/search", {"scope": "blobs", "search": "hidden"})
    with pytest.raises(OfficeError, match="scope does not have a valid value"):
        office.gitlab("GET", "search", {"scope": "x", "search": "x"})


def test_to_do_items_come_by_assignment_mention_and_review_and_go_when_done(
    office: Office,
) -> None:
    ann, number = office.as_user("ann_lee"), 3
    place = f"{SHOP}/issues/{number}"
    user = office.gitlab("GET", "users", {"username": "ann_lee"})[0]["id"]
    office.gitlab("PUT", place, {"assignee_ids": [user]})
    office.gitlab("PUT", place, {"assignee_ids": [user]})
    office.gitlab("POST", f"{place}/notes", {"body": "@ann_lee, @nobody and x@bo_cruz"})
    office.gitlab("PUT", f"{SHOP}/merge_requests/1", {"reviewer_ids": [user]})
    waiting = ann.gitlab("GET", "todos")
    actions = [one["action_name"] for one in waiting]
    assert actions == ["review_requested", "mentioned", "assigned"]
    assert office.as_user("bo_cruz").gitlab("GET", "todos") == []
    ann.gitlab("POST", f"{place}/notes", {"body": "Done"})  # who answers has done it
    [review] = ann.gitlab("GET", "todos")
    assert review["target"]["title"] == "Raise the price"
    with pytest.raises(OfficeError, match="404"):
        office.gitlab("POST", f"todos/{review['id']}/mark_as_done")  # it is not root's
    ann.gitlab("POST", f"todos/{review['id']}/mark_as_done")
    ann.gitlab("POST", f"{SHOP}/issues/5/todo")
    assert len(ann.gitlab("GET", "todos")) == 1
    ann.gitlab("POST", "todos/mark_as_done")
    assert ann.gitlab("GET", "todos") == []
    assert len(ann.gitlab("GET", "todos", {"state": "done"})) == 4


def test_reactions_are_one_for_each_person_and_thumbs_are_votes(office: Office) -> None:
    place = f"{SHOP}/issues/1"
    ann = office.as_user("ann_lee")
    for who in (office, ann):
        who.gitlab("POST", f"{place}/award_emoji", {"name": "thumbsup"})
    with pytest.raises(OfficeError, match="already been taken"):
        ann.gitlab("POST", f"{place}/award_emoji", {"name": "thumbsup"})
    issue = office.gitlab("GET", place)
    assert (issue["upvotes"], "awards" in issue) == (2, False)
    first = office.gitlab("GET", f"{place}/award_emoji")[0]
    with pytest.raises(OfficeError, match="403"):
        ann.gitlab("DELETE", f"{place}/award_emoji/{first['id']}")
    office.gitlab("DELETE", f"{place}/award_emoji/{first['id']}")
    assert office.gitlab("GET", place)["upvotes"] == 1
    note = office.gitlab("POST", f"{place}/notes", {"body": "x"})
    office.gitlab("POST", f"{place}/notes/{note['id']}/award_emoji", {"name": "tada"})
    [made] = office.gitlab("GET", f"{place}/notes/{note['id']}/award_emoji")
    assert (made["name"], made["awardable_type"]) == ("tada", "Note")


def test_boards_have_lists_of_labels_in_an_order(office: Office) -> None:
    board = office.gitlab("POST", f"{SHOP}/boards", {"name": "Work"})
    place = f"{SHOP}/boards/{board['id']}"
    made = []
    for name in ("todo", "doing"):
        label = office.gitlab("POST", f"{SHOP}/labels", {"name": name, "color": "#fff"})
        made.append(office.gitlab("POST", f"{place}/lists", {"label_id": label["id"]}))
    with pytest.raises(OfficeError, match="already been taken"):
        office.gitlab("POST", f"{place}/lists", {"label_id": made[0]["label"]["id"]})
    office.gitlab("PUT", f"{place}/lists/{made[1]['id']}", {"position": 0})
    shown = office.gitlab("GET", f"{place}/lists")
    assert [(one["label"]["name"], one["position"]) for one in shown] == [("doing", 0), ("todo", 1)]
    office.gitlab("DELETE", f"{place}/lists/{made[0]['id']}")
    [left] = office.gitlab("GET", place)["lists"]
    assert left["label"]["name"] == "doing"
    office.gitlab("DELETE", place)
    assert office.gitlab("GET", f"{SHOP}/boards") == []


@pytest.mark.parametrize("word", sorted(GITLAB))
def test_what_no_company_has_is_refused_by_its_name(office: Office, word: str) -> None:
    said = f"GitLab's {re.escape(GITLAB[word])} (is|are) not part of this company"
    with pytest.raises(OfficeError, match=f"501: .*{said}"):
        office.gitlab("GET", f"unknown/{word}")


def test_the_guide_names_all_that_is_refused() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "office.md").read_text()
    section = guide.partition("## GitLab\n")[2].partition("\n## ")[0]
    refused = section.replace("|", ",").split(",")
    assert not {*GITLAB.values()} - {one.strip() for one in refused}


def test_an_address_that_gitlab_does_not_have_either_is_refused_with_words(office: Office) -> None:
    with pytest.raises(OfficeError, match=r"404: .*GitLab has nothing at /api/v4/nonsense"):
        office.gitlab("GET", "nonsense")
    with pytest.raises(OfficeError, match=r"405: .*GitLab takes no DELETE at"):
        office.gitlab("DELETE", f"{SHOP}/milestones")


def test_a_partial_clone_has_no_files_until_they_are_asked_for(
    served: Served, tmp_path: Path
) -> None:
    address = f"{served.url(8929)}/root/shop.git"
    cloned = git("clone", "--filter=blob:none", "--no-checkout", address, str(tmp_path / "work"))
    assert cloned.returncode == 0, cloned.stderr
    assert "filtering not recognized" not in cloned.stderr
    missing = git("rev-list", "--objects", "--all", "--missing=print", cwd=tmp_path / "work")
    assert "\n?" in missing.stdout
    shown = git("show", "origin/main:src/price.py", cwd=tmp_path / "work")
    assert shown.stdout == "PRICE = 1\n"


def test_git_is_told_what_it_cannot_have(served: Served, tmp_path: Path) -> None:
    address = served.url(8929).replace("//", "//root:theagentcompany@")
    wiki = git("clone", f"{address}/root/shop.wiki.git", str(tmp_path / "wiki"))
    assert wiki.returncode != 0
    assert "GitLab's wiki repositories are not part of this company" in wiki.stderr
    batch = f"{address}/root/shop.git/info/lfs/objects/batch"
    asked = subprocess.run(
        ["curl", "-s", "-w", "%{http_code}", "-X", "POST", batch, "-d", "{}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "GitLab's LFS (large files in git) is not part of this company" in asked.stdout
    assert asked.stdout.endswith("501")
