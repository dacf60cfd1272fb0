"""GitLab by its pages alone: links are followed and forms are sent, as a browser does it."""

import json
import random
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from practicum_envs.office.office_client import Office
from practicum_envs.office.tests.form_browser import FormBrowser, Page
from practicum_envs.office.tests.serving_companies import Served
from practicum_envs.office.tests.test_gitlab import SHOP
from practicum_envs.office.tests.test_odd_requests import ODD


def signed_in(served: Served, user: str = "root") -> FormBrowser:
    browser = FormBrowser(served.url(8929))
    browser.go("/users/sign_in")
    browser.press("Sign in", **{"user[login]": user, "user[password]": "theagentcompany"})
    assert f"Signed in as {user}" in browser.page.text
    return browser


@pytest.fixture
def browser(served: Served) -> FormBrowser:
    return signed_in(served)


def works(office: Office, kind: str = "issues", **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = office.gitlab("GET", f"{SHOP}/{kind}", asked)
    return found


def test_signing_in_leads_to_the_page_that_was_asked_for_and_signing_out_ends_it(
    served: Served,
) -> None:
    browser = FormBrowser(served.url(8929))
    browser.go("/root/secret/-/issues?state=all")
    assert browser.status == 401
    wrong = {"user[login]": "root", "user[password]": "wrong"}
    assert "Invalid login or password" in browser.press("Sign in", **wrong).text
    right = {"user[login]": "root", "user[password]": "theagentcompany"}
    assert "root/secret" in browser.press("Sign in", **right).text
    assert browser.url.endswith("/root/secret/-/issues?state=all")
    browser.press("Sign out")
    browser.go("/root/secret")
    assert browser.status == 401


def test_a_login_never_leads_to_another_site(served: Served) -> None:
    for to in ("//evil.example/x", "http://evil.example/x", "/\\evil.example", "javascript:x"):
        given = {"user[login]": "root", "user[password]": "theagentcompany", "return_to": to}
        body = urllib.parse.urlencode(given).encode()
        browser = FormBrowser(served.url(8929))
        browser.go("/users/sign_in", body)
        assert browser.url.startswith(served.url(8929))


def test_an_issue_is_made_changed_commented_and_closed(
    office: Office, browser: FormBrowser
) -> None:
    office.gitlab("POST", f"{SHOP}/milestones", {"title": "v1"})
    browser.go("/root/shop/-/issues")
    browser.follow("New issue")
    browser.press(
        "Create issue",
        check=("Ann Lee", "bug"),
        **{
            "issue[title]": "Odd <total>",
            "issue[description]": "one\ntwo",
            "issue[milestone_id]": "v1",
            "issue[due_date]": "2026-05-01",
        },
    )
    assert "Odd <total>" in browser.page.text
    [issue] = works(office, search="odd")
    assert (issue["labels"], issue["description"]) == (["bug"], "one\ntwo")
    assert [one["username"] for one in issue["assignees"]] == ["ann_lee"]
    assert (issue["milestone"]["title"], issue["due_date"]) == ("v1", "2026-05-01")
    browser.press("Comment", **{"note[note]": "Looking into it"})
    assert "Looking into it" in browser.page.text
    browser.press("React with thumbsup (0)")
    browser.press("Close issue")
    assert "State: closed" in browser.page.text
    [issue] = works(office, search="odd")
    assert (issue["state"], issue["user_notes_count"], issue["upvotes"]) == ("closed", 1, 1)
    browser.press("Reopen issue")
    browser.follow("Edit issue")
    assert ("issue[labels][]", "bug") in browser.page.forms[0].fields
    form = browser.page.forms[0]
    form.fields = [one for one in form.fields if one != ("issue[labels][]", "bug")]
    browser.press(
        "Save changes", **{"issue[title]": "Even total", "issue[milestone_id]": "No milestone"}
    )
    [issue] = works(office, search="even")
    assert (issue["labels"], issue["milestone"], issue["state"]) == ([], None, "opened")
    assert [one["username"] for one in issue["assignees"]] == ["ann_lee"]


def test_lists_show_what_is_open_and_filter(office: Office, browser: FormBrowser) -> None:
    office.gitlab("PUT", f"{SHOP}/issues/25", {"state_event": "close"})
    assert "Issue 24" not in browser.go("/root/shop/-/issues").text
    assert "Issue 24" in browser.follow("closed").text
    page = browser.go("/root/shop/-/issues?label_name[]=bug&search=issue+23&state=all")
    assert len([to for to in page.links if to.rpartition("/")[2].isdigit()]) == 1
    browser.go("/root/shop/-/issues")
    assert "Issue 0" not in browser.page.text
    assert "Issue 0" in browser.follow("Next").text


def test_a_merge_request_is_made_approved_and_merged(office: Office, browser: FormBrowser) -> None:
    change = {"branch": "topic", "start_branch": "main", "commit_message": "x", "content": "x"}
    office.gitlab("POST", f"{SHOP}/repository/files/topic.txt", change)
    browser.go("/root/shop/-/merge_requests")
    browser.follow("New merge request")
    fields = {"merge_request[source_branch]": "topic", "merge_request[title]": "Add a topic"}
    browser.press("Create merge request", check=("Bo Cruz",), **fields)
    [made] = works(office, "merge_requests", search="topic")
    assert (made["target_branch"], made["assignees"][0]["username"]) == ("main", "bo_cruz")
    browser.press("Approve")
    assert "Approved by root" in browser.page.text
    assert "topic.txt" in browser.follow("Changes").text
    browser.follow(f"Back to !{made['iid']}")
    browser.press("Merge", check=("Delete source branch",))
    [made] = works(office, "merge_requests", search="topic")
    assert made["state"] == "merged"
    assert office.gitlab("GET", f"{SHOP}/repository/files/topic.txt", {"ref": "main"})
    names = [one["name"] for one in office.gitlab("GET", f"{SHOP}/repository/branches")]
    assert "topic" not in names


def test_who_may_not_merge_is_shown_no_button_and_refused_without_it(
    served: Served, office: Office
) -> None:
    ann = signed_in(served, "ann_lee")
    page = ann.go("/root/shop/-/merge_requests/1")
    assert "Merge" not in [form.button for form in page.forms]
    assert "Ready to merge by members who can write to the target branch" in page.text
    token = dict(page.forms[0].fields)["authenticity_token"]
    body = urllib.parse.urlencode({"authenticity_token": token}).encode()
    ann.go("/root/shop/-/merge_requests/1/merge", body)
    assert ann.status == 401
    assert works(office, "merge_requests")[0]["state"] == "opened"
    ann.go("/root/shop/edit")
    assert ann.status == 404


def test_a_form_of_another_site_changes_nothing(office: Office, browser: FormBrowser) -> None:
    body = urllib.parse.urlencode({"issue[title]": "Forged"}).encode()
    page = browser.go("/root/shop/-/issues", body)
    assert browser.status == 422
    assert "The change you requested was rejected" in page.text
    assert works(office, search="forged") == []


def test_files_are_written_in_the_browser(office: Office, browser: FormBrowser) -> None:
    def content(path: str, ref: str = "main") -> bytes:
        place = f"/api/v4/{SHOP}/repository/files/{path}/raw?ref={ref}"
        login = {"PRIVATE-TOKEN": "root-token"}
        return office.request("gitlab", "GET", place, headers=login)[1]

    browser.go("/root/shop/-/blob/main/src/price.py")
    browser.follow("Edit")
    browser.press("Commit changes", content="PRICE = 3\r\nTAX = 1\r\n", commit_message="Tax")
    assert content("src%2Fprice.py") == b"PRICE = 3\nTAX = 1\n"
    browser.go("/root/shop/-/tree/main/src")
    browser.follow("New file")
    browser.press("Commit changes", file_name="ü b.md", content="\nhi\n", branch_name="new/one")
    assert browser.status == 200
    assert "hi" in browser.page.text
    assert content("src%2F%C3%BC%20b.md", "new%2Fone") == b"\nhi\n"
    assert "Tax" in browser.go("/root/shop/-/commits/main").text
    browser.go("/root/shop/-/blob/main/src/price.py")
    browser.press("Delete file")
    assert "price.py" not in browser.go("/root/shop/-/tree/main").text
    browser.go("/root/shop/-/ci/editor?branch_name=main")
    browser.press("Commit changes", content="test:\n  script: [true]\n")
    assert content(".gitlab-ci.yml").startswith(b"test:")


def test_branches_tags_releases_and_wiki_pages_come_and_go(
    office: Office, browser: FormBrowser
) -> None:
    browser.go("/root/shop/-/branches")
    browser.press("Create branch", branch_name="feature/ssl", ref="main")
    browser.follow("Delete feature/ssl")
    assert "permanently delete the branch feature/ssl" in browser.page.text
    browser.press("Yes, delete branch")
    names = [one["name"] for one in office.gitlab("GET", f"{SHOP}/repository/branches")]
    assert names == ["main", "raise"]
    browser.go("/root/shop/-/tags")
    browser.press("Create tag", tag_name="v0")
    browser.go("/root/shop/-/releases")
    browser.follow("New release")
    fields = {"tag_name": "v1", "name": "One", "description": "The first"}
    browser.press("Create release", **{f"release[{k}]": v for k, v in fields.items()})
    assert [one["name"] for one in office.gitlab("GET", f"{SHOP}/releases")] == ["One"]
    assert len(office.gitlab("GET", f"{SHOP}/repository/tags")) == 2
    browser.go("/root/shop/-/wikis")
    browser.follow("New page")
    browser.press("Create page", **{"wiki[title]": "How to", "wiki[content]": "So."})
    browser.follow("Edit")
    browser.press("Save changes", **{"wiki[content]": "Otherwise."})
    [page] = office.gitlab("GET", f"{SHOP}/wikis", {"with_content": 1})
    assert (page["slug"], page["content"]) == ("How-to", "Otherwise.")
    browser.press("Delete page")
    assert office.gitlab("GET", f"{SHOP}/wikis") == []


def test_labels_milestones_and_boards_are_worked_with(office: Office, browser: FormBrowser) -> None:
    browser.go("/root/shop/-/labels")
    browser.follow("New label")
    browser.press("Create label", **{"label[title]": "doing", "label[color]": "#ff0000"})
    browser.go("/root/shop/-/milestones")
    browser.follow("New milestone")
    browser.press("Create milestone", **{"milestone[title]": "v1"})
    browser.press("Close milestone")
    [milestone] = office.gitlab("GET", f"{SHOP}/milestones")
    assert (milestone["title"], milestone["state"]) == ("v1", "closed")
    browser.go("/root/shop/-/boards")
    browser.press("Create list", label="doing")
    move = next(form for form in browser.page.forms if form.button == "Move")
    number = dict(move.fields)["issue"]
    browser.press("Move", to="doing")
    assert works(office, labels="doing")[0]["iid"] == int(number)
    moves = [form for form in browser.page.forms if form.button == "Move"]
    browser.page.forms = [f for f in moves if dict(f.fields)["from"] == "doing"]
    browser.press("Move", to="Closed")
    closed = office.gitlab("GET", f"{SHOP}/issues/{number}")
    assert (closed["state"], "doing" in closed["labels"]) == ("closed", False)
    [board] = office.gitlab("GET", f"{SHOP}/boards")
    assert [one["label"]["name"] for one in board["lists"]] == ["doing"]


def test_a_project_is_made_renamed_staffed_protected_and_deleted(
    office: Office, browser: FormBrowser
) -> None:
    browser.follow("New project")
    browser.press(
        "Create project",
        check=("Initialize",),
        **{"project[name]": "New Storage Project", "project[visibility]": "Public"},
    )
    assert browser.url.endswith("/root/new-storage-project")
    browser.follow("Settings")
    browser.press("Save changes", **{"project[name]": "Store", "project[topics]": "a, b"})
    place = "projects/root%2Fnew-storage-project"
    made = office.gitlab("GET", place)
    assert (made["name"], made["topics"], made["visibility"]) == ("Store", ["a", "b"], "public")
    browser.follow("Members")
    browser.press("Invite member", user_id="Bo Cruz (bo_cruz)", access_level="Reporter")
    browser.press("Update bo_cruz", access_level="Developer")
    found = office.gitlab("GET", f"{place}/members")
    assert {one["username"]: one["access_level"] for one in found} == {"root": 50, "bo_cruz": 30}
    browser.press("Remove bo_cruz")
    browser.follow("Repository settings")
    rule = {
        "protected_branch[merge]": "Developers + Maintainers",
        "protected_branch[push]": "No one",
    }
    browser.press("Update main", **rule)
    [kept] = office.gitlab("GET", f"{place}/protected_branches")
    assert kept["push_access_levels"][0]["access_level"] == 0
    assert kept["merge_access_levels"][0]["access_level"] == 30
    browser.press("Protect", **{"protected_branch[name]": "v*"})
    browser.press("Unprotect main")
    assert [one["name"] for one in office.gitlab("GET", f"{place}/protected_branches")] == ["v*"]
    browser.follow("Settings")
    browser.follow("Delete project")
    browser.press("Yes, delete project")
    assert "new-storage-project" not in browser.page.text


def test_a_picture_of_a_project_is_uploaded_shown_and_removed(
    office: Office, browser: FormBrowser
) -> None:
    def put(name: str, content: bytes, field: str, path: str, **more: str) -> int:
        body = b""
        for key, value in more.items():
            body += (
                f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
            )
        head = f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n'
        body += head.encode() + b"Content-Type: image/png\r\n\r\n" + content + b"\r\n--x--\r\n"
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        if path.startswith("/api"):
            login = {**kind, "PRIVATE-TOKEN": "root-token"}
            return office.request("gitlab", "PUT", path, body, login)[0]
        return status_of(browser, urllib.request.Request(browser.site + path, body, kind))

    place = f"/api/v4/{SHOP}"
    for name, content, status in (
        ("a.txt", b"x", 400),
        ("a.png", b"x" * (1 << 20), 400),
        ("../a b.png", b"\x89PNG one", 200),
    ):
        assert put(name, content, "avatar", place) == status
    url = office.gitlab("GET", SHOP)["avatar_url"]
    assert url.endswith("/avatar/1/a_b.png")
    status, body, headers = office.request("gitlab", "GET", url.partition(":8929")[2])
    assert (status, body, headers["content-type"]) == (200, b"\x89PNG one", "image/png")
    browser.go("/root/shop/edit")
    token = dict(browser.page.forms[0].fields)["authenticity_token"]
    more = {"authenticity_token": token, "_method": "patch"}
    assert put("s.png", b"\x89PNG two", "project[avatar]", "/root/shop", **more) == 200
    assert office.request("gitlab", "GET", f"{place}/avatar")[1] == b"\x89PNG two"
    browser.press("Remove avatar")
    assert office.gitlab("GET", SHOP)["avatar_url"] is None


def test_search_and_the_to_do_list_lead_to_what_they_name(
    served: Served, office: Office, browser: FormBrowser
) -> None:
    browser.go("/search?search=shop")
    assert "root/shop" in browser.page.links.values()
    browser.go("/root/shop")
    page = browser.go("/search?search=price&scope=blobs&project_id=1")
    assert any("/-/blob/main/src/price.py" in to for to in page.links)
    browser.go("/root/shop/-/issues/3")
    browser.press("Comment", **{"note[note]": "What do you say, @ann_lee?"})
    ann = signed_in(served, "ann_lee")
    ann.follow("To-Do List")
    assert "mentioned by root" in ann.page.text
    ann.follow("root/shop: Issue 2")
    ann.go("/dashboard/todos")
    ann.press("Mark as done")
    assert "mentioned by root" not in ann.page.text


def test_what_is_refused_says_why_and_leads_back(browser: FormBrowser) -> None:
    browser.go("/root/shop/-/issues/new")
    browser.press("Create issue")
    assert browser.status == 400
    assert "title is missing" in browser.page.text
    browser.go("/projects/new")
    browser.press("Create project", **{"project[name]": "shop"})
    assert "has already been taken" in browser.page.text


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/root/shop/-/pipelines", "CI pipelines"),
        ("/root/shop/-/environments", "environments"),
        ("/admin", "admin area"),
        ("/-/user_settings/profile", "profile settings"),
    ],
)
def test_pages_that_no_company_has_are_refused_by_name(
    browser: FormBrowser, path: str, what: str
) -> None:
    page = browser.go(path)
    assert browser.status == 501
    assert f"GitLab's {what} " in page.text
    assert "not part of this company" in page.text


