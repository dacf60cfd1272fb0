"""What can be played of a checkout of TheAgentCompany, by what its files say."""

import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from practicum.core.errors import UserError
from practicum.core.task import TaskVerdict
from practicum_envs.agent_company.agent_company_environment import (
    AgentCompanyEnvironment,
    AgentCompanyOptions,
)
from practicum_envs.agent_company.checkout import Checkout
from practicum_envs.agent_company.grader_packages import installed_packages, packages_of
from practicum_envs.agent_company.stand_ins import BenchmarkCompany
from practicum_envs.agent_company.task_documents import documents_of
from practicum_envs.agent_company.tests.tiny_benchmark import write_benchmark
from practicum_envs.agent_company.verdicts import WRONG_GRADERS


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    return write_benchmark(tmp_path / "benchmark")


def verdicts(benchmark: Path, **options: str) -> dict[str, TaskVerdict]:
    made = AgentCompanyEnvironment(AgentCompanyOptions(repo=str(benchmark), **options))
    return {one.task.id: one for one in made.verdicts()}


FILES = {"text": "task.md", "needs": "dependencies.yml", "grader": "evaluator.py"}


def add_task(benchmark: Path, name: str, dockerfile: str = "", **files: str) -> None:
    folder = benchmark / "workspaces/tasks" / name
    folder.mkdir()
    (folder / "Dockerfile").write_text(dockerfile)
    for key, file in FILES.items():
        (folder / file).write_text(files.get(key, ""))


def missing(benchmark: Path, **files: str) -> str:
    add_task(benchmark, "made", **files)
    return "; ".join(verdicts(benchmark)["made"].missing)


def test_every_task_has_a_verdict_that_says_what_is_missing(benchmark: Path) -> None:
    found = verdicts(benchmark)
    assert list(found) == ["admin-ask", "finance-read", "pm-greet"]
    assert found["pm-greet"].missing == ()
    assert found["admin-ask"].missing == ("a judge (env.judge_endpoint)",)
    assert found["admin-ask"].notes == ("scripted colleagues",)
    assert found["finance-read"].missing == ("documents of ownCloud (env.documents)",)


def test_what_the_user_adds_is_no_longer_missing(benchmark: Path, tmp_path: Path) -> None:
    (tmp_path / "cloud").mkdir()
    (tmp_path / "cloud/budget.pdf").write_bytes(b"%PDF")
    added = {"documents": str(tmp_path / "cloud"), "judge_endpoint": "http://h/v1"}
    found = verdicts(benchmark, judge_model="m", **added)
    assert [one.missing for one in found.values()] == [(), (), ()]
    company = BenchmarkCompany(Checkout(str(benchmark)), added["documents"])
    task = Checkout(str(benchmark)).find("finance-read")
    assert company.seed(task).files["budget.pdf"] == b"%PDF"


CLOUD_TASK = {
    "text": "Find 'Team/pay list.xlsx' and Documents/Finance/rates.csv on owncloud, look into the "
    "Documents/Letters folder, and create a report called sums.xlsx under Documents/Finance.",
    "needs": "- owncloud",
}


def supply(folder: Path, *names: str) -> str:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return str(folder)


def test_documents_that_are_not_the_ones_a_task_names_are_still_missing(
    benchmark: Path, tmp_path: Path
) -> None:
    add_task(benchmark, "made", **CLOUD_TASK)
    one = verdicts(benchmark, documents=supply(tmp_path / "cloud", "x"))["made"]
    lacking = "pay list.xlsx, rates.csv, Documents/Letters"
    assert one.missing == (f"documents of ownCloud (env.documents has no {lacking})",)
    assert one.found == ()
    supply(tmp_path / "cloud", "Documents/HR/Pay List.xlsx", "Documents/Letters/a.txt")
    one = verdicts(benchmark, documents=str(tmp_path / "cloud"))["made"]
    assert one.missing == ("documents of ownCloud (env.documents has no rates.csv)",)
    assert one.found == ("pay list.xlsx", "Documents/Letters")
    supply(tmp_path / "cloud", "Documents/Finance/rates.csv")
    one = verdicts(benchmark, documents=str(tmp_path / "cloud"))["made"]
    assert (one.missing, one.task.stand_ins) == ((), ())
    assert one.found == ("pay list.xlsx", "rates.csv", "Documents/Letters")


