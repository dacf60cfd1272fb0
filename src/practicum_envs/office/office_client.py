"""`Office`: a small client of a company's services, the same for host and sandbox.

Standard library only, so that this file can be put into a sandbox as it is. Without a `door`, it
connects to `the-agent-company.com`, as an agent does.

    office = Office()
    office.rocketchat("POST", "chat.postMessage", {"channel": "#general", "text": "Hello"})
    office.gitlab("GET", "projects")
    office.plane("GET", "projects/")
    office.read_file("Documents/prices.csv")
"""

import base64
import http.client
import json
import os
import socket
from typing import Any
from urllib.parse import quote, urlencode

HOST = os.environ.get("SERVER_HOSTNAME") or "the-agent-company.com"
PORTS = {"rocketchat": 3000, "gitlab": 8929, "plane": 8091, "owncloud": 8092, "api": 2999}
TIMEOUT_S = 45.0
"""Longer than a service may take for a request."""


class OfficeError(Exception):
    """A service refused a request."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"{status}: {said[:300]}")
        self.status = status


class _DoorConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, door: str, host: str) -> None:
        super().__init__(host, timeout=TIMEOUT_S)
        self._door = door

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._door)


class Office:
    """All services of one company, as one user of it; the agent's account unless told."""

    def __init__(
        self,
        *,
        door: str = "",
        is_owner: bool = False,
        user: str = "theagentcompany",
        password: str = "theagentcompany",
        gitlab_token: str = "root-token",
        plane_key: str = "plane_api_83f868352c6f490aba59b869ffdae1cf",
    ) -> None:
        self._door = door
        self._is_owner = is_owner
        self._user = user
        self._password = password
        self._gitlab_token = gitlab_token
        self._plane_key = plane_key
        self._chat_login: dict[str, str] | None = None

    def as_user(self, user: str) -> "Office":
        """The same company for another user; only its owner can be anyone."""
        return Office(door=self._door, is_owner=self._is_owner, user=user)

    def request(
        self,
        service: str,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes, dict[str, str]]:
        """One HTTP request: the status, the body and the headers of the answer."""
        host = f"{HOST}:{PORTS[service]}"
        plain = http.client.HTTPConnection(HOST, PORTS[service], timeout=TIMEOUT_S)
        connection = _DoorConnection(self._door, host) if self._door else plain
        try:
            connection.request(method, path, body or None, {"Host": host, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
        finally:
            connection.close()

    def call(
        self,
        service: str,
        method: str,
        path: str,
        data: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """A request with JSON both ways; `data` is the query of a GET. Raises `OfficeError`."""
        body = b""
        if data is not None and method == "GET":
            path += ("&" if "?" in path else "?") + urlencode(data, doseq=True)
        elif data is not None:
            body = json.dumps(data).encode()
        typed = {"Content-Type": "application/json"} if body else {}
        status, answer, _ = self.request(service, method, path, body, {**typed, **(headers or {})})
        if status >= 400:
            raise OfficeError(status, answer.decode(errors="replace"))
        return json.loads(answer) if answer.strip() else None

    def rocketchat(self, method: str, route: str, data: Any = None) -> Any:
        """A route of RocketChat, such as `channels.list`."""
        if self._is_owner:
            self._chat_login = {"X-Office-User": self._user}
        if self._chat_login is None:
            given = {"user": self._user, "password": self._password}
            logged = self.call("rocketchat", "POST", "/api/v1/login", given)["data"]
            token, user = logged["authToken"], logged["userId"]
            self._chat_login = {"X-Auth-Token": token, "X-User-Id": user}
        return self.call("rocketchat", method, f"/api/v1/{route}", data, self._chat_login)

    def gitlab(self, method: str, route: str, data: Any = None) -> Any:
        """A route of GitLab, such as `projects/root%2Fshop/issues`."""
        return self.call("gitlab", method, f"/api/v4/{route}", data, self._gitlab_login())

    def plane(self, method: str, route: str, data: Any = None) -> Any:
        """A route of Plane's workspace, such as `projects/`."""
        path = f"/api/v1/workspaces/tac/{route}"
        return self.call("plane", method, path, data, self._plane_login())

    # What graders ask most.

    def messages(self, channel: str) -> list[dict[str, Any]]:
        """What people said in a channel or group, oldest first; notes of the system left out."""
        for kind in ("channels", "groups"):
            try:
                found = self.rocketchat(
                    "GET", f"{kind}.messages", {"roomName": channel, "count": 0}
                )
            except OfficeError:
                continue
            return [m for m in reversed(found["messages"]) if "t" not in m]
        return []

    def talk(self, username: str) -> list[dict[str, Any]]:
        """Direct messages between this user and another, oldest first."""
        found = self.rocketchat("GET", "im.history", {"roomId": username, "count": 0})
        return list(reversed(found["messages"]))

    def files(self, folder: str = "") -> list[str]:
        """Paths of all files and folders in an ownCloud folder, itself left out."""
        headers = {**self._basic(), "Depth": "1"}
        path = "/remote.php/webdav/" + quote(folder.strip("/"))
        status, body, _ = self.request("owncloud", "PROPFIND", path, headers=headers)
        if status == 404:
            return []
        if status != 207:
            raise OfficeError(status, body.decode(errors="replace"))
        from urllib.parse import unquote
        from xml.etree import ElementTree

        found = [one.text or "" for one in ElementTree.fromstring(body).iter("{DAV:}href")]
        names = [unquote(one).removeprefix("/remote.php/webdav/").strip("/") for one in found]
        return [name for name in names if name != folder.strip("/")]

    def read_file(self, path: str) -> bytes | None:
        """A file in ownCloud; None where there is none."""
        address = "/remote.php/webdav/" + quote(path.strip("/"))
        status, body, _ = self.request("owncloud", "GET", address, headers=self._basic())
        return body if status == 200 else None

    def dav(self, method: str, path: str, body: bytes = b"", to: str = "") -> bytes:
        """A WebDAV request on a path of ownCloud; `to` is where MOVE and COPY lead."""
        root = f"http://{HOST}:{PORTS['owncloud']}/remote.php/webdav/"
        headers = {**self._basic(), **({"Destination": root + quote(to.strip("/"))} if to else {})}
        address = "/remote.php/webdav/" + quote(path.strip("/"))
        status, answer, _ = self.request("owncloud", method, address, body, headers)
        if status >= 400:
            raise OfficeError(status, answer.decode(errors="replace"))
        return answer

    def page(self, url: str) -> str:
        """The text of a page of a service, links in brackets."""
        from html.parser import HTMLParser
        from urllib.parse import urlsplit

        parts = urlsplit(url if "//" in url else f"http://{url}")
        service = next((name for name, port in PORTS.items() if port == parts.port), "")
        if not service:
            raise OfficeError(404, f"{url} is no page of a service")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        logins = {
            "gitlab": self._gitlab_login,
            "owncloud": self._basic,
            "plane": self._plane_login,
        }
        login = logins[service]() if service in logins else {}
        if service == "rocketchat":
            self.rocketchat("GET", "me")
            login = self._chat_login or {}
        _, body, _ = self.request(service, "GET", path, headers=login)
        words: list[str] = []

        class Reader(HTMLParser):
            def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
                if tag in ("p", "li", "tr", "h1", "h2", "pre", "form"):
                    words.append("\n")
                if tag == "a":
                    words.append(f"[{dict(attrs).get('href')}] ")

            def handle_data(self, data: str) -> None:
                words.append(data)

        Reader().feed(body.decode(errors="replace"))
        return "".join(words).strip()

    def _gitlab_login(self) -> dict[str, str]:
        if self._is_owner:
            is_agent = self._user == "theagentcompany"
            return {"X-Office-User": "root" if is_agent else self._user}
        return {"PRIVATE-TOKEN": self._gitlab_token}

    def _plane_login(self) -> dict[str, str]:
        return {"X-Office-User": self._user} if self._is_owner else {"x-api-key": self._plane_key}

    def _basic(self) -> dict[str, str]:
        if self._is_owner:
            return {"X-Office-User": self._user}
        pair = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}


HELP = """office SERVICE METHOD ROUTE [NAME=VALUE ...]   a request to rocketchat, gitlab or plane
office files list FOLDER                       what an ownCloud folder has
office files get PATH [FILE]                   download a file of ownCloud
office files put FILE PATH                     upload a file to ownCloud
office files mkdir PATH                        make a folder in ownCloud
office files move PATH PATH                    move within ownCloud
office files delete PATH                       delete in ownCloud
office page URL                                the text of a page
NAME=VALUE gives text; NAME:=JSON gives any JSON, such as assignee_ids:=[3]. A path such as /0/id or
/results/name=Shop/id shows only that part of the answer."""


def part(answer: Any, pointer: str) -> Any:
    """A part of an answer: keys, numbers, or `key=value` for the first entry that has it.

    >>> part({"results": [{"name": "A", "id": 1}, {"name": "B", "id": 2}]}, "/results/name=B/id")
    2
    """
    for step in pointer.strip("/").split("/"):
        name, is_sought, value = step.partition("=")
        try:
            if isinstance(answer, list) and is_sought:
                answer = next(one for one in answer if str(one[name]) == value)
            else:
                answer = answer[int(step) if isinstance(answer, list) else step]
        except (LookupError, TypeError, ValueError, StopIteration):
            raise OfficeError(404, f"the answer has no {pointer}") from None
    return answer


def main(words: list[str]) -> int:
    """The command `office`: a request, and what it was answered."""
    office = Office()
    if len(words) >= 3 and words[0] in ("rocketchat", "gitlab", "plane"):
        data: dict[str, Any] = {}
        pointers = [word for word in words[3:] if word.startswith("/")]
        for word in words[3:]:
            if word in pointers:
                continue
            name, _, value = word.partition("=")
            is_json = name.endswith(":")
            data[name.rstrip(":")] = json.loads(value) if is_json else value
        call = {"rocketchat": office.rocketchat, "gitlab": office.gitlab, "plane": office.plane}
        answer = call[words[0]](words[1].upper(), words[2].lstrip("/"), data or None)
        for found in [part(answer, one) for one in pointers] or [answer]:
            is_text = isinstance(found, str) and bool(pointers)
            print(found if is_text else json.dumps(found, indent=1, ensure_ascii=False))
        return 0
    if len(words) >= 3 and words[0] == "files":
        return _files(office, words[1], words[2:])
    if len(words) == 2 and words[0] == "page":
        print(office.page(words[1]))
        return 0
    print(HELP)
    return 0 if words[:1] == ["help"] else 2


def _files(office: Office, action: str, paths: list[str]) -> int:
    if action == "list":
        print("\n".join(office.files(paths[0])))
    elif action == "get":
        content = office.read_file(paths[0])
        if content is None:
            raise OfficeError(404, f"there is no file {paths[0]}")
        name = paths[1] if len(paths) > 1 else paths[0].rpartition("/")[2]
        with open(name, "wb") as file:
            file.write(content)
        print(f"{len(content)} bytes in {name}")
    elif action == "put" and len(paths) == 2:
        with open(paths[0], "rb") as file:
            office.dav("PUT", paths[1], file.read())
    elif action == "mkdir":
        office.dav("MKCOL", paths[0])
    elif action == "move" and len(paths) == 2:
        office.dav("MOVE", paths[0], to=paths[1])
    elif action == "delete":
        office.dav("DELETE", paths[0])
    else:
        print(HELP)
        return 2
    return 0


if __name__ == "__main__":
    import sys

    try:
        sys.exit(main(sys.argv[1:]))
    except (OfficeError, OSError, ValueError, IndexError) as error:
        print(f"office: {error}", file=sys.stderr)
        sys.exit(1)
