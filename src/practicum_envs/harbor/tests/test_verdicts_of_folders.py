"""Each task folder has a verdict, decided from its files, with its reason in one sentence."""

from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum_envs.harbor.harbor_environment import HarborEnvironment, HarborOptions
from practicum_envs.harbor.machine_plan import MachinePlan, NotHere, plan_machine
from practicum_envs.harbor.reward_file import NoReward, rewards_in
from practicum_envs.harbor.task_folders import TaskFolder, read_task_folders

TASKS = Path(__file__).parent / "tasks"


def environment(path: Path = TASKS, **options: object) -> HarborEnvironment:
    return HarborEnvironment(HarborOptions.model_validate({"path": str(path), **options}))


def a_folder(
    tmp_path: Path, dockerfile: str, *, toml: str = "", test: str = "true", **files: str
) -> TaskFolder:
    for name, text in {
        "task.toml": toml,
        "instruction.md": "Do it.",
        "environment/Dockerfile": dockerfile,
        "tests/test.sh": test,
        **{name.replace("__", "/"): text for name, text in files.items()},
    }.items():
        path = tmp_path / "one" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_task_folders(str(tmp_path))[0]


def why_not(folder: TaskFolder) -> str:
    with pytest.raises(NotHere) as caught:
        plan_machine(folder)
    return str(caught.value)


def test_the_ten_folders_have_the_verdicts_that_they_were_written_for() -> None:
    found = {one.task.id: one.missing for one in environment().verdicts()}
    assert len(found) == 10
    assert {name: why for name, why in found.items() if why} == {
        "needs-image": ("needs an image (ghcr.io/example/engine:1.4)",),
        "several-stages": (
            "needs an image (its Dockerfile has several stages, debian:bookworm-slim and "
            "debian:bookworm-slim)",
        ),
        "needs-network": (
            "needs the network (tests/test.sh: curl -LsSf https://astral.sh/uv/0.9.5/install.sh)",
        ),
    }


@pytest.mark.parametrize(
    ("dockerfile", "reason"),
    [
        ("FROM alpine:3", "needs an image (alpine:3)"),
        ("FROM python:3.12-alpine", "needs an image (python:3.12-alpine)"),
        ("FROM debian\nUSER bob", "needs an image (USER bob: machines are played as root)"),
        ("FROM debian\nCOPY --from=x a b", "needs an image (COPY --from=x)"),
        ("FROM debian\nRUN npm install -g x", "needs the network (RUN npm install -g x)"),
        (
            "FROM debian\nRUN git clone https://example.org/x && make",
            "needs the network (RUN git clone https://example.org/x)",
        ),
        (
            "FROM debian\nADD https://example.org/x /x",
            "needs the network (ADD https://example.org/x /x)",
        ),
        (
            "FROM debian\nRUN pip install git+https://example.org/x",
            "needs the network (RUN pip install git+https://example.org/x)",
        ),
        (
            "FROM debian\nRUN pip install --index-url https://example.org torch",
            "needs the network (RUN pip install --index-url https://example.org torch)",
        ),
        ("FROM debian\nMAKE x", "is in no form that is read here (there is no instruction MAKE)"),
        ("RUN true", "is in no form that is read here (its Dockerfile has no FROM)"),
        (
            "FROM debian\nRUN apt-get install -y $(cat list)",
            "is in no form that is read here (RUN apt-get install $(cat: no plain package)",
        ),
    ],
)
def test_what_a_dockerfile_asks_for_is_told(tmp_path: Path, dockerfile: str, reason: str) -> None:
    assert why_not(a_folder(tmp_path, dockerfile)) == reason


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("[[steps]]\nname = 'a'", "it has several steps"),
        ("[environment]\nos = 'windows'", "its machine is a windows"),
        ("[environment]\ngpus = 1", "it asks for a GPU"),
        ("[verifier]\nenvironment_mode = 'separate'", "its verifier has a container of its own"),
        ("[verifier.env]\nKEY = '${KEY}'", "it takes ${KEY} from the host"),
    ],
)
def test_what_task_toml_asks_for_is_told(tmp_path: Path, toml: str, reason: str) -> None:
    folder = a_folder(tmp_path, "FROM debian", toml=toml)
    assert why_not(folder) == f"is in no form that is read here ({reason})"