def test_documents_that_a_task_does_not_name_make_its_scores_not_comparable(
    benchmark: Path, tmp_path: Path
) -> None:
    add_task(benchmark, "made", text="Watch the video on owncloud.", needs="- owncloud")
    one = verdicts(benchmark, documents=supply(tmp_path / "cloud", "x"))["made"]
    assert one.missing == ()
    assert one.task.stand_ins == ("documents that the task does not name",)


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("Use the provided 'pay list.csv' to fill form.odt, saved as sum.odt.", {"pay list.csv"}),
        ("Read Documents/X/in%20one.pdf: it has it all. Write out.csv.", {"in one.pdf"}),
        ("Grade all files, such as x.pdf, and upload y.pdf.", set()),
        ("See http://the-agent-company.com/a.pdf for more.", set()),
        ("Upload 'notes.md'. Then read notes.md again.", set()),
    ],
)
def test_what_a_task_wants_made_is_no_document_it_needs(
    benchmark: Path, text: str, files: set[str]
) -> None:
    add_task(benchmark, "made", text=text, needs="- owncloud")
    assert set(documents_of(Checkout(str(benchmark)).find("made")).files) == files


def test_what_scores_rest_on_is_told_with_the_task(benchmark: Path) -> None:
    found = verdicts(benchmark)
    assert found["admin-ask"].task.stand_ins == ("scripted colleagues",)
    assert found["pm-greet"].task.stand_ins == ()
    played = verdicts(benchmark, colleague_endpoint="http://h/v1", colleague_model="m")
    assert played["admin-ask"].task.stand_ins == ()
    own = verdicts(benchmark, server_hostname="h")
    assert own["admin-ask"].task.stand_ins == ()


def test_a_task_whose_grader_is_known_to_be_wrong_says_so(benchmark: Path) -> None:
    add_task(benchmark, "admin-arrange-meeting-rooms", needs="- rocketchat")
    [said] = verdicts(benchmark)["admin-arrange-meeting-rooms"].notes
    assert said == WRONG_GRADERS["admin-arrange-meeting-rooms"]


def test_servers_of_the_benchmark_have_everything_but_colleagues(benchmark: Path) -> None:
    found = verdicts(benchmark, server_hostname="h")
    assert found["finance-read"].missing == ()
    assert found["pm-greet"].missing == ()
    assert found["admin-ask"].missing == (
        "colleagues, whom the benchmark's own images run",
        "a judge (env.judge_endpoint)",
    )
    with pytest.raises(ValidationError, match="documents and projects of their own"):
        AgentCompanyOptions(repo=str(benchmark), server_hostname="h", documents="d")


def test_images_of_the_benchmark_have_everything_but_a_model(benchmark: Path) -> None:
    (benchmark / "workspaces/tasks/pm-greet/task.md").write_text("Install go from https://go.dev")
    own = {"server_hostname": "h", "image": "tac/{task}-image:1.0.0"}
    found = verdicts(benchmark, **own)
    assert found["finance-read"].missing == found["pm-greet"].missing == ()
    assert found["admin-ask"].missing == (
        "a model that plays colleagues (env.judge_endpoint)",
        "a judge (env.judge_endpoint)",
    )
    found = verdicts(benchmark, judge_endpoint="http://h/v1", judge_model="m", **own)
    assert [one.missing for one in found.values()] == [(), (), ()]
    with pytest.raises(ValidationError, match=r"add env\.server_hostname=HOST"):
        AgentCompanyOptions(repo=str(benchmark), image="i")
    with pytest.raises(ValidationError, match="leave colleague_"):
        AgentCompanyOptions(repo=str(benchmark), colleague_endpoint="http://h", **own)


def test_the_internet_programs_and_packages_are_missing(benchmark: Path) -> None:
    said = missing(
        benchmark,
        text="Install go from https://go.dev",
        grader="import torch\nsubprocess.run(['poetry', 'show'])\n"
        "requests.get('http://localhost:5000')",
        dockerfile="FROM base\nRUN apt-get update && apt-get install -y cmake zip\n",
    )
    assert "the internet (go.dev)" in said
    assert "Debian package cmake" in said
    assert "program poetry" in said
    assert "Python package torch" in said
    assert "a server of the agent's" in said


def test_a_comment_of_a_grader_asks_for_nothing(benchmark: Path) -> None:
    said = missing(benchmark, grader="# import torch\n  # evaluate_with_llm('a', 'b')\n")
    assert said == ""


