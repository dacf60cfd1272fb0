"""GitLab's pages of a project's settings: what it is called, its branches' rules, its members."""

from practicum_envs.office.branch_protection import MAINTAINER
from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import ACCESS, PROTECTING, Gitlab
from practicum_envs.office.services.forms import area, choice, field
from practicum_envs.office.services.gitlab_layout import (
    GONE,
    PLACE,
    below,
    call,
    file_form,
    home_of,
    named,
    page_project,
    said,
    sent_form,
    shown,
    submitted,
    tick,
)
from practicum_envs.office.services.gitlab_views import level_of
from practicum_envs.office.services.pages import escaped, link, table
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
VISIBILITIES = (("private", "Private"), ("internal", "Internal"), ("public", "Public"))
LEVELS = [(str(level), name) for level, name in PROTECTING.items() if level <= MAINTAINER]
ROLES = [(str(level), name) for level, name in ACCESS.items()]


# General settings.


@routes.route("GET", f"{PLACE}/edit")
def settings_page(request: Request) -> Response:
    """The forms to change, archive and delete a project."""
    project = page_project(request, Gitlab(request.company), MAINTAINER)
    fields = (
        field("Project name", "project[name]", project["name"])
        + area("Project description", "project[description]", project["description"])
        + field("Topics, with commas between", "project[topics]", ", ".join(project["topics"]))
        + choice("Project visibility", "project[visibility]", VISIBILITIES, project["visibility"])
    )
    path = field("Path", "project[path]", project["path"])
    word = "Unarchive project" if project["archived"] else "Archive project"
    home = home_of(project)
    no_avatar = {"project[avatar]": ""}
    body = (
        sent_form(request, home, fields, "Save changes", method="patch")
        + file_form(request, home, "Project avatar", "project[avatar]", "Upload avatar")
        + sent_form(request, home, "", "Remove avatar", method="patch", hidden=no_avatar)
        + sent_form(request, home, path, "Change path", method="patch")
        + f"<p>{link(below(project, 'settings', 'repository'), 'Repository settings')}</p>"
        + sent_form(request, f"{home}/archive", "", word)
        + f"<p>{link(f'{home}/delete', 'Delete project')}</p>"
    )
    return shown(request, f"General settings · {project['path_with_namespace']}", body, project)


@submitted(routes, f"{PLACE}/archive")
def archive_project(request: Request) -> Response:
    """Archive a project, or take it back."""
    project = page_project(request, Gitlab(request.company))
    act = "unarchive" if project["archived"] else "archive"
    call(request, "POST", f"projects/{project['id']}/{act}")
    return Response.redirect(home_of(project))


@routes.route("GET", f"{PLACE}/delete")
def delete_project_page(request: Request) -> Response:
    """What it means to delete a project, and the form that does it."""
    project = page_project(request, Gitlab(request.company), MAINTAINER)
    whole = project["path_with_namespace"]
    words = f"You are about to delete {whole} with its repository, its issues and all else in it."
    form = sent_form(request, home_of(project), "", "Yes, delete project", method="delete")
    return shown(request, f"Delete {whole}", f"<p>{escaped(words)}</p>{form}", project)


# Branches.


@routes.route("GET", f"{PLACE}/-/settings/repository")
def repository_settings_page(request: Request) -> Response:
    """The default branch, and the branches that are protected."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab, MAINTAINER)
    names = [(name, name) for name in gitlab.repository(project).branches()]
    default = choice("Default branch", "project[default_branch]", names, project["default_branch"])
    body = "<h2>Branch defaults</h2>"
    body += sent_form(request, home_of(project), default, "Save changes", method="patch")
    body += "<h2>Protected branches</h2>"
    for rule in project["protected_branches"]:
        address = below(project, "protected_branches", rule["id"])
        name = rule["name"]
        body += f"<h3>{escaped(name)}</h3>"
        body += sent_form(request, address, rule_fields(rule), f"Update {name}", method="patch")
        body += sent_form(request, address, "", f"Unprotect {name}", method="delete")
    fields = field("Branch, or a wildcard such as *-stable", "protected_branch[name]")
    body += "<h3>Protect a branch</h3>"
    address = below(project, "protected_branches")
    body += sent_form(request, address, fields + rule_fields({}), "Protect")
    return shown(request, f"Repository settings · {project['path_with_namespace']}", body, project)


def rule_fields(rule: Document) -> str:
    """Who may merge into a protected branch, who may push, and whether by force."""
    parts = [
        choice(f"Allowed to {what}", f"protected_branch[{what}]", LEVELS, level_in(rule, what))
        for what in ("merge", "push")
    ]
    is_on = bool(rule.get("allow_force_push"))
    return "".join(parts) + tick("Allow force push", "protected_branch[force]", is_on=is_on)


def level_in(rule: Document, what: str) -> str:
    """The access level that a rule has; the lowest of several, maintainers' in a new one."""
    levels = [one["access_level"] for one in rule.get(f"{what}_access_levels", ())]
    return str(min(levels, default=MAINTAINER))


