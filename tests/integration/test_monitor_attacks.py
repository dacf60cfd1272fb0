"""`practicum monitor` under attack: by what models wrote, by other sites, and by strangers."""

import http.client
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.hostile_runs import AWAY, EVERYTHING, PAYLOADS, write_hostile_runs
from tests.integration.monitor_site import (
    NEEDS_BROWSER,
    MonitorPage,
    MonitorProcess,
    browsing_monitor,
    monitor_process,
)

pytestmark = pytest.mark.slow

QUOTED = urllib.parse.quote(EVERYTHING)
SHOWN: dict[str, tuple[str, ...]] = {
    "/": (),
    "/?q=" + QUOTED: (),
    "/?sort=" + QUOTED: (),
    "/run?name=bad": PAYLOADS,
    "/run?name=torn": (),
    "/run?name=" + QUOTED: (),
    "/study?name=" + QUOTED: (),
    "/compare?of=bad&of=bad": (),
    "/compare?of=" + QUOTED: (),
    "/rollouts?run=bad": PAYLOADS,
    "/rollouts?run=bad&text=onerror": (),
    "/rollouts?run=bad&text=" + QUOTED: (),
    "/rollouts?run=bad&where=" + QUOTED: (),
    "/rollouts?run=bad&order=" + QUOTED: (),
    "/group?run=bad&row=1": PAYLOADS,
    "/versions?run=bad&row=1": PAYLOADS,
    "/trace?run=bad&row=1": PAYLOADS,
    "/trace?run=bad&row=1&leaf=2": PAYLOADS,
    "/trace?run=bad&row=3": PAYLOADS,
    "/trace?run=bad&row=4": PAYLOADS,
    "/trace?run=bad&row=1&view=tokens": PAYLOADS,
    "/trace?run=bad&row=1&view=evidence": PAYLOADS,
    "/trace?run=bad&row=1&view=" + QUOTED: PAYLOADS,
    "/labels?run=bad": (),
    "/label?run=bad": PAYLOADS,
    "/artefacts": (),
    "/" + QUOTED: (),
}
"""Pages, and the payloads that must be there to be read."""


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "runs").mkdir()
    write_hostile_runs(folder / "runs")
    with monitor_process(folder, "runs", "--write") as started:
        yield started


@pytest.fixture(scope="module")
def page(site: MonitorProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorPage]:
    with browsing_monitor(site, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def asked_for(page: MonitorPage) -> list[str]:
    """Every address that the browser has asked for since it was last looked at."""
    told = [json.loads(row["message"])["message"] for row in page.driver.get_log("performance")]
    sent = [one["params"] for one in told if one["method"] == "Network.requestWillBeSent"]
    return [str(one["request"]["url"]) for one in sent]


@NEEDS_BROWSER
@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path[:40])
def test_what_a_model_wrote_is_text(page: MonitorPage, path: str) -> None:
    asked_for(page)
    page.go(path)
    if page.all("#charts"):
        page.charts()
    for details in page.all("details"):
        page.driver.execute_script("arguments[0].open = true", details)
    assert page.driver.execute_script("return window.ran") is None
    assert page.driver.execute_script("return document.readyState") == "complete"
    text = one_line(page.driver.execute_script("return document.body.textContent"))
    missing = [one for one in SHOWN[path] if one_line(one) not in text]
    assert not missing
    away = [url for url in asked_for(page) if not url.startswith((page.site.base, "data:"))]
    assert not away
    assert page.driver.current_url.startswith(page.site.base)
    assert not page.all(
        f'[src^="{AWAY}"], [href^="{AWAY}"], [onerror], [onload], [onfocus], iframe'
    )


@NEEDS_BROWSER
def test_a_script_that_did_get_in_would_not_run(page: MonitorPage) -> None:
    """The policy is a second wall: markup put there by the test itself is not run either."""
    page.go("/run?name=bad")
    page.driver.execute_script(
        "const made = document.createElement('div'); made.innerHTML = arguments[0];"
        "document.body.append(made)",
        "<img src=x onerror='window.ran=1'><style>body{opacity:0}</style>",
    )
    page.until(lambda: page.complaints())
    assert page.driver.execute_script("return window.ran") is None
    assert page.driver.execute_script("return getComputedStyle(document.body).opacity") == "1"


@NEEDS_BROWSER
def test_nothing_points_at_code_or_elsewhere(page: MonitorPage) -> None:
    for path in ("/", "/run?name=bad", "/rollouts?run=bad", "/trace?run=bad&row=1"):
        page.go(path)
        links = [link.get_attribute("href") for link in page.all("a")]
        assert links
        assert all(link.startswith(page.site.base) for link in links)


