"""Which changes in a container leave no checker that can be believed.

A container's checker runs with the container's own programs, so the engine is asked what the policy
changed. Programs of new names may be what a task asked for; all else that a program, its libraries
or its settings consist of must be as the image has it.
"""

import re
from collections.abc import Collection
from pathlib import PurePosixPath

SEARCHED = re.compile(r"/(usr/|usr/local/)?s?bin")
"""The folders of every PATH that a system has of itself."""
PROGRAMS = re.compile(
    r"/(usr/)?(s?bin|lib\w*)(/.*)?|/usr/(libexec|share/(perl\w*|awk|misc|file))(/.*)?|"
    r"/usr/local(/s?bin(/.*)?)?|/usr/local/lib(/(python|site_perl|[^/]*-linux-gnu)[^/]*(/.*)?)?|"
    r"/usr/local/share(/perl(/.*)?)?|(/usr)?/pyvenv\.cfg|"
    r"/etc/(ld\.so\.\w+|alternatives|pam\.d|security|perl)(/.*)?|"
    r"/etc/(nsswitch\.conf|sudo\.conf|magic|ssl/openssl\.cnf)"
)
"""Paths of programs, libraries and their settings that a checker uses."""
SETTINGS = re.compile(r"Modules|lib|lib64|pybuilddir\.txt|pyvenv\.cfg|.*\._pth")
"""Names beside a Python that make it use another library."""


def changed_program(listing: str, known: Collection[str]) -> tuple[str, str]:
    r"""The path of what was changed, and how ("D", "C" or "A"); two empty texts where nothing was.

    `listing` is what `diff` of the engine prints, `known` are the names of the image's programs,
    empty where they could not be listed. What was removed comes first.

    >>> changed_program("C /usr/local/bin\nA /usr/local/bin/hello\n", {"ls"})
    ('', '')
    >>> changed_program("C /usr/sbin\nA /usr/sbin/ls\n", {"ls"})
    ('/usr/sbin/ls', 'A')
    """
    lines = [line.partition(" ") for line in listing.splitlines()]
    # A folder is listed as changed where something in it was; what that is decides.
    parents = {str(folder) for _, _, path in lines for folder in PurePosixPath(path).parents}
    found = [
        (path, how)
        for how, _, path in lines
        if PROGRAMS.fullmatch(path)
        and not (how == "C" and path in parents)
        and not (how == "A" and _is_new_program(path, known))
    ]
    removed = [one for one in found if one[1] == "D"]
    return next(iter(removed or found), ("", ""))


def _is_new_program(path: str, known: Collection[str]) -> bool:
    """Whether an added file has a name of its own, and lies where programs are put."""
    folder, _, name = path.rpartition("/")
    is_local = folder.startswith("/usr/local/")
    return (
        SEARCHED.fullmatch(folder) is not None
        and SETTINGS.fullmatch(name) is None
        and name not in known
        and (bool(known) or is_local)
    )