@submitted(routes, f"{PLACE}/-/protected_branches")
@submitted(routes, f"{PLACE}/-/protected_branches/{{rule:[0-9]+}}")
def change_protection(request: Request) -> Response:
    """Protect a branch, change how it is, or leave it unprotected."""
    project = page_project(request, Gitlab(request.company))
    place, given = f"projects/{project['id']}/protected_branches", said(request, "protected_branch")
    number = request.parameters.get("rule")
    levels = {
        f"allowed_to_{what}": [{"access_level": given[what]}]
        for what in ("push", "merge")
        if what in given
    }
    body = {**levels, "allow_force_push": given.get("force") == "1"}
    if number is None:
        call(request, "POST", place, {**body, "name": given.get("name")})
    else:
        rules = (one for one in project["protected_branches"] if str(one["id"]) == number)
        rule = next(rules, None)
        if rule is None:
            raise Refused(404, GONE)
        is_gone = request.text("_method").lower() == "delete"
        call(request, "DELETE" if is_gone else "PATCH", f"{place}/{named(rule['name'])}", body)
    return Response.redirect(below(project, "settings", "repository"))


# Members.


@routes.route("GET", f"{PLACE}/-/project_members")
def members_page(request: Request) -> Response:
    """Who is in a project, and the forms to change that."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    may_change = level_of(gitlab, request.user, project) >= MAINTAINER
    inside = call(request, "GET", f"projects/{project['id']}/members", {"per_page": 100})
    rows = []
    for one in inside:
        acts = ""
        if may_change and str(one["id"]) in project["members"]:
            address = below(project, "project_members", one["id"])
            role = choice("Role", "access_level", ROLES, str(one["access_level"]))
            acts = sent_form(request, address, role, f"Update {one['username']}", method="put")
            acts += sent_form(request, address, "", f"Remove {one['username']}", method="delete")
        rows.append((escaped(one["name"]), one["username"], ACCESS[one["access_level"]], acts))
    body = table(("Name", "Username", "Role", ""), rows)
    if may_change:
        there = {one["id"] for one in inside}
        others = [
            (str(u["id"]), f"{u['name']} ({u['username']})")
            for u in gitlab.users.values()
            if u["id"] not in there and u["state"] == "active"
        ]
        fields = choice("Person", "user_id", others) + choice("Role", "access_level", ROLES, "30")
        body += sent_form(request, below(project, "project_members"), fields, "Invite member")
    return shown(request, f"Members · {project['path_with_namespace']}", body, project)


@submitted(routes, f"{PLACE}/-/project_members")
@submitted(routes, f"{PLACE}/-/project_members/{{user:[0-9]+}}")
def change_members(request: Request) -> Response:
    """Add someone, change what they may do, or remove them."""
    project = page_project(request, Gitlab(request.company))
    place, user = f"projects/{project['id']}/members", request.parameters.get("user")
    level = {"access_level": request.number("access_level", 0)}
    if user is None:
        call(request, "POST", place, {**level, "user_id": request.text("user_id")})
    elif request.text("_method").lower() == "delete":
        call(request, "DELETE", f"{place}/{user}")
    else:
        call(request, "PUT", f"{place}/{user}", level)
    return Response.redirect(below(project, "project_members"))
