"""`Plane`: the state of Plane's workspace, and what may happen to it."""

from typing import Any

from practicum_envs.office.company_state import Company, Document
from practicum_envs.office.services.web import Refused

STATES = (
    ("Backlog", "backlog", "#A3A3A3", 15000.0),
    ("Todo", "unstarted", "#3A3A3A", 25000.0),
    ("In Progress", "started", "#F59E0B", 35000.0),
    ("Done", "completed", "#16A34A", 45000.0),
    ("Cancelled", "cancelled", "#EF4444", 55000.0),
)
"""Name, group, colour and place of the states that every project has."""
PRIORITIES = ("none", "low", "medium", "high", "urgent")
KINDS = ("states", "labels", "cycles", "modules", "issues")
"""The collections of a project, each a table by id."""


class Plane:
    """Plane's state in a company."""

    def __init__(self, company: Company) -> None:
        self.company = company
        self.data = company.part("plane")
        self.users: dict[str, Document] = self.data["users"]
        self.projects: dict[str, Document] = self.data["projects"]

    def add_user(self, name: str, email: str, password: str, **more: Any) -> Document:
        """A new account."""
        first, _, last = name.partition(" ")
        user: Document = {
            "id": self.company.uuid(),
            "first_name": first,
            "last_name": last,
            "display_name": more.get("display_name") or name,
            "email": email,
            "avatar": "",
            "username": more.get("username", ""),
            "role": more.get("role", 15),
            "password": password,
            **_chosen_id(more),
        }
        self.users[user["id"]] = user
        return user

    def user(self, named: str) -> Document | None:
        """A user by id, username, address or name."""
        if named in self.users:
            return self.users[named]
        for user in self.users.values():
            if named in (user["username"], user["email"], user["display_name"]):
                return user
        return None

    def record(self, by: Document, project: Document | None = None, **fields: Any) -> Document:
        """A new record with what all records have."""
        at = self.company.timestamp()
        return {
            "id": self.company.uuid(),
            "created_at": at,
            "updated_at": at,
            "created_by": by["id"],
            "updated_by": by["id"],
            "workspace": self.data["workspace"],
            **({} if project is None else {"project": project["id"]}),
            **fields,
        }

    def add_project(self, by: Document, name: str, identifier: str, **more: Any) -> Document:
        """A new project with its states."""
        self._require_free(name, identifier)
        project = self.record(
            by,
            name=name,
            identifier=identifier,
            description=more.get("description", ""),
            network=more.get("network", 2),
            project_lead=more.get("project_lead"),
            default_assignee=more.get("default_assignee"),
            cycle_view=True,
            module_view=True,
            issue_views_view=True,
            page_view=True,
            archived_at=None,
            members=[by["id"], *(one for one in more.get("members", []) if one != by["id"])],
            sequence=0,
            tables={kind: {} for kind in KINDS},
            **_chosen_id(more),
        )
        self.projects[project["id"]] = project
        for state, group, color, place in STATES:
            self.add(project, "states", by, name=state, group=group, color=color, sequence=place)
        return project

    def _require_free(self, name: str, identifier: str, own: Document | None = None) -> None:
        """Refuse a name or identifier that another project has."""
        for project in self.projects.values():
            if project is own:
                continue
            if project["name"] == name:
                raise Refused(410, "The project name is already taken", key="name")
            if project["identifier"] == identifier:
                raise Refused(410, "The project identifier is already taken", key="identifier")

    def change_project(self, project: Document, given: dict[str, Any]) -> None:
        """Take over what is given of a project's settings."""
        for name in ("name", "identifier"):
            if name in given and not (isinstance(given[name], str) and given[name].strip()):
                raise Refused(400, "This field may not be blank.", key=name)
        if "identifier" in given:
            given["identifier"] = given["identifier"].upper()
        changed = {**project, **given}
        self._require_free(changed["name"], changed["identifier"], own=project)
        for name in ("project_lead", "default_assignee"):
            if given.get(name) and str(given[name]) not in self.users:
                said = f'Invalid pk "{given[name]}" - object does not exist.'
                raise Refused(400, said, key=name)
        project |= given
        project["updated_at"] = self.company.timestamp()

    def add(self, project: Document, kind: str, by: Document, **given: Any) -> Document:
        """A new state, label, cycle or module."""
        table: dict[str, Document] = project["tables"][kind]
        if any(one["name"] == given["name"] for one in table.values()):
            said = f"{kind[:-1].title()} with the same name already exists in the project"
            raise Refused(409, said, key="error")
        defaults: dict[str, dict[str, Any]] = {
            "states": {
                "description": "",
                "color": "#A3A3A3",
                "group": "backlog",
                "sequence": 65535.0,
                "slug": given["name"].lower().replace(" ", "-"),
                "default": given["name"] == "Backlog",
                "is_triage": False,
            },
            "labels": {"description": "", "color": "", "parent": None, "sort_order": 65535.0},
            "cycles": {
                "description": "",
                "start_date": None,
                "end_date": None,
                "owned_by": by["id"],
                "sort_order": 65535.0,
                "archived_at": None,
                "issues": [],
            },
            "modules": {
                "description": "",
                "start_date": None,
                "target_date": None,
                "status": "backlog",
                "lead": None,
                "members": [],
                "sort_order": 65535.0,
                "archived_at": None,
                "issues": [],
            },
        }
        made = self.record(by, project, **{**defaults[kind], **given})
        table[made["id"]] = made
        return made

    def add_issue(self, project: Document, by: Document, name: str, **given: Any) -> Document:
        """A new issue."""
        project["sequence"] += 1
        default = next(s for s in project["tables"]["states"].values() if s["default"])
        issue = self.record(
            by,
            project,
            name=name,
            description_html="<p></p>",
            priority="none",
            state=default["id"],
            assignees=[],
            labels=[],
            start_date=None,
            target_date=None,
            parent=None,
            point=None,
            estimate_point=None,
            sequence_id=project["sequence"],
            sort_order=65535.0 + 10_000 * project["sequence"],
            completed_at=None,
            archived_at=None,
            is_draft=False,
            comments=[],
            links=[],
            **_chosen_id(given),
        )
        project["tables"]["issues"][issue["id"]] = issue
        self.change_issue(project, issue, given)
        return issue

    def cycle_of(self, project: Document, issue: Document) -> Document | None:
        """The cycle that has an issue; there is one at most."""
        cycles: dict[str, Document] = project["tables"]["cycles"]
        return next((one for one in cycles.values() if issue["id"] in one["issues"]), None)

    def put_into(self, project: Document, kind: str, group: Document, issues: list[str]) -> None:
        """Put issues into a cycle or module; an issue leaves the cycle that it was in."""
        for one in issues:
            for other in project["tables"]["cycles"].values() if kind == "cycles" else ():
                if one in other["issues"]:
                    other["issues"].remove(one)
            if one not in group["issues"]:
                group["issues"].append(one)

    def change_issue(self, project: Document, issue: Document, given: dict[str, Any]) -> None:
        """Take over what is given; refused where it names what is not there."""
        tables = project["tables"]
        if "state" in given and given["state"] not in tables["states"]:
            raise Refused(400, "State is not valid please pass a valid state_id", key="state")
        if given.get("priority", "none") not in PRIORITIES:
            raise Refused(400, f'"{given["priority"]}" is not a valid choice.', key="priority")
        for name, known in (("assignees", self.users), ("labels", tables["labels"])):
            listed = given.get(name) or []
            if not isinstance(listed, list):
                raise Refused(400, "Expected a list of items but got another type.", key=name)
            unknown = [one for one in listed if not isinstance(one, str) or one not in known]
            if unknown:
                raise Refused(400, f'Invalid pk "{unknown[0]}" - object does not exist.', key=name)
        start, end = (given.get(n, issue[n]) for n in ("start_date", "target_date"))
        if start and end and str(start) > str(end):
            raise Refused(400, "Start date cannot exceed target date", key="non_field_errors")
        for name in ISSUE_FIELDS:
            if name in given:
                issue[name] = given[name]
        done = tables["states"][issue["state"]]["group"] == "completed"
        if done != (issue["completed_at"] is not None):
            issue["completed_at"] = self.company.timestamp() if done else None
        issue["updated_at"] = self.company.timestamp()


def _chosen_id(given: dict[str, Any]) -> dict[str, Any]:
    """The id of a record where a seed chooses it; no request can."""
    return {"id": given["seed_id"]} if given.get("seed_id") else {}


ISSUE_FIELDS = (
    *("name", "description_html", "priority", "state", "assignees", "labels", "start_date"),
    *("target_date", "parent", "point", "estimate_point", "is_draft", "external_id"),
)
"""What a request may change of an issue."""
