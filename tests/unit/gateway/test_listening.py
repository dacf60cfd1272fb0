import asyncio
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import UserError
from practicum.gateway.http_listening import address_of, listen, listen_unix


async def test_what_is_written_is_sent_at_once() -> None:
    """Without this, each answer in two writes waits 40 ms for the client's acknowledgement."""
    seen: list[int] = []

    async def talk(reader: Any, writer: Any) -> None:
        connection = writer.get_extra_info("socket")
        seen.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listening = listen("127.0.0.1", 0, "--port")
    async with await asyncio.start_server(talk, sock=listening):
        _, writer = await asyncio.open_connection(*listening.getsockname())
        while not seen:
            await asyncio.sleep(0.005)
        writer.close()
        await writer.wait_closed()
    assert seen[0]


def test_an_address_is_one_a_client_can_type() -> None:
    with listen("127.0.0.1", 0, "--port") as listening:
        port = listening.getsockname()[1]
        assert address_of("127.0.0.1", listening) == f"http://127.0.0.1:{port}"
        assert address_of("::1", listening) == f"http://[::1]:{port}"


def test_an_address_that_is_not_ours_is_one_sentence() -> None:
    with pytest.raises(UserError, match="--port"):
        listen("203.0.113.1", 80, "--port")


def test_a_unix_socket_is_its_owners_alone_and_replaces_one_that_was_left(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "s"
    before = os.umask(0o077)
    try:
        for _ in range(2):
            listen_unix(path).close()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(UserError, match="chmod 700"):
        listen_unix(tmp_path / "s")


def test_a_path_too_long_for_a_socket_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="shorter"):
        listen_unix(tmp_path / ("x" * 200))
