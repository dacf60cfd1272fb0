"""What WebDAV says of files besides their content: times, entity tags, checksums."""

import base64
import hashlib
import re
import shutil
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum_envs.office.build_company import build_company
from practicum_envs.office.cloud_model import Cloud
from practicum_envs.office.company_seed import CompanySeed
from practicum_envs.office.company_state import Company
from practicum_envs.office.office_client import Office
from practicum_envs.office.services.web import Refused
from practicum_envs.office.tests.serving_companies import SEED

NAME = "theagentcompany"
LOGIN = {"Authorization": "Basic " + base64.b64encode(f"{NAME}:{NAME}".encode()).decode()}
LONG_AGO = "1600000000"
WRITTEN = "Sun, 13 Sep 2020 12:26:40 GMT"


def dav(
    office: Office, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, str, dict[str, str]]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    address = "/remote.php/webdav/" + path
    status, answer, found = office.request("owncloud", method, address, body, {**LOGIN, **given})
    return status, answer.decode(), found


def etag(office: Office, path: str) -> str:
    _, listing, _ = dav(office, "PROPFIND", path, Depth="0")
    [found] = re.findall("<d:getetag>(.*?)</d:getetag>", listing)
    return str(found).replace("&quot;", '"')


def modified(office: Office, path: str) -> str:
    _, listing, _ = dav(office, "PROPFIND", path, Depth="0")
    [found] = re.findall("<d:getlastmodified>(.*?)</d:getlastmodified>", listing)
    return str(found)


def test_a_client_says_when_its_file_was_changed(office: Office) -> None:
    status, _, headers = dav(office, "PUT", "a.txt", b"one", X_OC_Mtime=LONG_AGO)
    assert (status, headers["x-oc-mtime"]) == (201, "accepted")
    assert modified(office, "a.txt") == WRITTEN
    assert dav(office, "GET", "a.txt")[2]["last-modified"] == WRITTEN
    dav(office, "PUT", "a.txt", b"two")
    assert modified(office, "a.txt") != WRITTEN
    for wrong in ("soon", "-5", "99999999999"):
        assert dav(office, "PUT", "a.txt", b"three", X_OC_Mtime=wrong)[0] == 400
    assert office.read_file("a.txt") == b"two"


def test_the_time_of_what_is_there_is_set_and_nothing_else_changes(office: Office) -> None:
    told = f"<d:lastmodified>{LONG_AGO}</d:lastmodified>"
    update = (
        '<d:propertyupdate xmlns:d="DAV:"><d:set><d:prop>{}</d:prop></d:set></d:propertyupdate>'
    )
    for path in ("Documents/logo.png", "Documents"):
        status, answer, _ = dav(office, "PROPPATCH", path, update.format(told).encode())
        assert (status, "200 OK" in answer) == (207, True)
        assert modified(office, path) == WRITTEN
    assert office.read_file("Documents/logo.png") == b"\x89PNG"
    status, answer, _ = dav(
        *(office, "PROPPATCH", "Documents", update.format("<x:color>red</x:color>").encode())
    )
    assert "403 Forbidden" in answer
    assert "(color) are not part of this company" in answer


def test_the_next_company_has_the_times_of_the_seed(office: Office) -> None:
    assert "Mar 2026" in modified(office, "Documents")
    before = modified(office, "Documents/logo.png")
    dav(office, "PUT", "Documents/logo.png", b"other", X_OC_Mtime=LONG_AGO)
    office.request("api", "POST", "/api/reset-owncloud")
    assert modified(office, "Documents/logo.png") == before
    assert office.read_file("Documents/logo.png") == b"\x89PNG"


