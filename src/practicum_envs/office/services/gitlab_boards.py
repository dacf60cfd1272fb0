"""GitLab's issue boards by its API: a board is a row of lists, each the open issues of a label."""

from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.gitlab_views import paged, required, wanted_project
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
P = "/api/v4/projects/{id}"
BOARD = f"{P}/boards/{{board}}"


def add_board(gitlab: Gitlab, project: Document, name: str) -> Document:
    """A new board; it has no lists yet besides those of all open and all closed issues."""
    board: Document = {"id": gitlab.company.number("gitlab board"), "name": name, "lists": []}
    project["boards"].append(board)
    return board


def board_view(gitlab: Gitlab, project: Document, board: Document) -> Document:
    """A board."""
    lists = [list_view(gitlab, project, one) for one in board["lists"]]
    return {
        "id": board["id"],
        "name": board["name"],
        "project": {"id": project["id"], "path_with_namespace": project["path_with_namespace"]},
        "hide_backlog_list": False,
        "hide_closed_list": False,
        "lists": [one for one in lists if one["label"]],
    }


def list_view(gitlab: Gitlab, project: Document, one: Document) -> Document:
    """A list of a board."""
    return {**one, "label": gitlab.label(project, str(one["label"])), "list_type": "label"}


def opened(request: Request, level: int) -> tuple[Gitlab, Document, Document]:
    """The project and the board of a route."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, level)
    named = request.parameters["board"]
    board = next((one for one in project["boards"] if str(one["id"]) == named), None)
    if board is None:
        raise Refused(404, "404 Board Not Found")
    return gitlab, project, board


@routes.route("GET", f"{P}/boards")
def boards(request: Request) -> Response:
    """The boards of a project."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    return paged(request, [board_view(gitlab, project, one) for one in project["boards"]])


@routes.route("POST", f"{P}/boards")
def create_board(request: Request) -> Response:
    """A new board."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 20)
    required(request, "name")
    board = add_board(gitlab, project, request.text("name"))
    return Response.json(board_view(gitlab, project, board), 201)


@routes.route("GET PUT DELETE", BOARD)
def one_board(request: Request) -> Response:
    """One board: show, rename, delete."""
    gitlab, project, board = opened(request, 0 if request.method == "GET" else 20)
    if request.method == "DELETE":
        project["boards"].remove(board)
        return Response(status=204)
    if request.method == "PUT":
        board["name"] = request.text("name") or board["name"]
    return Response.json(board_view(gitlab, project, board))


@routes.route("GET", f"{BOARD}/lists")
def lists(request: Request) -> Response:
    """The lists of a board."""
    gitlab, project, board = opened(request, 0)
    return paged(request, board_view(gitlab, project, board)["lists"])


@routes.route("POST", f"{BOARD}/lists")
def create_list(request: Request) -> Response:
    """A new list, of a label's issues."""
    gitlab, project, board = opened(request, 20)
    required(request, "label_id")
    label = gitlab.label(project, request.text("label_id"))
    if label is None:
        raise Refused(400, "Label not found")
    if any(one["label"] == label["id"] for one in board["lists"]):
        raise Refused(400, "Label has already been taken")
    number = gitlab.company.number("gitlab board list")
    made = {"id": number, "label": label["id"], "position": len(board["lists"])}
    board["lists"].append(made)
    return Response.json(list_view(gitlab, project, made), 201)


@routes.route("GET PUT DELETE", f"{BOARD}/lists/{{list}}")
def one_list(request: Request) -> Response:
    """One list: show, move to another place, delete."""
    gitlab, project, board = opened(request, 0 if request.method == "GET" else 20)
    named = request.parameters["list"]
    found = next((one for one in board["lists"] if str(one["id"]) == named), None)
    if found is None:
        raise Refused(404, "404 List Not Found")
    if request.method != "GET":
        board["lists"].remove(found)
        if request.method == "PUT":
            board["lists"].insert(request.number("position", 0), found)
        for place, one in enumerate(board["lists"]):
            one["position"] = place
    if request.method == "DELETE":
        return Response(status=204)
    return Response.json(list_view(gitlab, project, found))
