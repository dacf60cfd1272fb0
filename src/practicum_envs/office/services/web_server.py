"""`WebServer`: HTTP/1.1 for a company's services over sockets that were opened for it.

The listening sockets belong to the network of an episode's sandbox and are handed to this process,
which itself runs outside: from there only HTTP comes in. A second kind of listener, a Unix socket,
is for the owner; there the port in the `Host` header says which service is meant.
"""

import os
import selectors
import shutil
import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from practicum_envs.office.company_state import Company
from practicum_envs.office.services.web import (
    Opening,
    Refused,
    Request,
    Response,
    Service,
    gather,
)
from practicum_envs.office.services.web_socket import WebSocket, acceptance

BODY_LIMIT = 64 << 20
"""Bytes of a request's body; more is refused with 413."""
IDLE_S = 30.0
"""Seconds after which a connection that says nothing is closed."""
CONNECTIONS = 128
"""Connections served together; more of them are closed at once."""
READING = frozenset({"GET", "HEAD", "OPTIONS", "PROPFIND"})
"""Methods that change nothing."""
SMALL_BODY = 1 << 16
"""Bytes of a body that may stay in memory; larger ones are files."""
HOST = "the-agent-company.com"
SOCKET = "/websocket"
HOLD, CUT_OFF = "/api/hold", "/api/cut-off"
"""With these the owner holds a company still, and closes the connections of all others."""


class WebServer:
    """Serves one company until it is told to stop."""

    def __init__(self, company: Company, services: Mapping[int, Service]) -> None:
        self.company = company
        self.services = services
        self._selector = selectors.DefaultSelector()
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._connected: set[socket.socket] = set()
        """Connections that are not the owner's."""

    def listen(self, listener: socket.socket) -> None:
        """Accept connections of one more listening socket."""
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def serve(self, control: socket.socket, on_control: Callable[[], bool]) -> None:
        """Accept until `on_control`, called when `control` can be read, returns False."""
        self._selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is control:
                    if not on_control():
                        return
                    continue
                self._accept(key.fileobj)

    def _accept(self, listener: Any) -> None:
        # The owner is always let in: an agent that holds all other connections open must not be
        # able to keep its grader out.
        is_owner = listener.family == socket.AF_UNIX
        if self.company.is_held and not is_owner:
            self._selector.unregister(listener)
            return
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # the client is gone already
        if not is_owner and not self._slots.acquire(blocking=False):
            connection.close()
            return
        work = (connection, is_owner)
        if not is_owner:
            self._connected.add(connection)
        try:
            threading.Thread(target=self._serve_one, args=work, daemon=True).start()
        except RuntimeError:  # no memory for one more: this client is turned away, nobody else
            self._leave(connection, is_owner)

    def _serve_one(self, connection: socket.socket, is_owner: bool) -> None:
        try:
            connection.settimeout(IDLE_S)
            if not is_owner:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _Connection(connection, self)
        except OSError:
            pass  # the client went away in the middle
        finally:
            self._leave(connection, is_owner)

    def _leave(self, connection: socket.socket, is_owner: bool) -> None:
        self._connected.discard(connection)
        connection.close()
        if not is_owner:
            self._slots.release()

    def hold(self) -> None:
        """Serve nobody but the owner any more; returns when the last other request has ended.

        Those that wait for their turn are refused when it comes, however many they are.
        """
        self.company.is_held = True
        self.cut_off()

    def cut_off(self) -> None:
        """Close all connections but the owner's; returns when the last request has ended."""
        for connection in list(self._connected):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with self.company.lock:
            pass

    def answer(self, port: int, request: Request) -> Response:
        """The response of the service at a port; an error of ours is a 500 and is noted."""
        service = self.services[port]
        try:
            if request.is_owner and request.path in (HOLD, CUT_OFF):
                self.hold() if request.path == HOLD else self.cut_off()
                return Response(status=204)
            with self.company.lock:
                if self.company.is_held and not request.is_owner:
                    raise Refused(503, "Service Unavailable")
                if request.method in READING:
                    return service.answer(request)
                self.company.grow(min(len(request.body), SMALL_BODY))
                if request.method != "DELETE":
                    self.company.require_room(1)
                with self.company.counted(service.name):
                    return service.answer(request)
        except Refused as refused:
            return service.refuse(request, refused)
        except Exception:  # noqa: BLE001 - one bad request must not end the company
            self.company.note_fault(f"{request.method} {request.path}\n{traceback.format_exc()}")
            return service.refuse(request, Refused(500, "Internal Server Error"))


