"""What a company costs: to start and reset, in memory, and many at once.

A company is opened from a snapshot that is there already, as every episode but the first of a task
does; all four services are reset once; then it is closed. Memory is that of the process that serves
it after some work: resident, and its proportional share, since the pages of Python itself are
shared. At once: that many machines, each beside a company at the same ports, make a channel of
their own and look for the others'.

    python benchmarks/office.py
    python benchmarks/office.py --rounds 5 --at-once 4 --json
"""

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from practicum.core.command import SandboxSpec
from practicum.sandboxes.opening import unchecked_sandboxes
from practicum_envs.office.companies import Companies, OpenCompany
from practicum_envs.office.company_seed import (
    Board,
    BoardIssue,
    CompanySeed,
    Issue,
    Project,
)
from practicum_envs.office.generated_company import generate_company
from practicum_envs.office.office_environment import furnish
from practicum_envs.office.office_plan import OfficePlan
from practicum_envs.office.services.all_services import PORTS

SERVICES = ("rocketchat", "gitlab", "plane", "owncloud")


def company_seed(number: int) -> CompanySeed:
    """People and channels, three projects with issues, two boards, and some files."""
    projects = tuple(
        Project(
            path=f"root/project-{n}",
            files={f"src/module_{m}.py": f"VALUE = {m}\n" * 20 for m in range(10)},
            issues=tuple(Issue(title=f"Issue {m}") for m in range(10)),
        )
        for n in range(3)
    )
    boards = tuple(
        Board(name=f"Board {n}", issues=tuple(BoardIssue(name=f"Task {m}") for m in range(10)))
        for n in range(2)
    )
    files = {f"Documents/report-{n}.csv": "a,b\n" * 500 for n in range(20)}
    base = generate_company(random.Random(number), "train")
    return base + CompanySeed(projects=projects, boards=boards, files=files)


def reset_all(company: OpenCompany) -> None:
    for service in SERVICES:
        status, _, _ = company.office.request("api", "POST", f"/api/reset-{service}")
        assert status == 202


def work(company: OpenCompany) -> None:
    office = company.office
    for number in range(20):
        say = {"channel": "#general", "text": f"Message {number}"}
        office.rocketchat("POST", "chat.postMessage", say)
        office.gitlab("POST", "projects/root%2Fproject-0/issues", {"title": f"New {number}"})
        office.dav("PUT", f"Documents/new-{number}.txt", b"x" * 1000)
    change = {"branch": "main", "content": "x", "commit_message": "new"}
    office.gitlab("POST", "projects/root%2Fproject-0/repository/files/new.txt", change)


def memory_mb(pid: int) -> dict[str, float]:
    """Resident memory of a process, and its proportional share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return {"rss": sizes["Rss"] / 1024, "pss": sizes["Pss"] / 1024}


def measure_one(companies: Companies, rounds: int) -> dict[str, float]:
    began = time.perf_counter()
    companies.open_now(company_seed(0)).close()
    first_s = time.perf_counter() - began
    starts, resets, sizes, shares = [], [], [], []
    for _ in range(rounds):
        began = time.perf_counter()
        company = companies.open_now(company_seed(0))
        company.office.rocketchat("GET", "me")
        starts.append(time.perf_counter() - began)
        work(company)
        began = time.perf_counter()
        reset_all(company)
        resets.append(time.perf_counter() - began)
        found = memory_mb(company.pid)
        sizes.append(found["rss"])
        shares.append(found["pss"])
        company.close()
    both = [a + b for a, b in zip(starts, resets, strict=True)]
    return {
        "first_ms": 1000 * first_s,
        "start_ms": 1000 * statistics.median(starts),
        "reset_ms": 1000 * statistics.median(resets),
        "start_plus_reset_ms": 1000 * statistics.median(both),
        "start_plus_reset_p95_ms": 1000 * sorted(both)[int(0.95 * (len(both) - 1))],
        "rss_mb": statistics.median(sizes),
        "pss_mb": statistics.median(shares),
    }


async def measure_many(companies: Companies, at_once: int) -> dict[str, float]:
    sandboxes = unchecked_sandboxes("bubblewrap", lambda line: print(line, file=sys.stderr))
    seed = company_seed(0)
    plan = OfficePlan(instruction="", company=seed, checkpoints=(), reference=(), near_misses=())
    warm = await sandboxes.open(SandboxSpec(profile="machine"))
    await warm.close()
    ready = asyncio.Barrier(at_once)
    shares: list[float] = []

    async def episode(number: int) -> tuple[float, str]:
        began = time.perf_counter()
        box = await sandboxes.open(SandboxSpec(profile="machine"))
        company = await companies.open(seed, await box.listen(PORTS))
        await furnish(box, plan)
        opened_s = time.perf_counter() - began
        await ready.wait()
        script = f"office rocketchat POST channels.create name=own-{number}"
        made = await box.run(["bash", "-c", script], timeout_s=60)
        assert made.exit_code == 0, made.stderr
        await ready.wait()
        script = "office rocketchat GET channels.list | grep -o 'own-[0-9]*' | sort -u"
        seen = await box.run(["bash", "-c", script], timeout_s=60)
        shares.append(memory_mb(company.pid)["pss"])
        company.close()
        await box.close()
        return opened_s, seen.stdout.strip()

    began = time.perf_counter()
    found = await asyncio.gather(*(episode(number) for number in range(at_once)))
    whole_s = time.perf_counter() - began
    await sandboxes.close()
    alone = sum(seen == f"own-{number}" for number, (_, seen) in enumerate(found))
    return {
        "at_once": at_once,
        "saw_only_their_own": alone,
        "machine_and_company_ms": 1000 * statistics.median(opened for opened, _ in found),
        "all_episodes_s": whole_s,
        "pss_mb_each": statistics.median(shares),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    companies = Companies()
    try:
        one = measure_one(companies, given.rounds)
        many = asyncio.run(measure_many(companies, given.at_once)) if given.at_once else {}
    finally:
        companies.close()
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    if given.json:
        print(json.dumps({"machine": machine, "one": one, "many": many}))
        return
    table = Table("figure", "value")
    for name, value in {**one, **many}.items():
        table.add_row(name, f"{value:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