def test_checksums_are_told_and_kept_to(office: Office) -> None:
    content = b"item,price\nnut,3\n"
    sha1 = hashlib.sha1(content).hexdigest()
    for right in (f"SHA1:{sha1}", f"MD5:{hashlib.md5(content).hexdigest().upper()}"):
        assert dav(office, "PUT", "b.csv", content, OC_Checksum=right)[0] in (201, 204)
    for wrong in (f"SHA1:{'0' * 40}", "CRC:1"):
        status, answer, _ = dav(office, "PUT", "b.csv", b"damaged", OC_Checksum=wrong)
        assert (status, "checksum" in answer or "CRC" in answer) == (400, True)
    assert dav(office, "GET", "b.csv")[2]["oc-checksum"] == f"SHA1:{sha1}"
    asks = b'<d:propfind xmlns:d="DAV:"><d:prop><oc:checksums/></d:prop></d:propfind>'
    _, listing, _ = dav(office, "PROPFIND", "b.csv", asks, Depth="0")
    assert f"SHA1:{sha1} MD5:" in listing
    assert f"ADLER32:{zlib.adler32(content):08x}" in listing
    _, listing, _ = dav(office, "PROPFIND", "b.csv", Depth="0")
    assert "checksum" not in listing


def test_who_saw_another_version_changes_nothing(office: Office) -> None:
    dav(office, "PUT", "c.txt", b"one")
    seen = etag(office, "c.txt")
    assert dav(office, "GET", "c.txt", If_None_Match=seen)[0] == 304
    assert dav(office, "PUT", "c.txt", b"two", If_Match=seen)[0] == 204
    assert dav(office, "PUT", "c.txt", b"three", If_Match=seen)[0] == 412
    assert dav(office, "DELETE", "c.txt", If_Match=seen)[0] == 412
    assert dav(office, "PUT", "c.txt", b"three", If_None_Match="*")[0] == 412
    assert dav(office, "PUT", "new.txt", b"", If_Match="*")[0] == 412
    assert office.read_file("c.txt") == b"two"


def test_tags_change_with_content_of_the_same_size_and_age(office: Office) -> None:
    seen = set()
    for content in (b"one", b"two", b"six", b"one"):
        dav(office, "PUT", "d.txt", content, X_OC_Mtime=LONG_AGO)
        seen |= {etag(office, "d.txt"), etag(office, "")}
    assert len(seen) == 8


PATHS = st.sampled_from(["a", "b", "Documents/a", "Documents/Data Analysis/prices.csv"])
FOLDERS = ("", "Documents", "Documents/Data Analysis")
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.sampled_from([b"one", b"two"])),
    st.tuples(st.sampled_from(["move", "copy"]), PATHS, PATHS),
    st.tuples(st.just("delete"), PATHS, st.none()),
)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("snapshots") / "snapshot"
    build_company(CompanySeed(files=SEED.files), place)
    return place


@given(st.lists(STEPS, max_size=12))
@settings(deadline=None)
def test_every_change_gives_new_tags_to_the_file_and_to_all_folders_above(
    snapshot: Path, steps: list[tuple[str, str, object]]
) -> None:
    folder = tempfile.mkdtemp(dir=snapshot.parent)
    cloud = Cloud(Company(snapshot, Path(folder)))
    tags: dict[tuple[str, str], set[str]] = {}

    def look() -> dict[str, str]:
        places = {path: cloud.place(NAME, path) for path in (*FOLDERS, "a", "b", "Documents/a")}
        return {path: cloud.etag(one) for path, one in places.items() if one.file.exists()}

    try:
        for what, path, other in steps:
            before = look()
            source = cloud.place(NAME, path)
            changed = [str(other) if what == "copy" else path]
            try:
                if what == "write":
                    assert isinstance(other, bytes)
                    cloud.write(source, other, 1.0)
                elif what == "delete":
                    cloud.delete(source)
                else:
                    target = cloud.place(NAME, str(other))
                    changed.append(str(other))
                    cloud.carry(source, target, is_move=what == "move", overwrites=True)
            except Refused:
                assert look() == before
                continue
            after = look()
            for one in changed:
                for above in FOLDERS:
                    if one.startswith(f"{above}/") or not above:
                        assert after[above] != before[above]
                        assert after[above] not in tags.get((above, ""), ())
            written = cloud.place(NAME, path).file
            if what == "write" and path in after:
                kept = tags.setdefault((path, "file"), set())
                assert after[path] not in kept
                kept.add(after[path])
            for above in FOLDERS:
                tags.setdefault((above, ""), set()).add(before[above])
            assert what != "write" or written.stat().st_mtime == 1.0
    finally:
        shutil.rmtree(folder)
