"""What a policy puts on the host's disk: counted however it comes, removed whatever it is."""

import gzip
import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from hashlib import sha1
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from practicum_envs.office import company_state
from practicum_envs.office.build_company import build_company
from practicum_envs.office.companies import Companies
from practicum_envs.office.company_state import Company
from practicum_envs.office.folders import disk_bytes, remove_folder
from practicum_envs.office.office_client import OfficeError
from practicum_envs.office.services.all_services import SERVICES
from practicum_envs.office.services.web import Request, Response
from practicum_envs.office.services.web_server import WebServer
from practicum_envs.office.tests.serving_companies import SEED

LIMIT = 1 << 20
SLACK = 128 << 10
"""What git may need beside the objects of one push or commit."""


class Desk:
    """A company in this process, asked without a network."""

    def __init__(self, snapshot: Path, folder: Path) -> None:
        self.company = Company(snapshot, folder)
        self._web = WebServer(self.company, {one.port: one for one in SERVICES})
        self._ports = {one.name: one.port for one in SERVICES}
        self._number = 0
        self.before = disk_bytes(folder)

    def ask(
        self, service: str, method: str, path: str, body: bytes = b"", **headers: str
    ) -> Response:
        user = "root" if service == "gitlab" else "theagentcompany"
        plain, _, query = path.partition("?")
        request = Request(
            method=method,
            path=plain,
            query=dict(pair.split("=", 1) for pair in query.split("&") if pair),
            lists={},
            headers={
                "x-office-user": user,
                **{name.replace("_", "-"): value for name, value in headers.items()},
            },
            body=body,
            company=self.company,
            is_owner=True,
            base_url="http://the-agent-company.com",
        )
        return self._web.answer(self._ports[service], request)

    def call(self, method: str, path: str, fields: dict[str, Any]) -> Response:
        body = json.dumps(fields).encode()
        return self.ask("gitlab", method, f"/api/v4/{path}", body, content_type="application/json")

    def name(self) -> str:
        self._number += 1
        return f"new-{self._number}"

    @property
    def added(self) -> int:
        return disk_bytes(self.company.folder) - self.before


def put(desk: Desk, size: int) -> Response:
    return desk.ask("owncloud", "PUT", f"/remote.php/webdav/{desk.name()}", b"x" * size)


def copy_file(desk: Desk, size: int) -> Response:
    desk.ask("owncloud", "PUT", "/remote.php/webdav/one", b"x" * size)
    return carry(desk, "COPY", "one")


def copy_folder(desk: Desk, size: int) -> Response:
    desk.ask("owncloud", "MKCOL", "/remote.php/webdav/folder")
    desk.ask("owncloud", "PUT", "/remote.php/webdav/folder/one", b"x" * size)
    return carry(desk, "COPY", "folder")


def copy_all_into_one(desk: Desk, size: int) -> Response:
    carry(desk, "COPY", "Documents")
    return carry(desk, "COPY", "folder")


def move(desk: Desk, size: int) -> Response:
    return carry(desk, "MOVE", "folder")


def carry(desk: Desk, method: str, source: str) -> Response:
    to = f"http://h/remote.php/webdav/{desk.name()}"
    return desk.ask("owncloud", method, f"/remote.php/webdav/{source}", destination=to)


def make_folders(desk: Desk, size: int) -> Response:
    for _ in range(20):
        answer = desk.ask("owncloud", "MKCOL", f"/remote.php/webdav/{desk.name()}")
    return answer


def form(content: bytes) -> tuple[bytes, str]:
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    return head + content + b"\r\n--b--", "multipart/form-data; boundary=b"


def upload_to_chat(desk: Desk, size: int) -> Response:
    room = next(iter(desk.company.part("rocketchat")["rooms"]))
    body, kind = form(b"x" * size)
    return desk.ask("rocketchat", "POST", f"/api/v1/rooms.upload/{room}", body, content_type=kind)


