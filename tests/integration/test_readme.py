"""Every command and snippet in README.md and docs/ runs.

Fenced blocks marked `bash`, `console`, `python` and `yaml` are taken from a page in order and run
in one folder of their own, so that a later block finds what an earlier one made:

* `bash`: the whole block is one script and must exit with 0.
* `console`: the lines after `$ ` are the script; other lines show output.
* `python`: the block is one script of its own.
* `yaml`: the block is a run's config and must be accepted.

Set-up commands (make, git clone, cd, pip install, apt-get install) are not run, but must be right:
make's targets exist, pip's extras exist.

A comment on the lines above a block changes how it is tested:

    <!-- test: skip, because it needs a GPU -->
    <!-- test: replace smollm2-135m with tiny -->
    <!-- test: same output -->
    <!-- test: needs a machine -->

The last is not run where no machine sandbox can be had.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from scripts.page_blocks import PageFault, commands_and_output, page_blocks
from tests.integration.machines import why_no_machine

from practicum.core.config.parse_config import build_config, parse_yaml

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")])
BLOCK_SECONDS = 300
NEEDED = ("configs", "examples", "benchmarks", "README.md")
"""What a reader has in the folder where the commands are typed."""

SKIP = re.compile(r"skip, because \S.*")
REPLACE = re.compile(r"replace (.+?) with (.*)")
SAME_OUTPUT = "same output"
NEEDS_MACHINE = "needs a machine"
WITH_A_MODEL = re.compile(r"practicum (train|eval|export|serve|play|gateway)|python |tests/")
SET_UP = re.compile(r"(sudo )?(make|git clone|cd|pip install|apt-get|python3? -m venv|source)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block, its replacements made."""

    where: str
    language: str
    text: str
    skipped: bool
    compares_output: bool


def make_block(where: str, language: str, text: str, directives: list[str]) -> Block:
    skipped = compares_output = False
    for directive in directives:
        if SKIP.fullmatch(directive):
            skipped = True
        elif directive == NEEDS_MACHINE:
            skipped = skipped or why_no_machine() is not None
        elif match := REPLACE.fullmatch(directive):
            old, new = match.groups()
            if old not in text:
                raise PageFault(f"{where}: there is no {old!r} to replace")
            text = text.replace(old, new)
        elif directive == SAME_OUTPUT and language == "console":
            compares_output = True
        else:
            raise PageFault(
                f"{where}: {directive!r} is no test comment; write `skip, because REASON`, "
                "`replace OLD with NEW`, `needs a machine`, or above a console block `same output`"
            )
    return Block(
        where=where,
        language=language,
        text=text,
        skipped=skipped,
        compares_output=compares_output,
    )


def blocks_of(page: str, text: str) -> list[Block]:
    """The blocks of a page that are tested, in order."""
    return [
        make_block(found.where, found.language, found.text, found.directives)
        for found in page_blocks(page, text)
    ]


def check_set_up(command: str, where: str) -> None:
    """A set-up command is not run, but what it names must be there."""
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
        targets = set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))
        for target in (word for word in words[1:] if "=" not in word):
            if target not in targets:
                raise PageFault(f"{where}: make has no {target!r}; it has {sorted(targets)}")
    if words[:2] == ["pip", "install"]:
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
        for extra in re.findall(r"[\w-]+", "".join(re.findall(r"\[(.*?)\]", command))):
            if extra not in project["optional-dependencies"]:
                raise PageFault(f"{where}: there is no extra {extra!r}")


def script_of(commands: list[str], where: str) -> str:
    """The commands that are run, the set-up ones checked and left out."""
    kept: list[str] = []
    for command in commands:
        if SET_UP.match(command):
            check_set_up(command, where)
        else:
            kept.append(command)
    return "\n".join(kept)


def environment() -> dict[str, str]:
    """The reader's shell: our `practicum` first on the path, no network, a plain terminal."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shown = {"COLUMNS": "100", "NO_COLOR": "1"}
    # The tests are as many processes as there are cores.
    return {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **shown}


def run_block(block: Block, folder: Path) -> None:
    if block.skipped:
        return
    if block.language == "yaml":
        build_config(parse_yaml(block.text, block.where), block.where)
        return
    shown: list[str] = []
    if block.language == "python":
        command = [sys.executable, "-c", block.text]
    else:
        commands, shown = commands_and_output(block.language, block.text)
        command = ["bash", "-euo", "pipefail", "-c", script_of(commands, block.where)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BLOCK_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise PageFault(f"{block.where}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    printed = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
    if block.compares_output and printed != shown:
        raise PageFault(f"{block.where}: it prints\n" + "\n".join(printed))


@pytest.fixture
def readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what a clone has and a reader may name; a reader has trusted nothing yet."""
    monkeypatch.delenv("PRACTICUM_TRUST")
    monkeypatch.setenv("PRACTICUM_TRUST_FILE", str(tmp_path / "trusted"))
    for name in NEEDED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name)
        elif source.is_file():
            shutil.copy(source, tmp_path / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)  # so that .venv/bin/practicum is there too
    return tmp_path


