"""The process of the companies: forks one child for each, which serves it until its owner lets go.

The owner, a trainer or a server, has threads and much memory and so cannot fork. It starts this
process once and asks for companies over a socket. With each it passes a control socket, over which
more listening sockets may follow; when that closes, for whatever reason, the child removes the
company and ends. As root, a child is an unprivileged user before it reads its first request.
"""

import array
import encodings.idna  # noqa: F401 - without root a child may not read Python's own files
import json
import mimetypes
import os
import resource
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from practicum_envs.office.colleagues import Colleagues
from practicum_envs.office.company_state import Company
from practicum_envs.office.folders import remove_folder
from practicum_envs.office.services.all_services import SERVICES
from practicum_envs.office.services.web_server import WebServer

MESSAGE_LIMIT = 65_536
MOST_FDS = 16
FIRST_USER = 0x6F000000
"""First host user of a company's process, above all that distributions assign."""
ADDRESS_BYTES = 2 << 30
THREAD_BYTES = 512 << 10
DOOR = "door"
"""The Unix socket in a company's folder at which its owner reaches all services."""


def serve_owner(owner: socket.socket) -> None:
    """Answer until the owner closes the socket."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped by the kernel
    number = 0
    while True:
        message, fds, _, _ = socket.recv_fds(owner, MESSAGE_LIMIT, MOST_FDS)
        if not message:
            return
        number += 1
        asked = json.loads(message)
        pid = os.fork()
        if pid == 0:
            try:
                owner.close()
                run_company(asked, [socket.socket(fileno=fd) for fd in fds], number)
            finally:  # whatever happened: the parent's cleanup is not the child's
                os._exit(1)
        for fd in fds:
            os.close(fd)
        owner.send(json.dumps({"pid": pid}).encode())


def run_company(asked: dict[str, Any], sockets: list[socket.socket], number: int) -> None:
    """In the child: serve one company; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.umask(0o022)
        folder = Path(asked["folder"])
        company = Company(Path(asked["snapshot"]), folder)
        limit_memory()
        control, *listeners = sockets
        door = open_door(folder)
        if os.geteuid() == 0:
            give_up_root(folder, FIRST_USER + number % 65_536)
        company.on_message = Colleagues(company, asked.get("endpoint")).on_message
        services = {service.port: service for service in SERVICES}
        for port, stands_for in asked["ports"].items():
            services[int(port)] = services[stands_for]
        server = WebServer(company, services)
        for listener in (door, *listeners):
            server.listen(listener)
        control.send(b"ready")
        server.serve(control, lambda: take_listeners(control, server))
        code = 0
    except Exception as error:  # noqa: BLE001 - said to the owner, who sees only the end
        print(f"a company ended: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    try:
        remove_folder(asked["folder"])
    finally:
        os._exit(code)


def open_door(folder: Path) -> socket.socket:
    """The owner's way in; nobody else may enter the folder."""
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(folder / DOOR))
    door.listen(128)
    return door


def take_listeners(control: socket.socket, server: WebServer) -> bool:
    """More listening sockets from the owner; False when it let go."""
    try:
        message, fds, _, _ = socket.recv_fds(control, 16, MOST_FDS)
    except OSError:
        return False
    for fd in fds:
        server.listen(socket.socket(fileno=fd))
    return bool(message)


def give_up_root(folder: Path, user: int) -> None:
    """Become a user that owns the company's folders and nothing else."""
    for place, _, _ in os.walk(folder):
        os.chown(place, user, user)
    os.chown(folder / DOOR, user, user)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def limit_memory() -> None:
    """So that a company cannot take the host's memory, whatever is asked of it."""
    threading.stack_size(THREAD_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Arguments: the file descriptor of the owner's socket, and the folder of all its companies.

    The folder is removed here, since an owner that was killed removes nothing.
    """
    mimetypes.init()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, which closes the socket
    try:
        serve_owner(socket.socket(fileno=int(sys.argv[1])))
    finally:
        remove_folder(sys.argv[2])


def send_sockets(channel: socket.socket, message: bytes, sockets: list[socket.socket]) -> None:
    """Send a message with sockets that the receiver gets too."""
    fds = array.array("i", [one.fileno() for one in sockets])
    channel.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])


if __name__ == "__main__":
    main()
