"""Which documents of ownCloud a task speaks of, and which of them the user has supplied.

A task names files that it wants read and files that it wants made; the last verb before a name
tells them apart. Names are compared by their last part: tasks spell folders in several ways.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath
from urllib.parse import unquote

from practicum_envs.agent_company.checkout import BenchmarkTask

KIND = (
    r"\.(?:pdf|xlsx?|csv|od[tsp]|docx?|pptx?|txt|md|jpe?g|png|json|zip|sql|html|drawio)"
    r"\b(?![\w(])"
)
QUOTED = re.compile(
    rf"""(?<![\w.])["'`](?P<name>(?! )[^"'`\n*{{}}:(,]{{1,80}}?{KIND})""", re.IGNORECASE
)
IN_CLOUD = re.compile(rf"(?P<name>\bDocuments/[^\n\"'`,;:*{{}}]{{1,100}}?{KIND})", re.IGNORECASE)
PLAIN = re.compile(rf"(?<![\w%])(?P<name>/?(?:[\w%&.-]+/)*[\w%-][\w%&.-]*{KIND})", re.IGNORECASE)
FOLDER = re.compile(
    r"\bDocuments(?P<path>(?:/[^/\n\"'`,:;()*]+?)+?)/?"
    r"(?=\.?$|\.\s|[\n\"'`,:;()*]|\s(?:on|in|to|as|with|and|folder|directory)\b|\s\.)",
)
MAKES = (
    r"creat\w*|sav\w*|writ\w*|upload\w*|nam\w*|call(?:ed)?|generat\w*|stor(?:e|ing)|export\w*|produc\w*"
    r"|merg\w*|rename\w*|put|add(?:ed)?|results?|deliver\w*|report|draft\w*|compil\w*|fill\w*"
)
READS = (
    r"find|found|us(?:e|ing)|read\w*|retriev\w*|download\w*|located|provided|from|according|analy[sz]e"
    r"|open\w*|given|contains?|look\w*|check\w*|see|template|navigate|open|refer\w*|based|review"
)
CUE = re.compile(rf"\b(?:(?P<makes>{MAKES})|(?P<reads>{READS}))\b", re.IGNORECASE)
REACH = 140
"""Characters before a name in which a verb is about it."""
LOCAL = ("/workspace", "/instruction", "/utils", "/outputs", "/data")
PLACEHOLDER = re.compile(r"(?:\w|\w_\d+(?:-\w+)?|file_?name\w*)$", re.IGNORECASE)
"""The stem of a name that stands for others, as in `x.pdf`."""
LIKE = 0.9
"""How alike a misspelt name has to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What a task wants to have read."""

    files: tuple[str, ...] = ()
    """Names without their folders."""
    folders: tuple[str, ...] = ()
    """Paths below `Documents`."""

    def __bool__(self) -> bool:
        return bool(self.files or self.folders)

    def found(self, supplied: Collection[str]) -> tuple[list[str], list[str]]:
        """Those that are among paths of files, and those that are not."""
        names = {PurePosixPath(one).name.lower() for one in supplied}
        parents = {
            _plain_folder(str(parent)) for one in supplied for parent in PurePosixPath(one).parents
        }
        there: list[str] = []
        lacking: list[str] = []
        for file in self.files:
            is_like = get_close_matches(file.lower(), names, n=1, cutoff=LIKE)
            (there if is_like else lacking).append(file)
        for folder in self.folders:
            plain = _plain_folder(folder)
            is_like = get_close_matches(plain, parents, n=1, cutoff=LIKE)
            is_there = is_like or any(one.startswith(plain) for one in parents)
            (there if is_there else lacking).append(f"Documents/{folder}")
        return there, lacking


def documents_of(task: BenchmarkTask) -> Documents:
    """The documents that a task's text and its colleagues name."""
    told = " ".join(str(one) for scenario in task.scenarios.values() for one in scenario.values())
    files: dict[str, None] = {}
    made: set[str] = set()
    for text, may_make in ((unquote(task.instruction), True), (unquote(told), False)):
        for name, is_made in _names(text):
            if is_made and may_make:
                made.add(name.lower())
            else:
                files[name] = None
    own = {
        source.name.lower()
        for step in task.image
        for source, target in step.copies(task.folder)
        if not target.startswith("/utils")
    }
    wanted = [one for one in files if one.lower() not in made and one.lower() not in own]
    whole = [one for one in wanted if not any(_ends(other, one) for other in wanted)]
    folders = dict.fromkeys(
        found.group("path").strip(" /.")
        for text, may_make in ((unquote(task.instruction), True), (unquote(told), False))
        for found in FOLDER.finditer(text)
        if not re.search(KIND, found.group("path"), re.IGNORECASE)
        and not (may_make and _is_made(text, found.start()))
    )
    return Documents(files=tuple(whole), folders=tuple(folders))


def _ends(longer: str, name: str) -> bool:
    return longer != name and longer.lower().endswith((f" {name}".lower(), f"/{name}".lower()))


def _names(text: str) -> Iterator[tuple[str, bool]]:
    """The files that a text names, each with whether it is to be made."""
    for form in (QUOTED, IN_CLOUD, PLAIN):
        for found in form.finditer(text):
            path = found.group("name")
            if re.search(r"://|\.\s", path) or path.startswith(LOCAL):
                continue
            if PLACEHOLDER.match(PurePosixPath(path).stem):
                continue
            yield PurePosixPath(path).name.strip(), _is_made(text, found.start())


def _is_made(text: str, at: int) -> bool:
    cues = list(CUE.finditer(text[max(0, at - REACH) : at].rpartition("\n")[2]))
    return bool(cues) and cues[-1].group("makes") is not None


def _plain_folder(path: str) -> str:
    return re.sub(r"^/?documents/", "", path.strip(" /"), flags=re.IGNORECASE).lower()
