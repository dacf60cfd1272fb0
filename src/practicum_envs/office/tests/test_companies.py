"""Companies: copies of a snapshot that know nothing of each other."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from practicum.core.errors import EnvironmentFailure
from practicum.core.task import Split
from practicum_envs.office import companies as companies_module
from practicum_envs.office.build_company import build_company
from practicum_envs.office.companies import Companies
from practicum_envs.office.company_seed import Channel, CompanySeed, Person
from practicum_envs.office.generated_company import generate_company
from practicum_envs.office.tests.serving_companies import SEED, Served


def wait_until(what: Callable[[], bool], timeout_s: float = 5.0) -> bool:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if what():
            return True
        time.sleep(0.01)
    return False


def test_companies_of_one_seed_are_alike_and_do_not_share_what_happens(
    companies: Companies,
) -> None:
    one, two = companies.open_now(SEED), companies.open_now(SEED)
    first = one.office.rocketchat("POST", "channels.create", {"name": "new"})["channel"]
    one.office.gitlab("POST", "projects/root%2Fshop/issues", {"title": "Only here"})
    path = "projects/root%2Fshop/repository/files/new.txt"
    change = {"branch": "main", "content": "x", "commit_message": "new"}
    one.office.gitlab("POST", path, change)
    assert two.office.gitlab("GET", "projects/root%2Fshop/issues", {"search": "Only here"}) == []
    one.office.dav("PUT", "Documents/logo.png", b"new")
    assert two.office.read_file("Documents/logo.png") == b"\x89PNG"
    assert len(two.office.gitlab("GET", "projects/root%2Fshop/repository/commits")) == 1
    second = two.office.rocketchat("POST", "channels.create", {"name": "new"})["channel"]
    assert (first["_id"], first["ts"]) == (second["_id"], second["ts"])
    one.close()
    two.close()


def test_a_company_is_removed_when_its_owner_lets_go(companies: Companies) -> None:
    company = companies.open_now(SEED)
    folder = Path(company.office._door).parent
    assert any(folder.iterdir())
    company.close()
    assert wait_until(lambda: not folder.exists() or not any(folder.iterdir()))


def test_a_company_whose_process_was_killed_is_seen_to_be_gone(companies: Companies) -> None:
    company = companies.open_now(SEED)
    assert company.is_alive
    os.kill(company.pid, signal.SIGKILL)
    assert wait_until(lambda: not company.is_alive)
    company.close()
    another = companies.open_now(SEED)
    assert another.is_alive
    another.close()


def test_seeds_with_the_same_content_have_one_fingerprint() -> None:
    assert SEED.fingerprint() == (SEED + CompanySeed()).fingerprint()
    changed = SEED + CompanySeed(channels=(Channel(name="more"),))
    assert changed.fingerprint() != SEED.fingerprint()
    assert (
        CompanySeed(files={"a": b"x"}).fingerprint() != CompanySeed(files={"a": b"y"}).fingerprint()
    )


def test_a_seed_that_names_nobody_known_is_refused(companies: Companies) -> None:
    with pytest.raises(ValueError, match="nobody"):
        companies.open_now(CompanySeed(channels=(Channel(name="x", members=("nobody",)),)))


def test_names_of_the_splits_are_apart() -> None:
    def names(split: Split) -> set[str]:
        made = (generate_company(random.Random(n), split) for n in range(40))
        return {person.username for one in made for person in one.people}

    assert not names("train") & names("heldout")
    assert len(names("train")) > 100


def test_an_agents_file_paths_do_not_leave_the_company(served: Served) -> None:
    status, _, _ = served.company.office.request(
        "gitlab", "GET", "/../../../../etc/passwd", headers={"PRIVATE-TOKEN": "root-token"}
    )
    assert status in (404, 400)


def test_people_have_addresses_from_their_names() -> None:
    assert Person(username="a_b", name="A B").email == "a.b@agentcompany.com"


def test_a_snapshot_that_was_swept_away_is_built_again() -> None:
    companies = Companies()
    companies.open_now(SEED).close()
    [snapshot] = companies._snapshots.values()
    shutil.rmtree(snapshot)
    company = companies.open_now(SEED)
    assert company.office.files() == ["Documents"]
    root = companies._root
    company.close()
    companies.close()
    assert root is not None
    assert not root.exists()


OWNER = """
import sys, time
from practicum_envs.office.tests.serving_companies import SEED
from practicum_envs.office import companies as companies_module
from practicum_envs.office.build_company import build_company
from practicum_envs.office.companies import Companies
companies = Companies()
company = companies.open_now(SEED)
print(companies._root, company.pid, flush=True)
time.sleep(60)
"""


def test_an_owner_that_is_killed_leaves_nothing_behind() -> None:
    paths = os.pathsep.join(path for path in (*sys.path, os.getcwd()) if path)
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as owner:
        assert owner.stdout is not None
        root, pid = owner.stdout.readline().split()
        assert Path(root).is_dir()
        owner.kill()
    assert wait_until(lambda: not Path(root).exists())
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_dead_process_of_companies_is_replaced() -> None:
    companies = Companies()
    companies.open_now(SEED).close()
    assert companies._process is not None
    companies._process.kill()
    companies._process.wait()
    with pytest.raises(EnvironmentFailure):
        companies.open_now(SEED)
    company = companies.open_now(SEED)
    assert company.is_alive
    company.close()
    companies.close()


def test_snapshots_are_built_beside_each_other_and_once_for_each_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = SEED + CompanySeed(channels=(Channel(name="more"),))
    both = threading.Barrier(2, timeout=240)
    built: list[str] = []

    def build(seed: CompanySeed, place: Path) -> None:
        both.wait()  # the other one must be building too
        built.append(seed.fingerprint())
        build_company(seed, place)

    monkeypatch.setattr(companies_module, "build_company", build)
    companies = Companies()
    with ThreadPoolExecutor(6) as pool:
        opened = list(pool.map(companies.open_now, [SEED, other] * 3))
    for company in opened:
        assert company.is_alive
        company.close()
    companies.close()
    assert sorted(built) == sorted([SEED.fingerprint(), other.fingerprint()])
