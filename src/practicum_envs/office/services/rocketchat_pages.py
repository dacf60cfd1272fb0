"""RocketChat's pages: log in, read a room, write into it; plain HTML without scripts."""

from practicum_envs.office.chat_model import Chat
from practicum_envs.office.company_state import Document
from practicum_envs.office.services.pages import escaped, link, page, sign_in_form, table
from practicum_envs.office.services.rocketchat_messages import say
from practicum_envs.office.services.rocketchat_search import channels, people
from practicum_envs.office.services.rocketchat_views import may_read
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
TITLE = "the agent company - RocketChat"
SHOWN = 50
"""Messages on a room's page."""


@routes.route("GET", "/", is_open=True)
@routes.route("GET", "/home", is_open=True)
def home(request: Request) -> Response:
    """The rooms one is in, or the form to log in."""
    if request.user is None:
        return Response.html(login_form())
    chat = Chat(request.company)
    name = request.user["username"]
    rows = [
        f"<li>{link('/channel/' + room['name'], '#' + room['name'])} {escaped(room['topic'])}</li>"
        for room in chat.rooms_of("c")
    ]
    rows += [
        f"<li>{link('/group/' + room['name'], room['name'])} (private)</li>"
        for room in chat.rooms_of("p", name)
    ]
    people = sorted(user["username"] for user in chat.users.values() if user["username"] != name)
    talks = [f"<li>{link('/direct/' + one, '@' + one)}</li>" for one in people]
    directory = f"<p>{link('/directory/channels', 'Directory')}</p>"
    body = f"{directory}<h2>Channels</h2><ul>{''.join(rows)}</ul>"
    body += f"<h2>People</h2><ul>{''.join(talks)}</ul>"
    return Response.html(page(TITLE, f"<p>Logged in as {escaped(name)}</p>{body}"))


FIELDS = (("Email or username", "username"), ("Password", "password"))


def login_form(said: str = "") -> str:
    """The page to log in."""
    return sign_in_form(TITLE, "/login", FIELDS, "Login", said)


@routes.route("POST", "/login", is_open=True)
def log_in(request: Request) -> Response:
    """Log in by the form."""
    chat = Chat(request.company)
    user = chat.user(request.text("username"))
    if user is None or user["password"] != request.text("password"):
        return Response.html(login_form("User not found or incorrect password"), 401)
    token = request.company.secret("random")
    chat.data["tokens"][token] = user["_id"]
    return Response.redirect("/home", {"Set-Cookie": f"rc_token={token}; Path=/; HttpOnly"})


@routes.route("GET", "/directory")
@routes.route("GET", "/directory/{kind:channels|users}")
def directory_page(request: Request) -> Response:
    """Every public channel, or everyone, narrowed by a part of the name."""
    chat, text = Chat(request.company), request.text("text")
    if request.parameters.get("kind") == "users":
        rows = [
            (
                link(f"/direct/{one['username']}", one["name"]),
                *map(escaped, (one["username"], one["bio"])),
            )
            for one in people(chat, text)
        ]
        shown = table(("Name", "Username", "Bio"), rows)
    else:
        rows = [
            (
                link(f"/channel/{one['name']}", f"#{one['name']}"),
                *map(escaped, (one["usersCount"], one["ts"], one["topic"])),
            )
            for one in channels(chat, text)
        ]
        shown = table(("Name", "Users", "Created at", "Topic"), rows)
    ask = (
        f'<form method="get"><label>Search <input name="text" value="{escaped(text)}"></label> '
        "<button>Search</button></form>"
    )
    places = f"{link('/directory/channels', 'Channels')} | {link('/directory/users', 'Users')}"
    return Response.html(page("Directory", f"<p>{places}</p>{ask}{shown}"))


@routes.route("GET", "/{kind:channel|group|direct}/{name}")
def room_page(request: Request) -> Response:
    """What was said in a room, oldest first, and a form to write."""
    chat = Chat(request.company)
    room = page_room(request, chat)
    said = chat.messages[room["_id"]][-SHOWN:]
    lines = "".join(
        f"<li><b>{escaped(m['u']['username'])}</b> <time>{m['ts']}</time> {escaped(m['msg'])}</li>"
        for m in said
    )
    title = f"{request.parameters['kind']} {request.parameters['name']}"
    people = ", ".join(escaped(one) for one in room["members"])
    form = '<form method="post"><textarea name="text"></textarea> <button>Send</button></form>'
    facts = f"<p>Topic: {escaped(room.get('topic', ''))}</p><p>Members: {people}</p>"
    return Response.html(
        page(title, f"{facts}<ul>{lines}</ul>{form}<p>{link('/home', 'Home')}</p>")
    )


@routes.route("POST", "/{kind:channel|group|direct}/{name}")
def room_post(request: Request) -> Response:
    """Write into a room by the form."""
    chat = Chat(request.company)
    say(request, chat, page_room(request, chat), request.text("text"))
    return Response.redirect(request.path)


def page_room(request: Request, chat: Chat) -> Document:
    """The room that a page's address names."""
    kind, name = request.parameters["kind"], request.parameters["name"]
    if kind == "direct":
        other = chat.user(name)
        if other is not None:
            return chat.open_direct([request.user["username"], other["username"]])
        room = chat.room(name, "d")
    else:
        room = chat.room(name, "c" if kind == "channel" else "p")
    if room is None or not may_read(request.user, room):
        raise Refused(404, "There is no such room")
    return room


def refused_page(request: Request, refused: Refused) -> Response:
    """An error as a page."""
    if refused.status == 401:
        return Response.html(login_form("Log in to see this page"), 401)
    return Response.html(page(TITLE, f"<p>{escaped(refused.message)}</p>"), refused.status)
