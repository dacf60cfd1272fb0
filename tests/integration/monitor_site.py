"""`practicum monitor` as a process, and a browser that has opened the address it printed."""

import http.cookiejar
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.integration.clicks import SWITCHES, WHY_NO_BROWSER, has_browser

START_S = 300
WAIT_S = 120
NEEDS_BROWSER = pytest.mark.skipif(not has_browser(), reason=WHY_NO_BROWSER)
OFFLINE = ("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--disable-quic")
"""No name is ever looked up: a page that asks for another site's file fails, and says so."""


@dataclass(frozen=True)
class MonitorProcess:
    """A monitor under way."""

    address: str
    """With its key."""
    process: "subprocess.Popen[str]"

    @property
    def base(self) -> str:
        return self.address.partition("/?")[0]

    def opener(self) -> urllib.request.OpenerDirector:
        """A client that has swapped the key for the cookie."""
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        client = urllib.request.build_opener(urllib.request.ProxyHandler({}), jar)
        client.open(self.address, timeout=WAIT_S).close()
        return client


@contextmanager
def monitor_process(folder: Path, *words: object) -> Iterator[MonitorProcess]:
    """The command under way in a folder, from when it is ready until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "practicum.cli.main", "monitor", *map(str, words), "--port", "0"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    watch = threading.Timer(START_S, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        process.stdout.readline()
        address = process.stdout.readline().strip()
        watch.cancel()
        yield MonitorProcess(address, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    finally:
        watch.cancel()
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


class MonitorPage:
    """What a person does with the pages; `requests` is every address that the browser asked for."""

    def __init__(self, driver: Any, site: MonitorProcess) -> None:
        self.driver, self.site = driver, site
        driver.get(site.address)

    def go(self, path: str) -> None:
        self.driver.get(self.site.base + path)

    def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until something holds; pieces of the page may be replaced meanwhile."""
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.driver, WAIT_S, ignored_exceptions=(WebDriverException,))
        return waiting.until(lambda _: holds())

    def follow(self, words: str) -> None:
        """Click a link or a button by its words, and wait for the page it leads to."""
        from selenium.webdriver.support.expected_conditions import staleness_of

        page = self.one("html")
        path = (
            f"//main//a[normalize-space()={words!r}] | //main//button[normalize-space()={words!r}]"
        )
        self.driver.find_element("xpath", path).click()
        self.until(lambda: staleness_of(page)(self.driver))

    def one(self, css: str) -> Any:
        return self.driver.find_element("css selector", css)

    def all(self, css: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", css))

    @property
    def text(self) -> str:
        return str(self.one("main").text)

    @property
    def heading(self) -> str:
        return str(self.one("h1").text)

    def charts(self) -> list[str]:
        """Titles of the charts, once they are drawn."""
        self.until(lambda: self.one("#charts").get_attribute("data-drawn"))
        shown = [
            figure
            for figure in self.all("figure.chart")
            if figure.find_elements("tag name", "canvas")
        ]
        return [figure.find_element("tag name", "strong").text for figure in shown]

    def complaints(self) -> list[str]:
        """What the browser's console says went wrong since it was last asked."""
        told = [one["message"] for one in self.driver.get_log("browser")]
        return [one for one in told if not re.search(r"favicon|/events", one)]


@contextmanager
def browsing_monitor(site: MonitorProcess, profile: Path, *switches: str) -> Iterator[MonitorPage]:
    """A browser in the monitor, with a profile of its own."""
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    for switch in (*SWITCHES, *OFFLINE, f"--user-data-dir={profile}", *switches):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield MonitorPage(driver, site)
    finally:
        driver.quit()
