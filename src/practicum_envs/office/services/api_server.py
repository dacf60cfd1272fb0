"""The server at port 2999 that brings services back to their beginning and says how they are."""

from practicum_envs.office.company_changes import changes_of
from practicum_envs.office.company_state import PARTS
from practicum_envs.office.services.web import Refused, Request, Response, Router, Service

PORT = 2999
NAMES = {"rocketchat": "RocketChat", "plane": "Plane", "gitlab": "GitLab", "owncloud": "ownCloud"}
routes = Router()


@routes.route("POST", "/api/reset-{service:rocketchat|gitlab|plane|owncloud}", is_open=True)
def reset(request: Request) -> Response:
    """Bring a service back to the beginning of the episode."""
    name = request.parameters["service"]
    request.company.reset(name)
    return Response.json({"message": f"Reset {NAMES[name]} command initiated"}, 202)


@routes.route("GET HEAD", "/api/healthcheck/{service}", is_open=True)
def healthcheck(request: Request) -> Response:
    """Whether a service answers; all of them do, or none."""
    name = request.parameters["service"]
    if name == "rocketchat":
        return Response.json({"redis": 200, "rocketchat": 200, "sotopia": 200})
    if name in PARTS or name in ("redis", "sotopia"):
        return Response.json({"message": f"success connect to {name}"})
    raise Refused(404, "Not Found")


@routes.route("GET", "/api/changes", is_open=True)
def changes(request: Request) -> Response:
    """What has changed since the episode began, for the owner alone."""
    if not request.is_owner:
        raise Refused(404, "Not Found")
    return Response.json(changes_of(request.company))


def refuse(request: Request, refused: Refused) -> Response:
    """An error of this server."""
    return Response.json({"message": refused.message}, refused.status)


SERVICE = Service(
    name="api",
    port=PORT,
    router=routes,
    authenticate=lambda request: None,
    find_user=lambda company, name: None,
    refuse=refuse,
)