class _Connection(BaseHTTPRequestHandler):
    """One connection, with as many requests as the client makes."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for the head and a small body

    def __init__(self, connection: socket.socket, server: WebServer) -> None:
        self._web = server
        self._is_tcp = connection.family == socket.AF_INET
        super().__init__(connection, ("", 0), server)  # type: ignore[arg-type]

    def version_string(self) -> str:
        return "nginx"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are not logged."""

    def __getattr__(self, name: str) -> Any:
        # Any method, PROPFIND and the like, is answered alike.
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def _answer(self) -> None:
        body = self._body()
        if body is None:
            self.close_connection = True
            self._send(Response(status=413, content_type="text/plain", body=b"too large"))
            self._take_the_rest()
            return
        host = self.headers.get("Host") or HOST
        port = self.connection.getsockname()[1] if self._is_tcp else _port_in(host)
        if port not in self._web.services:
            self._send(Response(status=421, content_type="text/plain", body=b"no such service"))
            return
        parts = urlsplit(self.path if self.path.startswith("/") else "/" + self.path)
        pairs = parse_qsl(parts.query, keep_blank_values=True, errors="replace")
        request = Request(
            method=self.command,
            path=parts.path or "/",
            query=dict(pairs),
            lists=gather([(k, v) for k, v in pairs if k.endswith("[]")]),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
            company=self._web.company,
            is_owner=not self._is_tcp,
            base_url=f"http://{host if ':' in host else f'{host}:{port}'}",
        )
        is_upgrade = self.headers.get("Upgrade", "").lower() == "websocket"
        begin = self._web.services[port].converse
        if is_upgrade and request.path == SOCKET and begin is not None:
            self._converse(begin, port, request)
        else:
            self._send(self._web.answer(port, request))

    def _converse(self, begin: Opening, port: int, request: Request) -> None:
        """Keep the connection as a web socket until either side has enough of it."""
        key, version = (self.headers.get(f"Sec-WebSocket-{name}") for name in ("Key", "Version"))
        if not key or version != "13":
            versions = {"Sec-WebSocket-Version": "13"}
            self._send(Response(status=426, content_type="text/plain", headers=versions))
            return
        self.close_connection = True
        self.send_response(101, "Switching Protocols")
        accepted = {"Upgrade": "websocket", "Connection": "Upgrade"}
        for name, value in {**accepted, "Sec-WebSocket-Accept": acceptance(key)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()
        talk = WebSocket(self.connection, IDLE_S)
        conversation = begin(request, lambda asked: self._web.answer(port, asked), talk.put)
        try:
            talk.run(conversation.hear)
        except Exception:  # noqa: BLE001 - as for a request: it ends this client's talk alone
            self._web.company.note_fault(f"{SOCKET}\n{traceback.format_exc()}")
        finally:
            conversation.close()

    def _body(self) -> bytes | None:
        """The request's body; None where it is too large or malformed."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunks()
        try:
            size = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            return None
        return self.rfile.read(size) if 0 <= size <= BODY_LIMIT else None

    def _chunks(self) -> bytes | None:
        taken = bytearray()
        while True:
            try:
                size = int(self.rfile.readline(64).split(b";")[0], 16)
            except ValueError:
                return None
            if size < 0 or len(taken) + size > BODY_LIMIT:
                return None
            taken += self.rfile.read(size)
            self.rfile.readline(1024)
            if size == 0:
                return bytes(taken)

    def _take_the_rest(self) -> None:
        """Read and drop what a refused client still sends.

        A socket that is closed before would break the client's pipe, and the refusal be lost.
        """
        self.connection.shutdown(socket.SHUT_WR)
        left = BODY_LIMIT
        while left > 0 and (taken := self.connection.recv(SMALL_BODY)):
            left -= len(taken)

    def _send(self, response: Response) -> None:
        size = len(response.body) if response.file is None else os.path.getsize(response.file)
        self.send_response(response.status)
        if response.content_type and response.status not in (204, 304):
            self.send_header("Content-Type", response.content_type)
        for name, value in response.headers.items():
            self.send_header(name, value.replace("\r", " ").replace("\n", " "))
        if response.status != 204:
            self.send_header("Content-Length", str(size))
        self.end_headers()
        if self.command != "HEAD" and response.status not in (204, 304):
            if response.file is None:
                self.wfile.write(response.body)
            else:
                with response.file.open("rb") as file:
                    shutil.copyfileobj(file, self.wfile)
        self.wfile.flush()


def _port_in(host: str) -> int:
    port = host.rpartition(":")[2]
    return int(port) if port.isdigit() else 0