def test_a_project_that_is_read_is_missing_until_there_is_a_clone(
    benchmark: Path, tmp_path: Path
) -> None:
    add_task(
        benchmark,
        "sde-fix",
        text="Clone http://the-agent-company.com:8929/root/shop and mend it.",
        needs="- gitlab",
        grader="check_repo_exists('shop')",
    )
    assert verdicts(benchmark)["sde-fix"].missing == ("the code of shop (env.repositories)",)
    clone = tmp_path / "clones/Shop"
    clone.mkdir(parents=True)
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    with pytest.raises(UserError, match="has no clone with a commit in it"):
        verdicts(benchmark, repositories=str(tmp_path / "clones"))
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Begin"], check=True)
    with_clone = verdicts(benchmark, repositories=str(tmp_path / "clones"))["sde-fix"]
    assert (with_clone.missing, with_clone.notes) == ((), ())
    assert with_clone.found == ("the clone of shop",)


def test_a_project_that_only_has_to_be_there_gets_a_stand_in(benchmark: Path) -> None:
    add_task(
        benchmark,
        "sde-close",
        text="Close http://the-agent-company.com:8929/root/shop/-/issues/42",
        needs="- gitlab",
        grader="make_gitlab_request('root/shop', 'issues/42')",
    )
    found = verdicts(benchmark)["sde-close"]
    assert (found.missing, found.notes) == ((), ("stand-ins for shop",))
    checkout = Checkout(str(benchmark))
    [project] = BenchmarkCompany(checkout).seed(checkout.find("sde-close")).projects
    assert project.path == "root/shop"
    assert 42 in [issue.number for issue in project.issues]


def test_what_a_task_asks_to_create_is_not_there(benchmark: Path) -> None:
    add_task(
        benchmark,
        "sde-new",
        text="Create http://the-agent-company.com:8929/root/fresh and tell #help-desk.\n"
        "Create a channel #fresh-talk.",
        needs="- gitlab\n- rocketchat",
        grader="make_gitlab_request('root/fresh')",
    )
    checkout = Checkout(str(benchmark))
    seed = BenchmarkCompany(checkout).seed(checkout.find("sde-new"))
    assert seed.projects == ()
    assert "fresh-talk" not in [one.name for one in seed.channels]


def test_a_folder_that_is_no_checkout_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no folder workspaces/tasks; type: git clone"):
        Checkout(str(tmp_path))
    with pytest.raises(UserError, match=r"env\.repo names no checkout; type: git clone"):
        Checkout("")
    (tmp_path / "workspaces/tasks").mkdir(parents=True)
    with pytest.raises(UserError, match=r"has no task in it; type: git clone"):
        Checkout(str(tmp_path))


def test_a_task_without_a_grader_gets_one_sentence(benchmark: Path) -> None:
    (benchmark / "workspaces/tasks/pm-greet/evaluator.py").unlink()
    with pytest.raises(UserError, match=r"pm-greet is no task .* it has no evaluator\.py"):
        Checkout(str(benchmark))


def test_an_encrypted_grader_is_a_grader(benchmark: Path) -> None:
    path = benchmark / "workspaces/tasks/pm-greet/evaluator.py"
    path.rename(path.with_name("evaluator.py.enc"))
    checkout = Checkout(str(benchmark))
    assert checkout.decryption_key == "7"
    assert "evaluator.py.enc" in checkout.grading_files(checkout.find("pm-greet"))


def test_it_is_a_test_set(benchmark: Path) -> None:
    made = AgentCompanyEnvironment(AgentCompanyOptions(repo=str(benchmark)))
    assert [task.id for task in made.tasks("heldout", 0)] == ["pm-greet"]
    with pytest.raises(UserError, match="is a test set"):
        made.tasks("train", 0)
    with pytest.raises(UserError, match="there is no task 'nope'"):
        made.find("nope")


def test_graders_get_the_newest_version_of_each_package(benchmark: Path) -> None:
    install = "FROM base\nRUN pip install pandas==2.2.3\nRUN pip install torch==2.5.1\n"
    add_task(benchmark, "a", dockerfile=install)
    add_task(benchmark, "b", dockerfile="FROM base\nRUN pip install pandas==2.10.0 astor\n")
    assert packages_of(Checkout(str(benchmark))) == ["astor", "pandas==2.10.0"]


async def test_packages_that_cannot_be_installed_get_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = "practicum_envs.agent_company.grader_packages.sandbox_cache_root"
    monkeypatch.setattr(where, lambda: tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    said: list[str] = []
    with pytest.raises(UserError, match=r"pip install --target FOLDER no-such-package-here"):
        await installed_packages(["no-such-package-here"], "3.11", said.append)
    assert said[1:] == []
    assert list(tmp_path.iterdir()) == []