def crawled(browser: FormBrowser, *begin: str) -> Iterator[tuple[str, Page]]:
    """Every page to which links lead from some pages, once whatever its query is."""
    waiting, seen = list(begin), set[str]()
    while waiting:
        address = waiting.pop()
        page = browser.go(address)
        yield address, page
        for to in page.links:
            where = urllib.parse.urljoin(browser.url, to).removeprefix(browser.site)
            kind = re.sub(r"/(issues|commit)/\w{3,}", r"/\1/", where.split("?")[0])
            if kind not in seen:
                seen.add(kind)
                waiting.append(where)


def test_every_link_leads_to_a_page(browser: FormBrowser) -> None:
    found = 0
    for address, page in crawled(browser, "/", "/root/shop", "/root/secret"):
        assert browser.status == 200, address
        assert all(form.button for form in page.forms), address
        found += 1
    assert found > 60


def status_of(browser: FormBrowser, asked: urllib.request.Request) -> int:
    try:
        with browser._opener.open(asked) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.code


@pytest.mark.slow
def test_whatever_a_form_is_filled_with_is_answered(browser: FormBrowser) -> None:
    rng = random.Random("forms")
    forms = [form for _, page in crawled(browser, "/", "/root/shop") for form in page.forms]
    chosen = {(form.action, form.button): form for form in forms}
    for form in chosen.values():
        if form.button in ("Sign out", "Yes, delete project") or not form.action:
            continue
        for as_json in (False, True):
            odd = ODD if as_json else [str(one) for one in ODD if one != "\ud800"]
            kept = ("authenticity_token", "_method")
            sent = [
                (n, v) if n in kept or rng.random() < 0.3 else (n, rng.choice(odd))
                for n, v in form.fields
            ]
            kind = "application/json" if as_json else "application/x-www-form-urlencoded"
            body = json.dumps(dict(sent)) if as_json else urllib.parse.urlencode(sent)
            where = urllib.parse.urljoin(browser.site, form.action)
            asked = urllib.request.Request(where, body.encode(), {"Content-Type": kind})
            assert status_of(browser, asked) < 500, (form, sent)