def upload_by_page(desk: Desk, size: int) -> Response:
    body, kind = form(b"x" * size)
    return desk.ask("owncloud", "POST", "/index.php/apps/files", body, content_type=kind)


def commit(desk: Desk, size: int) -> Response:
    content = os.urandom(size // 2).hex()
    fields = {"branch": "main", "content": content, "commit_message": "x"}
    return desk.call("POST", f"projects/root%2Fshop/repository/files/{desk.name()}", fields)


def fork(desk: Desk, size: int) -> Response:
    return desk.call("POST", "projects/root%2Fshop/fork", {"path": desk.name(), "name": "x"})


def branches(desk: Desk, size: int) -> Response:
    for _ in range(5):
        fields = {"branch": desk.name(), "ref": "main"}
        answer = desk.call("POST", "projects/root%2Fshop/repository/branches", fields)
    return answer


def packed_push(desk: Desk, size: int) -> Response:
    """A push whose body is a thousandth of what it leaves: objects stored as they are, zipped."""
    blob = os.urandom(16) + b"\0" * size
    head = bytearray([0x30 | (len(blob) & 15) | 0x80])
    left = len(blob) >> 4
    while left > 127:
        head.append(left & 127 | 128)
        left >>= 7
    head.append(left)
    objects = b"PACK" + pack(">II", 2, 1) + bytes(head) + zlib.compress(blob, 0)
    name = sha1(b"blob %d\0" % len(blob) + blob).hexdigest()
    line = f"{'0' * 40} {name} refs/tags/{desk.name()}\0report-status\n".encode()
    body = b"%04x" % (len(line) + 4) + line + b"0000" + objects + sha1(objects).digest()
    return desk.ask(
        "gitlab",
        "POST",
        "/root/shop.git/git-receive-pack",
        gzip.compress(body),
        content_encoding="gzip",
        content_type="application/x-git-receive-pack-request",
    )


WAYS: tuple[Callable[[Desk, int], Response], ...] = (
    *(put, copy_file, copy_folder, copy_all_into_one, move, make_folders, upload_to_chat),
    *(upload_by_page, commit, fork, branches, packed_push),
)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("snapshots") / "one"
    build_company(SEED, place)
    return place


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company_state, "DISK_BYTES", LIMIT)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_way_of_writing_goes_beyond_the_limit(
    small: None, snapshot: Path, tmp_path: Path, way: Callable[[Desk, int], Response]
) -> None:
    desk = Desk(snapshot, tmp_path / "company")
    assert desk.added == 0
    way(desk, 1000)
    assert way is move or desk.added > 0
    for _ in range(12):
        way(desk, 150_000)
        assert desk.added <= LIMIT + SLACK


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(st.sampled_from(WAYS), st.integers(0, 300_000)), max_size=12))
def test_no_order_of_ways_goes_beyond_the_limit(
    small: None,
    snapshot: Path,
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[Callable[[Desk, int], Response], int]],
) -> None:
    desk = Desk(snapshot, tmp_path_factory.mktemp("company") / "one")
    for way, size in steps:
        way(desk, size)
        assert desk.added <= LIMIT + SLACK


def test_a_push_of_more_references_than_anyone_has_is_refused(
    snapshot: Path, tmp_path: Path
) -> None:
    desk = Desk(snapshot, tmp_path / "company")
    line = b"0" * 40 + b" " + b"1" * 40 + b" refs/heads/" + b"n" * 9
    line = b"%04x" % (len(line) + 4) + line
    for body in (line * 2000, gzip.compress(line * 2000)):
        encoding = "gzip" if body[:2] == b"\x1f\x8b" else ""
        path = "/root/shop.git/git-receive-pack"
        answer = desk.ask("gitlab", "POST", path, body, content_encoding=encoding)
        assert answer.status == 413


