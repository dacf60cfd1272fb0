"""The root file system of machines: where it lies, from what it is built, whose it is."""

import os
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.sandboxes.bubblewrap import rootfs
from practicum.sandboxes.bubblewrap.rootfs import Granted, build_root, cached_root, granted_ids


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(rootfs, "sandbox_cache_root", lambda: folder)
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "dev").mkdir()
    (tree / "usr/bin/hello").write_text("hello" * 2000)
    (tree / "dev/odd").write_text("x")
    path = tmp_path / "root.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(tree, arcname=".")
    return path


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="anyone else unpacks in a user namespace")


@as_root
def test_an_archive_is_unpacked_once_and_then_found(cache: Path, archive: Path) -> None:
    assert cached_root() is None
    root = build_root(lambda line: None, archive)
    assert (root / "usr/bin/hello").read_text() == "hello" * 2000
    assert not (root / "dev/odd").exists(), "devices come from elsewhere"
    assert cached_root() == root
    assert root.is_relative_to(cache)
    assert build_root(pytest.fail) == root, "nothing is built again"


@as_root
def test_an_archive_replaces_what_is_there(cache: Path, archive: Path) -> None:
    root = build_root(lambda line: None, archive)
    (root / "usr/bin/old").write_text("")
    assert build_root(lambda line: None, archive) == root
    assert not (root / "usr/bin/old").exists()


@as_root
def test_half_a_root_is_never_taken_for_one(cache: Path, archive: Path) -> None:
    whole = archive.read_bytes()
    archive.write_bytes(whole[: whole.index(b"hello" * 9) + 2000])
    with pytest.raises(UserError, match="unpacked"):
        build_root(lambda line: None, archive)
    assert cached_root() is None


@as_root
def test_packages_are_asked_for_when_nothing_is_given(
    cache: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    real = subprocess.run

    def run(command: list[str], **options: object) -> object:
        if "mmdebstrap" not in command[0]:
            return real(command, **options)  # type: ignore[call-overload]
        asked.append(command)
        Path(command[-1]).write_bytes(archive.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    said: list[str] = []
    monkeypatch.setattr(rootfs.subprocess, "run", run)
    monkeypatch.setattr(rootfs.shutil, "which", lambda name: f"/usr/bin/{name}")
    root = build_root(said.append)
    assert (root / "usr/bin/hello").exists()
    assert len(said) == len(asked) == 1
    assert "--mode=root" in asked[0]
    assert any(word.startswith("--include=") and "python3" in word for word in asked[0])


@pytest.mark.parametrize(
    ("found", "match"), [(None, "apt-get install"), ("/bin/false", "could not")]
)
def test_without_packages_the_user_is_told_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch, found: str | None, match: str
) -> None:
    monkeypatch.setattr(rootfs.shutil, "which", lambda name: found)
    monkeypatch.setattr(rootfs, "granted_ids", lambda: Granted(uid=0, gid=0))
    with pytest.raises(UserError, match=match):
        build_root(lambda line: None)
    assert cached_root() is None


def test_a_user_without_ids_is_told_how_to_get_them(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rootfs, "granted_ids", lambda: None)
    with pytest.raises(UserError, match="usermod --add-subuids"):
        build_root(lambda line: None)


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    asked: list[tuple[str, str, int]] = []

    def granted(kind: str, name: str, uid: int) -> int:
        asked.append((kind, name, uid))
        return 7

    monkeypatch.setattr(rootfs, "granted_range", granted)
    assert granted_ids() == Granted(uid=7, gid=7)
    assert asked == [("subuid", "54321", 54_321), ("subgid", "54321", 54_321)]


def test_one_grant_without_the_other_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    monkeypatch.setattr(rootfs, "granted_range", lambda kind, *_: 7 if kind == "subuid" else None)
    assert granted_ids() is None


def test_a_folder_of_someone_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UserError, match="someone else"):
        rootfs.own_folder(tmp_path / "link")
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    with pytest.raises(UserError, match="someone else"):
        rootfs.own_folder(tmp_path)


def test_root_and_others_keep_theirs_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    places = []
    for uid in (0, 1, 2):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        places.append(rootfs.sandbox_cache_root())
    assert len(set(places)) == 3


@as_root
def test_two_that_build_at_once_build_one(
    cache: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Path] = []

    def build(into: Path, more: tuple[str, ...]) -> None:
        built.append(into)
        time.sleep(0.3)
        into.write_bytes(archive.read_bytes())

    monkeypatch.setattr(rootfs, "_debootstrap", build)
    with ThreadPoolExecutor(2) as together:
        roots = list(together.map(lambda _: build_root(lambda line: None), range(2)))
    assert roots == [cached_root()] * 2
    assert len(built) == 1
