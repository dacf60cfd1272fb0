"""Who may push to, merge into, make and delete a protected branch, in GitLab's own words."""

from fnmatch import fnmatchcase

from practicum_envs.office.company_state import Document

DEVELOPER, MAINTAINER = 30, 40
HEADS = "refs/heads/"
NO_COMMIT = "0" * 40
"""What git writes for a branch before it is made, and after it is deleted."""
FORCED = "You are not allowed to force push code to a protected branch on this project."


def rules_of(project: Document, branch: str) -> list[Document]:
    """The rules that protect a branch; their names may have `*` in them.

    >>> rules_of({"protected_branches": [{"name": "release-*"}]}, "release-2")
    [{'name': 'release-*'}]
    """
    rules: list[Document] = project["protected_branches"]
    return [rule for rule in rules if fnmatchcase(branch, _plain(rule["name"]))]


def _plain(name: str) -> str:
    """A pattern in which only `*` is special."""
    return name.replace("[", "[[]").replace("?", "[?]")


def may_push(level: int, project: Document, branch: str) -> bool:
    """Whether who has a level in a project may push to a branch, and commit to it."""
    return _may(level, project, branch, "push_access_levels")


def may_merge(level: int, project: Document, branch: str) -> bool:
    """Whether who has a level in a project may merge into a branch: whoever may push, may."""
    return _may(level, project, branch, "merge_access_levels") or may_push(level, project, branch)


def _may(level: int, project: Document, branch: str, kind: str) -> bool:
    rules = rules_of(project, branch)
    if not rules:
        return level >= DEVELOPER
    # Nobody, whoever they are, has the access level 0.
    return any(0 < access["access_level"] <= level for rule in rules for access in rule[kind])


def must_fast_forward(project: Document, change: tuple[str, str, str]) -> bool:
    """Whether a change (old commit, new commit, reference) may only add commits."""
    old, new, ref = change
    if NO_COMMIT in (old, new) or not ref.startswith(HEADS):
        return False
    rules = rules_of(project, ref.removeprefix(HEADS))
    return bool(rules) and not any(rule["allow_force_push"] for rule in rules)


def why_not_pushed(
    level: int, project: Document, change: tuple[str, str, str], *, is_empty: bool
) -> str:
    """Why a change is refused to who has a level in a project; empty where it is not.

    `is_empty` says whether the repository has no branch yet.
    """
    old, new, ref = change
    if not ref.startswith(HEADS):
        return ""
    branch = ref.removeprefix(HEADS)
    if new == NO_COMMIT:
        return _why_not_deleted(level, project, branch)
    if is_empty and branch == project["default_branch"] and level < MAINTAINER:
        return (
            f"A default branch (e.g. {branch}) does not yet exist for "
            f"{project['path_with_namespace']}. Ask a project Owner or Maintainer to create it."
        )
    if may_push(level, project, branch):
        return ""
    if old != NO_COMMIT or is_empty:
        return "You are not allowed to push code to protected branches on this project."
    if may_merge(level, project, branch):
        return "You can only create protected branches using the web interface and API."
    return "You are not allowed to create protected branches on this project."


def _why_not_deleted(level: int, project: Document, branch: str) -> str:
    if branch == project["default_branch"]:
        return "The default branch of a project cannot be deleted."
    if not rules_of(project, branch):
        return ""
    if level >= MAINTAINER:
        return "You can only delete protected branches using the web interface."
    return (
        "You are not allowed to delete protected branches from this project. "
        "Only a project maintainer or owner can delete a protected branch."
    )
