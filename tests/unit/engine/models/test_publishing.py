"""A folder goes to the hub: what is sent, and what is said where it cannot be."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.engine.models.publishing import Upload, require_hub_id

FILES = {"README.md": "---\nlicense: mit\n---\n", "adapter_config.json": "{}", "sub/a.txt": "a"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "small-adapter"
    for name, text in {**FILES, "export_results.json": '{"lineage": {}}'}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


class Hub(BaseHTTPRequestHandler):
    """The few answers of the hub that an upload of small files asks for; keeps what it was sent."""

    sent: dict[str, list[str]]

    def log_message(self, *words: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        told = self.rfile.read(int(self.headers["Content-Length"]))
        kept = self.sent.setdefault(self.path.partition("?")[0], [])
        kept.append(told.decode())
        home = f"http://{self.headers['Host']}/me/small"
        answer: dict[str, object] = {}
        if self.path.startswith("/api/repos/create"):
            answer = {"url": home, "name": "me/small", "id": "1"}
        elif "/preupload/" in self.path:
            files = json.loads(told)["files"]
            modes = [{"path": f["path"], "uploadMode": "regular"} for f in files]
            answer = {"files": [{**mode, "shouldIgnore": False} for mode in modes]}
        elif "/commit/" in self.path:
            answer = {"commitUrl": f"{home}/commit/1", "commitOid": "1"}
        self._answer(answer)

    def do_GET(self) -> None:
        self._answer({"sha": "0" * 40, "siblings": [], "id": "me/small", "tags": []})

    def _answer(self, answer: object) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def hub() -> Iterator[tuple[str, dict[str, list[str]]]]:
    """An address that answers as the hub does, and what it was sent, by path."""
    Hub.sent = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Hub.sent
    server.shutdown()
    server.server_close()


def push(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "practicum.cli.main", "push", str(folder), *words]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    clean |= {"HF_HOME": str(folder.parent / "hub"), "HF_HUB_DISABLE_XET": "1", **env}
    return subprocess.run(command, capture_output=True, text=True, env=clean, cwd=folder.parent)


@pytest.mark.rare
def test_a_dry_run_lists_files_and_sizes_and_sends_nothing(folder: Path) -> None:
    done = push(folder, "--to", "me/small", "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert told["address"] is None
    assert told["files"] == Upload(folder=folder, hub_id="me/small").files()
    assert told["files"]["sub/a.txt"] == 1
    assert "4 files" in push(folder, "--to", "me/small", "--dry-run").stdout


def test_every_file_is_sent_in_one_commit(
    folder: Path, hub: tuple[str, dict[str, list[str]]]
) -> None:
    address, sent = hub
    done = push(folder, "--to", "me/small", HF_ENDPOINT=address, HF_TOKEN="hf_x")
    assert done.returncode == 0, done.stderr
    [commit] = sent["/api/models/me/small/commit/main"]
    lines = [json.loads(line) for line in commit.splitlines()]
    assert lines[0]["value"]["summary"] == "Practicum export"
    names = {line["value"]["path"] for line in lines if line["key"] == "file"}
    assert names == {*FILES, "export_results.json"}
    assert json.loads(sent["/api/repos/create"][0])["name"] == "small"


@pytest.mark.rare
@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({}, "there is no token for the model hub; type: hf auth login"),
        (
            {"HF_TOKEN": "hf_x", "HF_ENDPOINT": "http://127.0.0.1:9"},
            "sending to the model hub failed",
        ),
    ],
    ids=["no token", "no network"],
)
def test_without_token_or_network_a_sentence_says_how_to_send_it_later(
    folder: Path, env: dict[str, str], told: str
) -> None:
    done = push(folder, "--to", "me/small", **env)
    assert done.returncode == 2
    assert told in done.stderr
    assert f"practicum push {folder} --to me/small" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_name_without_an_owner_is_refused() -> None:
    with pytest.raises(UserError, match="give owner/name"):
        require_hub_id("small")
