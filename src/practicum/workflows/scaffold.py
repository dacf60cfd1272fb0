"""`practicum new`: a package for a domain of one's own, which works as it stands.

The templates in `domain_template/` are the files of a domain that is called `my_domain`; a new one
has its own name in that place.
"""

import keyword
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from practicum.core.errors import UserError
from practicum.core.trusted_code import FOLDER, remember
from practicum.environments.registry import environment_names

TEMPLATES = Path(__file__).parent / "domain_template"
SUFFIX = ".template"
"""Of every template, so that no tool takes it for a file of Practicum itself."""
WRITTEN = "my_domain"
"""The name that stands in the templates; its class is `MyDomainEnvironment`."""
LONGEST_NAME = 30


def new(name: str, folder: str | Path = ".") -> Path:
    """Make a package for a domain and return its folder; see docs/domain-guide.md.

    Nothing is trained or installed. The folder is the user's own, so its code is trusted from now
    on, with later changes.

    Args:
        name: Of the domain, its package and its folder: small letters, digits and `_`.
        folder: Where its folder is made.
    """
    place = Path(folder).expanduser()
    check_name(name)
    if not place.is_dir():
        raise UserError(
            f"there is no folder {place} to make {name} in; make it first: mkdir {place}"
        )
    made = place / name
    if made.exists() or made.is_symlink():
        raise UserError(
            f"{made} is there already, and nothing is written over; give another name, or move it "
            "out of the way"
        )
    for path, text in files_of(name):
        file = made / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    remember([(FOLDER, str(made.resolve()))])
    return made


def files_of(name: str) -> Iterator[tuple[Path, str]]:
    """Every file of a domain: its path in the folder, and its text."""
    names = {WRITTEN: name, class_name(WRITTEN): class_name(name)}
    for template in sorted(TEMPLATES.rglob(f"*{SUFFIX}")):
        path = str(template.relative_to(TEMPLATES)).removesuffix(SUFFIX)
        text = template.read_text(encoding="utf-8")
        for written, own in names.items():
            path, text = path.replace(written, own), text.replace(written, own)
        yield Path(path), text


def class_name(name: str) -> str:
    """How the classes of a domain begin.

    >>> class_name("help_desk")
    'HelpDesk'
    """
    return "".join(part.capitalize() for part in name.split("_"))


def check_name(name: str) -> None:
    """Raise `UserError` for a name that a domain cannot have."""
    if name.replace("-", "_") in environment_names():
        raise UserError(
            f"{name!r} is an environment already, so yours could not be told from it; give another "
            f"name, such as practicum new my_{name.replace('-', '_')}"
        )
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        proper = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")[:LONGEST_NAME]
        raise UserError(
            f"{name!r} cannot be the name of a package; take small letters, digits and _, "
            f"beginning with a letter, such as practicum new {proper or 'courier'}"
        )
    if len(name) > LONGEST_NAME:
        raise UserError(
            f"the name {name!r} has {len(name)} characters; take at most {LONGEST_NAME}, such as "
            f"practicum new {name[:LONGEST_NAME].strip('_')}"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise UserError(
            f"{name!r} is a word of Python itself; give another name, such as practicum new "
            f"my_{name}"
        )
    if name in sys.stdlib_module_names or find_spec(name) is not None or name == "tests":
        raise UserError(
            f"{name!r} is a Python module already, and importing yours would give that one; give "
            f"another name, such as practicum new my_{name}"
        )