def test_a_program_of_the_build_that_asks_the_network_is_seen(tmp_path: Path) -> None:
    fetching = "import urllib.request\nurllib.request.urlopen('x')"
    folder = a_folder(
        tmp_path, "FROM debian\nRUN python /tmp/get.py", **{"environment__get.py": fetching}
    )
    assert why_not(folder) == "needs the network (RUN /tmp/get.py asks for files by itself)"


def test_a_request_to_the_machine_itself_needs_no_network(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, "FROM debian", test="curl -s http://localhost:8000/health")
    assert isinstance(plan_machine(folder), MachinePlan)


def test_a_plan_has_all_that_is_installed(tmp_path: Path) -> None:
    dockerfile = (
        "FROM ubuntu:24.04\nRUN apt-get update && apt-get install -y git=1:2 'make' && pip install "
        "--no-cache-dir 'numpy>=1' -r reqs.txt # and no more\nWORKDIR /a\nWORKDIR b\nENV X=1 Y=2\n"
    )
    reqs = "pandas==2.0  # tables\n\n# none\nrich\n"
    plan = plan_machine(a_folder(tmp_path, dockerfile, **{"environment__reqs.txt": reqs}))
    assert plan.packages == ["git", "make", "python3-pip"]
    assert plan.requirements == ["numpy>=1", "pandas==2.0", "rich"]
    assert (plan.workdir, plan.variables) == ("/a/b", {"X": "1", "Y": "2"})


def test_tasks_that_bear_a_benchmarks_mark_are_held_out_unless_told_otherwise() -> None:
    held = environment(heldout_share=0.0)
    assert [one.id for one in held.tasks("heldout", 0)] == ["marked"]
    free = environment(heldout_share=0.0, marked="as_others")
    assert list(free.tasks("heldout", 0)) == []


def test_a_path_with_nothing_but_held_out_tasks_is_not_trained_on() -> None:
    with pytest.raises(UserError, match="is held out, as a benchmark"):
        environment(only=["marked"]).tasks("train", 0)


def test_the_mark_is_not_part_of_what_the_policy_reads() -> None:
    assert environment().find("marked").instruction.startswith("Make /root/readme.txt")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("", "env.path is empty"), ("/nowhere", "there is no folder /nowhere")],
)
def test_a_path_without_tasks_is_refused_with_the_form(path: str, sentence: str) -> None:
    with pytest.raises(UserError, match=rf"{sentence}.*a task is a folder with task.toml"):
        HarborEnvironment(HarborOptions(path=path))


def test_a_task_that_is_not_there_is_told() -> None:
    with pytest.raises(UserError, match=r"there is no task 'x' in .*; its first is 'copies-files'"):
        environment(only=["x"])


def test_a_task_toml_that_is_no_toml_is_told_by_its_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"one/task.toml is not valid TOML"):
        a_folder(tmp_path, "FROM debian", toml="[[")


@pytest.mark.parametrize("said", [("[1]", None), ("NaN", None), ("{}", None), (None, "one")])
def test_what_is_no_reward_is_a_failure_and_not_a_nought(said: tuple[str | None, str]) -> None:
    with pytest.raises(NoReward, match="no reward"):
        rewards_in(*said)


def test_tests_that_write_nothing_say_their_last_line() -> None:
    with pytest.raises(NoReward, match=r"no /logs/verifier/reward\.txt: boom"):
        rewards_in(None, None, "a\nboom\n")


def test_a_solution_of_several_files_is_run_where_harbor_runs_it() -> None:
    held = environment()
    [script, _] = held.reference(held.find("multi-step"))
    assert "/solution/solve.sh" in script
    [plain, _] = held.reference(held.find("partial-reward"))
    assert plain == "Act: bash\n```bash\ntouch /out/one /out/two\n```"