def test_faults_without_end_fill_no_disk(snapshot: Path, tmp_path: Path) -> None:
    company = Company(snapshot, tmp_path / "company")
    for _ in range(40):
        company.note_fault("x" * 100_000)
    assert disk_bytes(tmp_path) < disk_bytes(snapshot) + (2 << 20)


# Depth.


def nest(folder: Path, depth: int) -> None:
    """Folders in folders, deeper than a path can say, of whoever owns the one they are in."""
    owner = folder.parent.stat().st_uid
    folder.mkdir()
    os.chown(folder, owner, -1)
    place = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("aaaa", dir_fd=place)
        os.chown("aaaa", owner, -1, dir_fd=place)
        inner = os.open("aaaa", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=place))
    os.close(place)


@pytest.mark.parametrize("depth", [0, 1, 1200])
def test_a_folder_of_any_depth_is_removed_and_links_are_not_followed(
    tmp_path: Path, depth: int
) -> None:
    (tmp_path / "kept").write_text("x")
    nest(tmp_path / "deep", depth)
    (tmp_path / "deep" / "link").symlink_to(tmp_path)
    remove_folder(tmp_path / "deep")
    assert os.listdir(tmp_path) == ["kept"]


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), max_size=20))
def test_any_tree_is_removed(
    tmp_path_factory: pytest.TempPathFactory, paths: list[list[str]]
) -> None:
    top = tmp_path_factory.mktemp("trees") / "top"
    top.mkdir()
    for parts in paths:
        place = top.joinpath(*parts)
        if not any(one.is_file() for one in (place, *place.parents)):
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                place.write_text("x")
    remove_folder(top)
    assert not top.exists()


def test_what_is_not_there_is_removed_without_a_word(tmp_path: Path) -> None:
    remove_folder(tmp_path / "nothing")
    remove_folder(__file__)
    assert Path(__file__).exists()


def test_a_name_of_a_branch_makes_no_deep_folders(own_companies: Companies) -> None:
    company = own_companies.open_now(SEED)
    fields = {"branch": "a/" * 1200 + "a", "ref": "main"}
    with pytest.raises(OfficeError, match="Branch name is invalid"):
        company.office.gitlab("POST", "projects/root%2Fshop/repository/branches", fields)
    company.close()


@pytest.fixture
def own_companies() -> Iterator[Companies]:
    found = Companies()
    yield found
    found.close()


def test_a_company_of_deep_folders_ends_alone(own_companies: Companies) -> None:
    deep, other = own_companies.open_now(SEED), own_companies.open_now(SEED)
    folder = deep._folder
    nest(folder / "deep", 1200)
    deep.close()
    until = time.monotonic() + 60
    while any(folder.iterdir()) and time.monotonic() < until:
        threading.Event().wait(0.01)
    assert not any(folder.iterdir())
    assert other.is_alive
    assert other.office.read_file("Documents/logo.png") == b"\x89PNG"
    another = own_companies.open_now(SEED)
    assert another.is_alive
    another.close()
    other.close()


def test_closing_removes_deep_folders_that_a_killed_company_left(own_companies: Companies) -> None:
    deep = own_companies.open_now(SEED)
    root = own_companies._root
    assert root is not None
    nest(deep._folder / "deep", 1200)
    os.kill(deep.pid, 9)
    deep.close()
    own_companies.close()
    assert not root.exists()


def test_a_path_is_no_deeper_than_a_hundred_folders(snapshot: Path, tmp_path: Path) -> None:
    desk = Desk(snapshot, tmp_path / "company")
    statuses = []
    path = "/remote.php/webdav"
    for _ in range(101):
        path += "/a"
        statuses.append(desk.ask("owncloud", "MKCOL", path).status)
    assert statuses == [201] * 100 + [400]
    desk.ask("owncloud", "MKCOL", "/remote.php/webdav/b")
    into = "http://h/remote.php/webdav/b/a"
    for method in ("COPY", "MOVE"):
        answer = desk.ask("owncloud", method, "/remote.php/webdav/a", destination=into)
        assert answer.status == 400
