"""What a person does with a browser: Debian's Chromium, driven by its pages' own words."""

import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from practicum.sandboxes.opening import unchecked_sandboxes
from practicum_envs.agent_company.agent_company_environment import (
    AgentCompanyEnvironment,
    AgentCompanyOptions,
)
from practicum_envs.agent_company.official_grading import Grade
from practicum_envs.office.companies import Companies, OpenCompany
from practicum_envs.office.tests.serving_companies import SEED

CHECKOUT = os.environ.get("PRACTICUM_TAC", "")
"""A checkout of TheAgentCompany, as for test_agent_company_checkout.py."""

HOST = "the-agent-company.com"
WHY_NO_BROWSER = "needs chromium and chromium-driver (Debian packages)"
SWITCHES = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1200,760"),
)


def has_browser() -> bool:
    return shutil.which("chromium") is not None and shutil.which("chromedriver") is not None


def listening(port: int) -> tuple[str, socket.socket]:
    """An address of this machine alone at which a port is free, and a socket that listens there."""
    while True:
        address = (
            f"127.{random.randrange(2, 250)}.{random.randrange(250)}.{random.randrange(1, 250)}"
        )
        listener = socket.socket()
        try:
            listener.bind((address, port))
        except OSError:
            listener.close()
            continue
        listener.listen(16)
        return address, listener


class Clicks:
    """A browser window; `visited` is what its address line said."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.visited: list[str] = []

    def go(self, url: str) -> None:
        self.driver.get(url)
        self.visited.append(self.driver.current_url)

    def click(self, words: str) -> None:
        """A link or a button by its words."""
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.support.expected_conditions import staleness_of
        from selenium.webdriver.support.ui import WebDriverWait

        page = self.driver.find_element("tag name", "html")
        path = f"//a[normalize-space()={words!r}] | //button[normalize-space()={words!r}]"
        self.driver.find_element("xpath", path).click()
        # Asked while the new page takes its place, the old one may be neither there nor stale yet.
        waiting = WebDriverWait(self.driver, 60, ignored_exceptions=(WebDriverException,))
        waiting.until(staleness_of(page))
        self.visited.append(self.driver.current_url)

    def labelled(self, words: str, form: str) -> Any:
        """The field of a label, in the form with this button."""
        inside = f"//form[.//button[normalize-space()={form!r}]]"
        label = f"//label[starts-with(normalize-space(), {words!r})]"
        return self.driver.find_element("xpath", f"{inside}{label}//*[@name]")

    def fill(self, form: str, fields: dict[str, str]) -> None:
        """Fill a form by its labels, and send it by its button."""
        from selenium.webdriver.support.select import Select

        for label, text in fields.items():
            found = self.labelled(label, form)
            if found.tag_name == "select":
                Select(found).select_by_visible_text(text)
            elif found.get_attribute("type") == "checkbox":
                if found.is_selected() != (text == "yes"):
                    found.click()
            else:
                found.clear()
                found.send_keys(text)
        self.click(form)

    @property
    def text(self) -> str:
        return str(self.driver.find_element("tag name", "body").text)


@contextmanager
def browsing(address: str) -> Iterator[Clicks]:
    """A browser for which the company is at an address of this machine."""
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    for switch in (*SWITCHES, f"--host-resolver-rules=MAP {HOST} {address}"):
        options.add_argument(switch)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield Clicks(driver)
    finally:
        driver.quit()


@contextmanager
def browsing_a_company(port: int) -> Iterator[tuple[Clicks, OpenCompany]]:
    """A browser in a company of the tests' seed, of which it sees the service at a port."""
    companies = Companies()
    address, listener = listening(port)
    company = companies.open_now(SEED, [listener])
    try:
        with browsing(address) as clicks:
            yield clicks, company
        assert not company.faults
    finally:
        company.close()
        companies.close()


async def grade_of_clicks(name: str, port: int, work: Callable[[Clicks, str], None]) -> Grade:
    """What the official grader gives for a task of the checkout that was done by clicks alone.

    `work` is given the browser and the task's text; the trajectory is what the browser visited.
    """
    made = AgentCompanyEnvironment(AgentCompanyOptions(repo=CHECKOUT))
    made.use_sandboxes(lambda kind: unchecked_sandboxes("bubblewrap", print))
    task = made._checkout.find(name)
    address, listener = listening(port)
    try:
        async with made._prepared(task) as stage:
            assert stage.company is not None
            stage.company.serve([listener])
            with browsing(address) as clicks:
                work(clicks, task.instruction)
            said = [text for seen in clicks.visited for text in (f"open {seen}", "a page")]
            return await made.official_grade(task, stage, said)
    finally:
        await made.close()


def assert_full(grade: Grade) -> None:
    """Every checkpoint has all of its points, none by a bonus."""
    assert grade.is_full, grade
    assert all(result == total for total, result in grade.checkpoints), grade
