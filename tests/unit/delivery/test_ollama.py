"""Modelfiles, hosting profiles, and which of Ollama's commands are called."""

import json
import os
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.delivery import ollama_program
from practicum.delivery.ollama import HostingProfile, Modelfile, choose_profile

PROFILE = choose_profile("auto", cores=4, memory_bytes=8 << 30, has_gpu=False, longest=2048)


def modelfile(**changed: object) -> Modelfile:
    told = {
        "file": "m-Q8_0.gguf",
        "template": "{{ range .Messages }}{{ .Content }}\n{{ end }}",
        "stops": ["<|im_end|>", "<｜end▁of▁sentence｜>"],
        "profile": PROFILE,
        "parameters": {"temperature": 0.0},
        "licence": "Apache-2.0",
        "system": 'Say "x = 3".\nNo more.',
        "origin": "base + runs/demo (abc), Q8_0",
    }
    return Modelfile(**{**told, **changed})  # type: ignore[arg-type]


def test_a_modelfile_says_all_that_ollama_is_told() -> None:
    assert modelfile().write() == (
        "# base + runs/demo (abc), Q8_0\n"
        "FROM ./m-Q8_0.gguf\n"
        'TEMPLATE """{{ range .Messages }}{{ .Content }}\n{{ end }}"""\n'
        'SYSTEM """Say "x = 3".\nNo more."""\n'
        'PARAMETER stop """<|im_end|>"""\n'
        'PARAMETER stop """<｜end▁of▁sentence｜>"""\n'
        "PARAMETER temperature 0\n"
        "PARAMETER num_ctx 2048\n"
        "PARAMETER num_thread 4\n"
        "PARAMETER num_gpu 0\n"
        'LICENSE """Apache-2.0"""\n'
    )


def test_a_text_that_would_end_its_quotes_is_refused() -> None:
    with pytest.raises(UserError, match="cannot hold"):
        modelfile(system='He said """no""".').write()


def test_a_profile_is_kept_as_json_and_as_lines_for_a_shell(tmp_path: Path) -> None:
    PROFILE.write(tmp_path)
    kept = json.loads((tmp_path / "hosting_profile.json").read_text())
    assert (kept["threads"], kept["context"], kept["parallel"], kept["gpu_layers"]) == (
        *(4, 2048),
        *(1, 0),
    )
    lines = dict(line.split("=") for line in (tmp_path / "ollama.env").read_text().splitlines())
    assert lines == kept["environment"]
    assert lines["OLLAMA_CONTEXT_LENGTH"] == "2048"
    assert lines["OLLAMA_NUM_PARALLEL"] == "1"


def test_a_ryzen_keeps_a_core_and_leaves_the_gpu_alone() -> None:
    def many(name: str) -> HostingProfile:
        return choose_profile(name, cores=16, memory_bytes=64 << 30, has_gpu=True, longest=32768)

    ryzen, auto = many("ryzen"), many("auto")
    assert (ryzen.threads, ryzen.gpu_layers, ryzen.parallel) == (15, 0, 4)
    assert (auto.threads, auto.gpu_layers, auto.context) == (16, -1, 8192)


RECORDER = """#!/bin/sh
# Stands in for `ollama`: writes down what it was called with, and answers in the same form.
echo "$@" >> "$OLLAMA_RECORD"
case "$1" in
  create) echo success >&2 ;;
  list) printf 'NAME            ID              SIZE      MODIFIED\\n'
        printf 'small:latest    0123456789ab    145 MB    2 seconds ago\\n' ;;
  run) [ "$2" = silent ] || echo "hello" ;;
  rm) [ "$2" != missing ] || { echo "Error: model 'missing' not found" >&2; exit 1; } ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named `ollama` that shows only which commands we call, and the file they are in."""
    program = tmp_path / "bin" / "ollama"
    program.parent.mkdir()
    program.write_text(RECORDER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    record = tmp_path / "calls"
    monkeypatch.setenv("OLLAMA_RECORD", str(record))
    return record


def exported(folder: Path, *kinds: str) -> Path:
    folder.mkdir(parents=True)
    for kind in kinds or ("",):
        (folder / f"Modelfile{f'-{kind}' if kind else ''}").write_text(modelfile().write())
    lineage = {"base": "org/base", "policy": "runs/demo", "fingerprint": "ab+cd"}
    (folder / "export_results.json").write_text(json.dumps({"lineage": lineage}))
    return folder


def test_create_makes_tries_and_remembers_the_model(calls: Path, tmp_path: Path) -> None:
    folder = exported(tmp_path / "exports" / "small")
    [made] = ollama_program.create(folder, "small")
    assert made == ollama_program.Created(tag="small", digest="0123456789ab", answer="hello")
    assert calls.read_text().splitlines() == [
        f"create small -f {folder / 'Modelfile'}",
        f"run small {ollama_program.PROMPT}",
        "list",
    ]
    origin = ollama_program.origins(tmp_path / "exports")["small:latest"]
    assert (origin["base"], origin["policy"]) == ("org/base", "runs/demo")


def test_each_type_gets_a_tag_and_a_silent_model_is_removed(calls: Path, tmp_path: Path) -> None:
    folder = exported(tmp_path / "small", "Q4_K_M", "Q8_0")
    assert [one.tag for one in ollama_program.create(folder, "small")] == [
        "small:q4_k_m",
        "small:q8_0",
    ]
    with pytest.raises(UserError, match="said nothing when it was tried, and was removed"):
        ollama_program.create(exported(tmp_path / "other"), "silent")
    assert calls.read_text().splitlines()[-1] == "rm silent"


def test_without_a_question_ollama_itself_talks_with_the_user(calls: Path) -> None:
    ollama_program.talk("small")
    assert calls.read_text().splitlines() == ["run small"]


def test_what_ollama_says_against_it_is_told(calls: Path) -> None:
    with pytest.raises(UserError, match=r"ollama rm missing failed .*not found"):
        ollama_program.remove("missing")


def test_without_ollama_the_commands_to_type_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = exported(tmp_path / "small")
    with pytest.raises(UserError, match="not on this machine") as told:
        ollama_program.create(folder, "small")
    assert f"ollama create small -f {folder / 'Modelfile'}" in str(told.value)
    with pytest.raises(UserError, match="no Modelfile"):
        ollama_program.create(tmp_path, "small")
