"""Whether a task of TheAgentCompany can be played in the office, and what is missing otherwise.

Decided from the task's own files, its text, its grader, its scripts and its Dockerfile, never by
its name. In doubt something is missing: a task that counts as runnable has all that it asks for.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from practicum_envs.agent_company.checkout import BenchmarkTask, Checkout
from practicum_envs.agent_company.grader_packages import NOT_INSTALLED
from practicum_envs.agent_company.task_documents import documents_of

PROJECT = re.compile(r"\broot(?:/|%2F)([A-Za-z][\w.-]*?)(?=\.git\b|\.?(?:[^\w.-]|$))")
JUDGE = re.compile(r"\b(?:evaluate_with_llm|evaluate_chat_history_with_llm|llm_complete)\(")
ASKS_GITLAB = re.compile(r"\b(?:make_gitlab_request|get_gitlab_\w+)\(|GITLAB_BASEURL")
ASKS_PLANE = re.compile(r"\bget_(?!plane_project_id)(?:all_)?plane_\w+\(|PLANE_BASEURL")
ASKS_PLANE_ISSUES = re.compile(r"\bget_plane_(?:issue_details|issues_by_project_cycle)\(")
MAKES_PLANE_ISSUES = re.compile(r"\bcreate_plane_issue\(")
PLANE_BOARD = re.compile(r"""get_plane_project_id\(\s*['"](.+?)['"]""")
NAMED_BOARD = re.compile(r"""^\s*\w*PROJECT_NAME\s*=\s*['"](.+?)['"]""", re.MULTILINE | re.I)
PLANE_ID = re.compile(r"(?<!projects/)(?<!issues/)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
NUMBERED = re.compile(r"(?:issues/|merge_requests/|IID = |issue #)(\d{2,})")
OWN_SERVER = re.compile(r"https?://(?:localhost|127\.0\.0\.1)")
HOST = re.compile(r"https?://([\w.-]+)")
INSTALLS = re.compile(r"\binstall(?:ing)?\b|\bset up poetry\b", re.IGNORECASE)
PROGRAMS = re.compile(r"""['"](pip|poetry|npm|mvn|cargo|go|java|cmake|mypy|docker)(?:['"]| run )""")
READS_CODE = re.compile(r"\b(?:clone|codebase|readme|repo's)\b", re.IGNORECASE)
ISSUE_LINK = re.compile(r"http://the-agent-company\.com:8929/\S+/issues/\d+")
CHANNEL = re.compile(r"#([a-z]+(?:-[a-z]+)+)\b")
STRING = re.compile(r"""'([^'\n]+)'|"([^"\n]+)\"""")
PLAYS = "a model that plays colleagues (env.judge_endpoint)"
WRONG_GRADERS = {
    "admin-arrange-meeting-rooms": "its grader is wrong: it wants 4 rooms where the task needs 5",
    "finance-substantial-presence-test": (
        "its grader is wrong: it wants 303 days where the travel history has 306"
    ),
}
"""Tasks of which a correct solution does not get full marks, at commit 95b4e0ea."""
PROVIDED = {"zip", "sqlite3"}
"""Debian packages that the machines have, or something that does the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What the user adds to what is in the checkout."""

    has_judge: bool = False
    """A model that answers the graders' questions."""
    documents: frozenset[str] = frozenset()
    """Paths of the files of ownCloud."""
    has_servers: bool = False
    """The benchmark's own servers, with all that is in their images."""
    has_images: bool = False
    """The benchmark's own image of each task, which has its programs and runs its colleagues."""
    projects: frozenset[str] = frozenset()
    """GitLab projects of which there is a clone, in lower case."""
    plane_ids: frozenset[str] = frozenset()
    """Ids of Plane's database that the tasks tell; see `plane_ids`."""


def projects_named(checkout: Checkout) -> dict[str, int]:
    """GitLab projects that tasks speak of, in lower case, with the number of such tasks."""
    found: dict[str, int] = {}
    for task in checkout.tasks:
        text = f"{task.instruction}\n{task.grader}\n{task.init}"
        for name in {one.lower() for one in PROJECT.findall(text)}:
            found[name] = found.get(name, 0) + 1
    return found


def is_made_by_the_agent(name: str, task: BenchmarkTask, named: dict[str, int]) -> bool:
    """Whether a project is what the task asks to create: no other task knows of it."""
    return named.get(name) == 1 and "creat" in task.instruction.lower()


def projects_of(task: BenchmarkTask, named: dict[str, int]) -> list[str]:
    """The GitLab projects that must be there when a task begins."""
    code = f"{_code(task.grader)}\n{task.init}"
    found = set()
    for name in named:
        words = re.escape(name)
        in_text = re.search(rf"(?<![\w/-]){words}(?![\w-])|root/{words}\b", task.instruction, re.I)
        in_code = re.search(rf"""root(?:/|%2F){words}\b|['"/]{words}['"]""", code, re.I)
        if in_text or in_code:
            found.add(name)
    return sorted(one for one in found if not is_made_by_the_agent(one, task, named))


def boards_of(task: BenchmarkTask) -> list[str]:
    """The boards of Plane that a task's grader or scripts look up by name."""
    if "create a new project" in task.instruction.lower():
        return []
    found = []
    for source in (task.grader, task.init):
        if "get_plane_project_id(" in source:
            found += PLANE_BOARD.findall(source) + NAMED_BOARD.findall(source)
    return sorted(set(found))


def channels_of(task: BenchmarkTask) -> list[str]:
    """The channels of RocketChat that a task names, but for those that it asks to create."""
    found = [
        name
        for line in task.instruction.splitlines()
        for name in CHANNEL.findall(line)
        if not re.search(rf"creat.*#{name}", line, re.IGNORECASE)
    ]
    return sorted(set(found)) if "rocketchat" in task.services else []


def plane_issues_of(task: BenchmarkTask) -> list[str]:
    """Issues of Plane that both the grader and the task, or a colleague, call by their names."""
    if not boards_of(task) or "creat" in task.instruction.lower():
        return []
    spoken = f"{task.instruction}\n{task.scenarios}".lower()
    lines = [line for line in _code(task.grader).splitlines() if "issue" in line.lower()]
    found = {one for line in lines for pair in STRING.findall(line) for one in pair if one}
    return sorted(one for one in found if len(one.split()) > 2 and one.lower() in spoken)


def issue_numbers_of(task: BenchmarkTask) -> list[int]:
    """Issues of GitLab that the task names by their numbers."""
    return sorted({int(number) for number in NUMBERED.findall(task.instruction)})


def missing_parts(task: BenchmarkTask, offered: Offered, named: dict[str, int]) -> tuple[str, ...]:
    """What keeps a task from being played, each in a few words; nothing where it can be."""
    if offered.has_images:
        plays = [PLAYS] if task.scenarios and not offered.has_judge else []
        return (*plays, *_missing_judge(task, offered))
    if offered.has_servers:
        content = ["colleagues, whom the benchmark's own images run"] if task.scenarios else []
    else:
        content = list(_missing_content(task, offered, named))
    return (
        *content,
        *_missing_programs(task),
        *_missing_judge(task, offered),
    )


def _missing_judge(task: BenchmarkTask, offered: Offered) -> Iterator[str]:
    if JUDGE.search(_code(task.grader)) and not offered.has_judge:
        yield "a judge (env.judge_endpoint)"


def _missing_content(task: BenchmarkTask, offered: Offered, named: dict[str, int]) -> Iterator[str]:
    """What is in the benchmark's images and not in its repository."""
    grader = _code(task.grader)
    text = task.instruction
    if "owncloud" in task.services:
        yield from _missing_documents(task, offered)
    if "gitlab" in task.services:
        projects = [one for one in projects_of(task, named) if one != "doc"]
        lacking = [one for one in projects if one not in offered.projects]
        reads_code = READS_CODE.search(text) or "check_repo_exists(" in grader
        if reads_code or any(f"/workspace/{name}" in grader for name in projects):
            yield from [f"the code of {', '.join(lacking)} (env.repositories)"] if lacking else []
        elif not ASKS_GITLAB.search(grader) and not _is_about_a_link(text, grader):
            yield "what GitLab has in its image"
        if re.search(r"""['"]pipelines['"]""", grader):
            yield "pipelines of GitLab, which the office never runs"
        numbers = set(NUMBERED.findall(f"{grader}\n{task.init}")) - set(NUMBERED.findall(text))
        if numbers:
            yield f"{_listed('number', numbers)} of GitLab, which its image has"
    if "plane" in task.services:
        are_there = MAKES_PLANE_ISSUES.search(task.init) or plane_issues_of(task)
        if set(PLANE_ID.findall(grader)) - offered.plane_ids:
            yield "ids of Plane's database"
        elif not ASKS_PLANE.search(grader):
            yield "what Plane has in its image"
        elif ASKS_PLANE_ISSUES.search(grader) and not are_there:
            yield "issues of Plane, which its image has"


def _missing_documents(task: BenchmarkTask, offered: Offered) -> Iterator[str]:
    if not offered.documents:
        yield "documents of ownCloud (env.documents)"
        return
    lacking = documents_of(task).found(offered.documents)[1]
    if lacking:
        yield f"documents of ownCloud (env.documents has no {', '.join(lacking)})"


def found_parts(task: BenchmarkTask, offered: Offered, named: dict[str, int]) -> tuple[str, ...]:
    """Of what the user adds, what a task needs and is there."""
    found: list[str] = []
    if "owncloud" in task.services and offered.documents:
        found += documents_of(task).found(offered.documents)[0]
    if "gitlab" in task.services:
        clones = [one for one in projects_of(task, named) if one in offered.projects]
        found += [f"the clone of {one}" for one in clones]
    return tuple(found)


def _missing_programs(task: BenchmarkTask) -> Iterator[str]:
    """What no machine of ours has."""
    grader = _code(task.grader)
    public = "\n".join([task.instruction, task.init, *(step.words for step in task.image)])
    hosts = {one for one in HOST.findall(public) if not _is_ours(one)}
    if hosts:
        yield f"the internet ({', '.join(sorted(hosts)[:2])})"
    elif INSTALLS.search(task.instruction):
        yield "the internet (it installs software)"
    debian = {one for step in task.image for one in step.debian_packages()} - PROVIDED
    if debian:
        yield _listed("Debian package", debian)
    programs = set(PROGRAMS.findall(grader))
    if programs:
        yield _listed("program", programs) + " for the grader"
    modules = {
        one for one in NOT_INSTALLED if re.search(rf"\bimport {one}\b|\bfrom {one}\b", grader)
    }
    if modules:
        yield _listed("Python package", modules)
    if OWN_SERVER.search(grader):
        yield "a server of the agent's that answers: programs are held while graders run"
    try:
        ast.parse(task.grader)
    except SyntaxError:
        yield "a newer Python for the grader"


def _is_about_a_link(text: str, grader: str) -> bool:
    """Whether GitLab matters to a task for the address of an issue alone."""
    links = ISSUE_LINK.findall(text)
    return bool(links) and text.count(":8929") == len(links) and all(one in grader for one in links)


def _is_ours(host: str) -> bool:
    return "the-agent-company" in host or host in ("localhost", "127.0.0.1")


def _listed(what: str, names: set[str]) -> str:
    shown: Sequence[str] = sorted(names)
    return f"{what}{'s' * (len(shown) > 1)} {', '.join(shown)}"


def _code(source: str) -> str:
    """A source without its comments."""
    return "\n".join(line for line in source.splitlines() if not line.lstrip().startswith("#"))
