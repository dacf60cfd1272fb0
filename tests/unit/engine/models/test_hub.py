"""The hub's client against a small hub of our own, in a process of its own: the client reads where
the hub is, and whether it may be asked, when it is first imported."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.engine.models.download import check_snapshot, is_hub_id, is_whole_model, silent
from practicum.engine.models.tiny import save_tiny

HUB_ID = "someone/tiny-model"
COMMIT = "c0ffee" + "0" * 34


class Hub(BaseHTTPRequestHandler):
    """Answers what the client asks for one repository."""

    def __init__(self, folder: Path, *args: object) -> None:
        self.folder = folder
        super().__init__(*args)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        file = self.folder / path.rpartition("/")[2]
        if path.startswith(f"/api/models/{HUB_ID}/tree/"):
            self.send(200, json.dumps(self.tree()).encode(), {}, body=body)
        elif path.startswith(f"/api/models/{HUB_ID}"):
            self.send(200, json.dumps(self.description()).encode(), {}, body=body)
        elif path.startswith(f"/{HUB_ID}/resolve/") and file.is_file():
            content = file.read_bytes()
            headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
            self.send(200, content, headers, body=body)
        else:
            self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body=body)

    def tree(self) -> list[dict[str, object]]:
        files = sorted(self.folder.iterdir())
        return [
            {"type": "file", "path": f.name, "size": f.stat().st_size, "oid": "0" * 40}
            for f in files
        ]

    def description(self) -> dict[str, object]:
        files = [*sorted(self.folder.iterdir())]
        listed = [{"rfilename": f.name, "size": f.stat().st_size} for f in files]
        return {"id": HUB_ID, "sha": COMMIT, "siblings": [*listed, {"rfilename": "onnx/big.json"}]}

    def send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    save_tiny(folder)
    return folder


@contextmanager
def serving(hub: type[Hub], model_folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(hub, model_folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def hub_address(model_folder: Path) -> Iterator[str]:
    with serving(Hub, model_folder) as address:
        yield address


SCRIPT = """
import json, sys
from practicum.core.errors import UserError
from practicum.engine.models.loading import pull
stages = []
def note(stage, done, total):
    if stage not in stages: stages.append(stage)
try:
    pulled = pull(sys.argv[1], note)
    print(json.dumps({"folder": pulled.folder, "sha256": pulled.sha256, "stages": stages}))
except UserError as error:
    print(json.dumps({"error": str(error), "stages": stages}))
"""


def pull_in_a_process(hub_id: str, home: Path, address: str, **more: str) -> dict[str, object]:
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    environment |= {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", **more}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, hub_id],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_a_hub_model_is_fetched_once_and_then_found_offline(
    hub_address: str, model_folder: Path, tmp_path: Path
) -> None:
    pulled = pull_in_a_process(HUB_ID, tmp_path, hub_address)
    folder = Path(str(pulled["folder"]))
    weights = (model_folder / "model.safetensors").read_bytes()
    assert (folder / "model.safetensors").read_bytes() == weights
    assert pulled["sha256"] == [hashlib.sha256(weights).hexdigest()]
    assert not (folder / "onnx").exists()
    again = pull_in_a_process(HUB_ID, tmp_path, hub_address, HF_HUB_OFFLINE="1")
    assert again["folder"] == pulled["folder"]
    assert again["stages"] == ["checking model.safetensors"]


class SizelessHub(Hub):
    """Fails where it is asked for sizes."""

    def answer(self, *, body: bool) -> None:
        if "blobs=" in self.path:
            self.send(500, b"{}", {}, body=body)
        else:
            super().answer(body=body)


def test_a_hub_that_does_not_tell_sizes_still_gives_the_model(
    model_folder: Path, tmp_path: Path
) -> None:
    with serving(SizelessHub, model_folder) as address:
        pulled = pull_in_a_process(HUB_ID, tmp_path, address)
    assert (Path(str(pulled["folder"])) / "model.safetensors").is_file()


def test_a_damaged_file_in_the_hubs_cache_is_named(hub_address: str, tmp_path: Path) -> None:
    pulled = pull_in_a_process(HUB_ID, tmp_path, hub_address)
    weights = Path(str(pulled["folder"])) / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.resolve().write_bytes(content)
    with pytest.raises(UserError, match=r"model\.safetensors is damaged .* pull again"):
        check_snapshot(weights.parent, silent)


def test_a_name_the_hub_does_not_have_is_told_apart_from_a_hub_that_does_not_answer(
    hub_address: str, tmp_path: Path
) -> None:
    absent = pull_in_a_process("someone/else", tmp_path, hub_address)
    assert "the model hub has no 'someone/else'" in str(absent["error"])
    assert absent["stages"] == ["asking the model hub"]
    silent = pull_in_a_process(HUB_ID, tmp_path, "http://127.0.0.1:9")
    assert "the model hub does not answer; give a folder" in str(silent["error"])
    offline = pull_in_a_process(HUB_ID, tmp_path, hub_address, HF_HUB_OFFLINE="1")
    assert "the model hub is not asked (HF_HUB_OFFLINE is set)" in str(offline["error"])
    assert "a model that needs no hub: smollm2-135m, qwen2.5-coder" in str(offline["error"])
    assert offline["stages"] == []


def test_a_hub_that_never_answers_does_not_hold_us_up() -> None:
    """The listener accepts and stays silent; without a limit the question would wait for ever."""
    script = (
        "import socket, os\n"
        "listener = socket.create_server(('127.0.0.1', 0))\n"
        "os.environ['HF_ENDPOINT'] = f'http://127.0.0.1:{listener.getsockname()[1]}'\n"
        "from practicum.engine.models.download import is_on_hub\n"
        "print(is_on_hub('someone/tiny-model', timeout_s=0.2))\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.stdout == "None\n", done.stderr


def test_a_folder_is_whole_only_with_config_tokenizer_and_all_weights(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    assert is_whole_model(tmp_path)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        moved = (tmp_path / name).rename(tmp_path / "away")
        assert not is_whole_model(tmp_path)
        moved.rename(tmp_path / name)
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "model.safetensors").rename(tmp_path / "one.safetensors")
    assert not is_whole_model(tmp_path)
    (tmp_path / "two.safetensors").touch()
    assert is_whole_model(tmp_path)


@pytest.mark.parametrize("name", ["./a", "/a/b", "a", "a/b/c", "~/a", "", "a/.."])
def test_paths_and_single_words_are_no_hub_ids(name: str) -> None:
    assert not is_hub_id(name)
