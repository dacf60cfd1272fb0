"""The page of `practicum serve` in a real browser, over a real model and a real server."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from practicum.store.trace_store import SqliteTraceStore

pytestmark = pytest.mark.skipif(
    shutil.which("chromium") is None or shutil.which("chromedriver") is None,
    reason="needs chromium and chromium-driver (Debian packages)",
)

SWITCHES = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1200,760"),
)


@pytest.fixture
def address(practicum: Any, tmp_path: Path, tiny_run: Any) -> Iterator[str]:
    """A server of a tiny run; what it answers is recorded where the browser agrees."""
    runs = tmp_path / "runs"
    assert practicum("train", *tiny_run, f"runs_dir={runs}", "--name", "first").code == 0
    words = ("serve", runs / "first", "--port", "0", "--record", tmp_path / "traffic.sqlite")
    command = [sys.executable, "-m", "practicum.cli.main", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip().removesuffix("/v1")
        server.terminate()
    assert server.returncode == 0


@pytest.fixture
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    for switch in SWITCHES:
        options.add_argument(switch)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


class Page:
    """What a person does on the page."""

    def __init__(self, browser: Any, address: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        self._browser, self._wait = browser, WebDriverWait(browser, 60)
        browser.get(address)
        self.until(lambda: self.text("state") == "ready")

    def until(self, holds: Any) -> None:
        self._wait.until(lambda _: holds())

    def element(self, name: str) -> Any:
        return self._browser.find_element("id", name)

    def text(self, name: str) -> str:
        return str(self.element(name).text)

    def write(self, name: str, text: str) -> None:
        self.element(name).clear()
        self.element(name).send_keys(text)

    def click(self, css: str) -> None:
        self._browser.find_element("css selector", css).click()

    def count(self, css: str) -> int:
        return len(self._browser.find_elements("css selector", css))


@pytest.mark.rare
@pytest.mark.slow
def test_a_person_chats_judges_and_lets_it_solve(
    browser: Any, address: str, tmp_path: Path
) -> None:
    page = Page(browser, address)
    page.click("#consent")
    page.write("max-tokens", "12")
    page.write("prompt", "<img src=x onerror=document.title='broken'> hello")
    page.click("#send")
    page.until(lambda: page.element("send").is_enabled())
    written = page.count("#trace .tokens span")
    said = re.search(r"(\d+) written", page.text("facts"))
    assert said is not None
    assert int(said[1]) - written in (0, 1)  # the end of a turn has no text to show
    assert 0 < int(said[1]) <= 12
    assert page.count("#messages img") == 0
    assert browser.title == "Practicum"
    page.click("[data-thumbs=up]")
    page.until(lambda: "thank you" in page.text("feedback-said"))
    with SqliteTraceStore(tmp_path / "traffic.sqlite") as store:
        [label] = store.labels()
    assert label.value == 1.0

    page.click("#tab-solve")
    page.write("problem", "3x + 7 = 16")
    page.click("#solve-it")
    page.until(lambda: page.count("#trace table") == 1)
    assert "reward" in page.text("solution")
    assert page.count("#trace table tr") > 1
    page.write("problem", "no equation")
    page.click("#solve-it")
    page.until(lambda: page.count("#solution .error") == 1)
    assert "no equation" in page.text("solution")