def ask(site: MonitorProcess, path: str, method: str = "GET", **headers: str) -> Any:
    """What is answered, on a connection of its own."""
    where = urllib.parse.urlsplit(site.address)
    line = http.client.HTTPConnection(where.hostname or "", where.port, timeout=120)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    line.request(
        method, path, body=b"name=bad&typed=bad" if method == "POST" else None, headers=given
    )
    answer = line.getresponse()
    answer.text = answer.read().decode()  # type: ignore[attr-defined]
    line.close()
    return answer


def cookie_of(site: MonitorProcess) -> str:
    answer = ask(site, site.address.removeprefix(site.base))
    assert answer.status == 303
    return str(answer.getheader("set-cookie"))


def test_without_the_key_nothing_is_answered(site: MonitorProcess) -> None:
    for path in ("/", "/run?name=bad", "/static/monitor.js", "/data/charts?name=bad", "/?key=no"):
        answer = ask(site, path)
        assert answer.status == 401
        assert "bad" not in answer.text.replace("practicum monitor", "")


def test_the_key_is_swapped_for_a_cookie_that_scripts_cannot_read(site: MonitorProcess) -> None:
    answer = ask(site, site.address.removeprefix(site.base) + "&q=x")
    assert (answer.status, answer.getheader("location")) == (303, "/?q=x")
    cookie = cookie_of(site)
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    key = site.address.partition("key=")[2]
    assert key not in cookie
    assert ask(site, "/", cookie=cookie.partition(";")[0]).status == 200
    away = ask(site, f"//attacker.example/?key={key}")
    assert away.getheader("location") == "/attacker.example/"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "attacker.example"}, 421),
        ({"origin": "http://attacker.example"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
    ],
)
def test_pages_of_other_sites_are_refused(
    site: MonitorProcess, headers: dict[str, str], status: int
) -> None:
    cookie = cookie_of(site).partition(";")[0]
    assert ask(site, "/", cookie=cookie, **headers).status == status


def test_a_form_is_taken_from_pages_of_its_own_alone(site: MonitorProcess) -> None:
    cookie = cookie_of(site).partition(";")[0]
    form = {"cookie": cookie, "content_type": "application/x-www-form-urlencoded"}
    assert ask(site, "/stop", "POST", **form).status == 403
    assert ask(site, "/stop", "POST", origin="http://attacker.example", **form).status == 403
    answer = ask(site, "/stop", "POST", origin=site.base, **form)
    assert answer.status == 400
    assert "nothing to stop" in answer.text


def test_every_answer_has_the_policy(site: MonitorProcess) -> None:
    cookie = cookie_of(site).partition(";")[0]
    for path in ("/", "/nothing", "/static/monitor.js", "/data/charts?name=bad", "/run?name=no"):
        answer = ask(site, path, cookie=cookie)
        policy = str(answer.getheader("content-security-policy"))
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.getheader("x-content-type-options") == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/run?name=../bad",
        "/run?name=bad/../bad",
        "/run?name=/etc",
        "/run?name=bad/checkpoints",
        "/run?name=%00",
        "/rollouts?run=..%2f..",
        "/trace?run=bad&row=99999999999999999999999",
        "/trace?run=bad&row=-1",
        "/trace?run=bad&row=1&leaf=0",
        "/trace?run=bad&row=" + "9" * 5000,
        "/rollouts?run=bad&skip=x",
        "/rollouts?run=bad&text=a&before=x",
        "/static/../monitor_app.py",
        "/static/%2e%2e/monitor_app.py",
        "/compare?" + "of=bad&" * 9,
        "/events?name=../bad",
    ],
)
def test_what_cannot_be_is_a_sentence(site: MonitorProcess, path: str) -> None:
    cookie = cookie_of(site).partition(";")[0]
    answer = ask(site, path, cookie=cookie)
    assert answer.status in (400, 404)
    assert "import" not in answer.text


def test_without_the_second_right_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    write_hostile_runs(tmp_path / "runs")
    before = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*.json*")}
    with monitor_process(tmp_path, "runs") as site:
        cookie = cookie_of(site).partition(";")[0]
        for path in ("/notes", "/stop", "/delete", "/label"):
            answer = ask(site, path, "POST", origin=site.base, cookie=cookie)
            assert answer.status == 403
            assert "--write" in answer.text
        assert ask(site, "/label?run=bad", cookie=cookie).status == 404
        assert "/delete" not in ask(site, "/run?name=bad", cookie=cookie).text
    assert {path: path.read_bytes() for path in before} == before
