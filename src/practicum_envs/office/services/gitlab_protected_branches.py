"""GitLab's protected branches by its API; what they forbid is in `branch_protection`."""

from typing import Any

from practicum_envs.office.branch_protection import MAINTAINER
from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import PROTECTING, Gitlab, access
from practicum_envs.office.services.gitlab_views import paged, required, wanted_project
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
P = "/api/v4/projects/{id}"


@routes.route("GET", f"{P}/protected_branches")
def protected_branches(request: Request) -> Response:
    """The protected branches."""
    project = wanted_project(request, Gitlab(request.company))
    wanted = request.text("search").lower()
    found = [one for one in project["protected_branches"] if wanted in one["name"].lower()]
    return paged(request, found)


@routes.route("POST", f"{P}/protected_branches")
def protect_branch(request: Request) -> Response:
    """Protect a branch, or all whose names are like a pattern."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, MAINTAINER)
    required(request, "name")
    levels = [
        checked_level(request.fields.get(name, MAINTAINER), name)
        for name in ("push_access_level", "merge_access_level")
    ]
    lists = given_levels(request)
    branch = gitlab.protect(project, request.text("name"), *levels)
    branch |= {**lists, "allow_force_push": request.flag("allow_force_push")}
    return Response.json(branch, 201)


@routes.route("GET PATCH DELETE", f"{P}/protected_branches/{{branch}}")
def one_protected_branch(request: Request) -> Response:
    """One protected branch: show, change, leave unprotected."""
    least = 0 if request.method == "GET" else MAINTAINER
    project = wanted_project(request, Gitlab(request.company), least)
    named = request.parameters["branch"]
    branch = next((one for one in project["protected_branches"] if one["name"] == named), None)
    if branch is None:
        raise Refused(404, "404 Not found")
    if request.method == "DELETE":
        project["protected_branches"].remove(branch)
        return Response(status=204)
    if request.method == "PATCH":
        branch |= given_levels(request)
        if "allow_force_push" in request.fields:
            branch["allow_force_push"] = request.flag("allow_force_push")
    return Response.json(branch)


def checked_level(given: Any, name: str) -> int:
    """An access level of a protected branch."""
    if str(given) not in map(str, PROTECTING):
        raise Refused(400, f"{name} does not have a valid value", key="error")
    return int(given)


def given_levels(request: Request) -> Document:
    """The access levels that lists such as `allowed_to_push` give, by their names in a branch."""
    found: Document = {}
    for name, stored in (
        ("allowed_to_push", "push_access_levels"),
        ("allowed_to_merge", "merge_access_levels"),
    ):
        rules = request.fields.get(name)
        if isinstance(rules, list):
            levels = [rule.get("access_level") for rule in rules if isinstance(rule, dict)]
            found[stored] = [access(checked_level(level, name)) for level in levels]
    return found
