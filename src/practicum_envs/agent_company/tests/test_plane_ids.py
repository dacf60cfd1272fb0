"""Addresses in Plane that the benchmark's tasks link to lead somewhere in the office."""

from pathlib import Path

from practicum_envs.agent_company.agent_company_environment import (
    AgentCompanyEnvironment,
    AgentCompanyOptions,
)
from practicum_envs.agent_company.checkout import Checkout
from practicum_envs.agent_company.stand_ins import BenchmarkCompany
from practicum_envs.agent_company.tests.tiny_benchmark import write_benchmark
from practicum_envs.office.companies import Companies

SHOP, OTHER, ISSUE, ANN = (
    f"{digit * 8}-1111-4111-8111-111111111111" for digit in ("a", "b", "c", "d")
)
AT = "http://the-agent-company.com:8091/tac/projects"
BOARDS = "1. **Shop Project** (Shop)\n2. **Site Project** (Site)\n3. **Tool Project** (Tool)\n"
LOOKS = 'PROJECT_NAME = "Shop"\nPROJECT_ID = get_plane_project_id(PROJECT_NAME)\n'
ASSIGNS = f"""
ISSUES = {{"{ANN}": "Paint the wall"}}
projects = get_all_plane_projects()
"""


def write_tasks(root: Path) -> Path:
    """A benchmark with boards, and tasks that link to them."""
    benchmark = write_benchmark(root / "benchmark")
    (benchmark / "servers/plane").mkdir()
    (benchmark / "servers/plane/README.md").write_text(BOARDS)
    tasks = {
        "pm-look": (f"Look at {AT}/{SHOP}/issues/", LOOKS, "{}"),
        "pm-copy": (f"Copy all to {AT}/{OTHER}/issues/", f'PLANE_PROJECT_ID = "{OTHER}"\n', "{}"),
        "pm-assign": (
            "Create a new project. For annlee: create an issue 'Paint the wall'.",
            ASSIGNS,
            "{}",
        ),
        "pm-ask": (
            f"Ask Ann about {AT}/{SHOP}/issues/{ISSUE}",
            LOOKS + 'ISSUE = get_plane_issue_details(PROJECT_ID, "Model: it is slow")\n',
            '{"Ann Lee": {"extra_info": "Someone asks about \'Model: it is slow\' '
            f'{AT}/{SHOP}/issues/{ISSUE}"}}}}',
        ),
    }
    for name, (text, grader, scenarios) in tasks.items():
        folder = benchmark / "workspaces/tasks" / name
        folder.mkdir()
        (folder / "Dockerfile").touch()
        (folder / "task.md").write_text(text)
        (folder / "dependencies.yml").write_text("- plane")
        (folder / "evaluator.py").write_text(grader)
        (folder / "scenarios.json").write_text(scenarios)
    return benchmark


def test_what_tasks_link_to_is_there(tmp_path: Path) -> None:
    checkout = Checkout(str(write_tasks(tmp_path)))
    made = BenchmarkCompany(checkout)
    companies = Companies()
    company = companies.open_now(made.seed(checkout.find("pm-ask")))
    try:
        office = company.office
        assert "Shop" in office.page(f"{AT}/{SHOP}/issues/")
        assert "Site" in office.page(f"{AT}/{OTHER}/issues/")
        assert "Model: it is slow" in office.page(f"{AT}/{SHOP}/issues/{ISSUE}")
        assert [m["display_name"] for m in office.plane("GET", "members/") if m["id"] == ANN] == [
            "Ann Lee"
        ]
        names = {one["name"]: one["id"] for one in office.plane("GET", "projects/")["results"]}
        assert (names["Shop"], names["Site"]) == (SHOP, OTHER)
        assert "Plane has no project" in office.page(f"{AT}/{ISSUE}/issues/")
    finally:
        company.close()
        companies.close()


def test_ids_that_no_task_explains_are_missing(tmp_path: Path) -> None:
    benchmark = write_tasks(tmp_path)
    grader = benchmark / "workspaces/tasks/pm-assign/evaluator.py"
    options = AgentCompanyOptions(repo=str(benchmark))
    found = {one.task.id: one.missing for one in AgentCompanyEnvironment(options).verdicts()}
    assert found["pm-assign"] == ()
    grader.write_text(ASSIGNS.replace("Paint the wall", "Something else"))
    found = {one.task.id: one.missing for one in AgentCompanyEnvironment(options).verdicts()}
    assert found["pm-assign"] == ("ids of Plane's database",)
