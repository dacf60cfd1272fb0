"""The pages: made ones are up to date, links lead somewhere, and the site has every page."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted([*REPOSITORY.glob("*.md"), *DOCS.glob("*.md")])
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def prose(path: Path) -> str:
    """A page without its fenced blocks and code, which may look like links."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "`", text)


def anchors(path: Path) -> set[str]:
    """Names of a page's headings, as the site and as GitHub make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        found |= {plain.replace(" ", "-"), re.sub(r"[-\s]+", "-", plain)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for groups in LINK.findall(prose(page)):
        target = next(filter(None, groups))
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        path = (page.parent / place).resolve() if place else page
        is_there = path.exists()
        if not is_there or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(target)
    assert broken == []


def nav_pages(entries: list[object]) -> list[str]:
    found: list[str] = []
    for entry in entries:
        [value] = entry.values() if isinstance(entry, dict) else [entry]
        found += nav_pages(value) if isinstance(value, list) else [str(value)]
    return found


def test_the_site_has_every_page_once() -> None:
    site = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())
    assert sorted(nav_pages(site["nav"])) == sorted(p.name for p in DOCS.glob("*.md"))


def test_pages_that_are_made_from_the_code_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/make_docs.py", "--check"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_accepts_the_configs_that_ship_and_refuses_a_mistyped_key() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((DOCS / "config.schema.json").read_text())
    for path in sorted((REPOSITORY / "configs").glob("*.yaml")):
        jsonschema.validate(yaml.safe_load(path.read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"env": "math", "stpes": 3}, schema)
    own = {"name": "mine.py:Mine", "push": 1}
    jsonschema.validate({"env": "math", "algorithm": own}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"env": "math", "algorithm": {**own, "name": "grpo"}}, schema)


def test_the_version_is_said_once() -> None:
    import tomllib

    import practicum

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["version"] == practicum.__version__


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "config-reference" / "index.html").is_file()


def test_every_verb_has_a_screen_of_eighty_columns() -> None:
    from practicum.cli.main import app

    page = (DOCS / "screens.md").read_text(encoding="utf-8")
    verbs = [group.name for group in app.registered_groups]
    verbs += [c.name or c.callback.__name__ for c in app.registered_commands if c.callback]
    assert [verb for verb in verbs if f"\n## {verb}\n" not in page] == []
    blocks = re.findall(r"^```text\n\$ (.*?)\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) > len(verbs)
    wide = [line for _, shown in blocks for line in shown.splitlines() if len(line) > 80]
    assert wide == []