def loads_a_model(page: Path) -> bool:
    """Whether a block that is run does, which takes seconds each time."""
    return any(
        found.language == "python" or WITH_A_MODEL.search(found.text)
        for found in page_blocks(page.name, page.read_text(encoding="utf-8"))
        if not any(SKIP.fullmatch(directive) for directive in found.directives)
    )


SHORT, LONG = ([p for p in PAGES if loads_a_model(p) is is_long] for is_long in (False, True))


@pytest.mark.slow
@pytest.mark.parametrize("page", SHORT, ids=lambda p: p.name)
def test_every_block_of_a_page_runs(page: Path, readers_folder: Path) -> None:
    run_page(page.name, page.read_text(encoding="utf-8"), readers_folder)


@pytest.mark.slow
@pytest.mark.rare  # what the commands do has tests of its own
@pytest.mark.parametrize("page", LONG, ids=lambda p: p.name)
def test_every_block_of_a_page_with_a_model_runs(page: Path, readers_folder: Path) -> None:
    run_page(page.name, page.read_text(encoding="utf-8"), readers_folder)


@pytest.mark.parametrize("page", LONG, ids=lambda p: p.name)
def test_comments_configs_and_set_up_of_a_page_with_a_model_are_right(page: Path) -> None:
    for block in blocks_of(page.name, page.read_text(encoding="utf-8")):
        if block.language == "yaml":
            run_block(block, page.parent)
        elif block.language != "python" and not block.skipped:
            script_of(commands_and_output(block.language, block.text)[0], block.where)


def page_with(block: str, *comments: str) -> str:
    return "\n".join(["Text.", "", *(f"<!-- test: {c} -->" for c in comments), block, ""])


def run_page(name: str, text: str, folder: Path) -> None:
    for block in blocks_of(name, text):
        run_block(block, folder)


def bad_pages() -> Iterator[tuple[str, str]]:
    yield page_with("```bash\nfalse\ntrue\n```"), "line 3: exit code 1"
    yield page_with("```python\n1 / 0\n```"), "ZeroDivisionError"
    yield page_with("```console\n$ exit 3\nfine\n```"), "exit code 3"
    yield page_with("```bash\nmake dinner\n```"), "make has no 'dinner'"
    yield page_with("```bash\npip install -e '.[nothing]'\n```"), "no extra 'nothing'"
    yield page_with("```bash\nfalse\n```", "skip"), "'skip' is no test comment"
    yield page_with("```bash\nfalse\n```", "skip, because "), "is no test comment"
    yield page_with("```bash\ntrue\n```", "replace x with y"), "there is no 'x' to replace"
    yield page_with("```bash\ntrue"), "never closed"
    yield page_with("```console\n$ echo a\nb\n```", "same output"), "it prints\na"


@pytest.mark.parametrize(("text", "fault"), list(bad_pages()))
def test_what_is_wrong_on_a_page_is_found(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(PageFault) as caught:
        run_page("page.md", text, tmp_path)
    assert fault in str(caught.value)


def test_a_yaml_block_that_no_run_would_accept_is_found(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"page\.md, line 3: unknown key 'stpes'"):
        run_page("page.md", page_with("```yaml\nenv: math\nstpes: 3\n```"), tmp_path)


def test_blocks_of_a_page_share_a_folder_and_replacements_are_made(tmp_path: Path) -> None:
    first = page_with("```bash\nmake test\necho big > model\n```", "replace big with tiny")
    second = page_with("```console\n$ cat \\\n  model\ntiny\n```", "same output")
    run_page("page.md", first + second, tmp_path)
    assert (tmp_path / "model").read_text() == "tiny\n"


def test_a_skipped_block_and_blocks_in_other_languages_are_not_run(tmp_path: Path) -> None:
    skipped = page_with("```bash\ntouch ran\n```", "skip, because it takes an hour")
    run_page("page.md", skipped + page_with("```text\ntouch ran\n```"), tmp_path)
    assert not (tmp_path / "ran").exists()
