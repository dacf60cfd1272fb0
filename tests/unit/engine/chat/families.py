"""Chat templates that behave like those of the families users train, and what their models write.

Each is short and in words of its own; what it has of its family is the roles, the marks, which
parts of a conversation it shows, and what it refuses.
"""

import importlib.util
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from practicum.core.tool_calls import write_tool_call
from practicum.core.trace import Message, ToolCall
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.models.tiny import CHAT_TEMPLATE, NAMED_TOKENS, _byte_characters

MERGES = ("t h", "i n", "e r", "th e", "Ġ t", "o n", "a l", "Ċ Ċ", "1 2", '{ "', "o k")
"""Pairs that are one token where text is encoded, so that a text has many tokenisations."""

CHATML_END = "{{ '<|im_end|>\n' }}"
CHATML_OPEN = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
HERMES_TOOLS = (
    "{% if tools %}{{ '<|im_start|>system\nTools:' }}{% for t in tools %}"
    "{{ '\n' + (t | tojson) }}{% endfor %}"
    "{{ '\nCall with <tool_call>...</tool_call><|im_end|>\n' }}{% endif %}"
)
HERMES_CALLS = (
    "{% for c in m.tool_calls or [] %}{{ '\n' if m.content or not loop.first else '' }}"
    '{{ \'<tool_call>\n{"name": "\' + c.function.name + \'", "arguments": \' }}'
    "{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}"
)
HERMES_ANSWERS = (
    "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}"
    "{% endif %}{{ '\n<tool_response>\n' + m.content + '\n</tool_response>' }}"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}"
)


def hermes(assistant: str, opening: str = CHATML_OPEN) -> str:
    """ChatML with tools in tags; `assistant` writes what stands before the calls."""
    return (
        HERMES_TOOLS + "{% set ns = namespace(asked=0) %}{% for m in messages %}"
        "{% if m.role == 'user' %}{% set ns.asked = loop.index0 %}{% endif %}{% endfor %}"
        "{% for m in messages %}"
        "{% if m.role == 'assistant' %}{{ '<|im_start|>assistant\n' }}"
        + assistant
        + HERMES_CALLS
        + CHATML_END
        + "{% elif m.role == 'tool' %}"
        + HERMES_ANSWERS
        + "{% else %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
        + CHATML_END
        + "{% endif %}{% endfor %}"
        + opening
    )


QWEN25 = hermes("{{ m.content }}")
THINKS_UNTIL_ASKED = (
    "{% if loop.index0 > ns.asked and (loop.last or m.reasoning_content) %}"
    "{{ '<think>\n' + (m.reasoning_content or '') + '\n</think>\n\n' }}{% endif %}{{ m.content }}"
)
QWEN3 = hermes(THINKS_UNTIL_ASKED)
OPENS_THINKING = CHATML_OPEN.replace("assistant\n", "assistant\n<think>\n")
QWEN3_THINKING = hermes(THINKS_UNTIL_ASKED, OPENS_THINKING)
KEEPS_THINKING = hermes(
    "{{ '<think>\n' + (m.reasoning_content or '') + '\n</think>\n\n' + m.content }}",
    OPENS_THINKING,
)
SMOLLM3 = hermes("{# <think> and </think> stay in the content #}{{ m.content }}")
CODER = QWEN25.replace(
    HERMES_CALLS,
    "{% for c in m.tool_calls or [] %}{{ '\n<tool_call>\n<function=' + c.function.name + '>\n' }}"
    "{% for k, v in c.function.arguments.items() %}{{ '<parameter=' + k + '>\n' }}"
    "{{ v if v is string else v | tojson }}{{ '\n</parameter>\n' }}{% endfor %}"
    "{{ '</function>\n</tool_call>' }}{% endfor %}",
)
LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.tool_calls and m.tool_calls | length > 1 %}"
    "{{ raise_exception('one tool call at a time') }}{% endif %}"
    "{{ '<|start_header_id|>' + ('ipython' if m.role == 'tool' else m.role) }}"
    "{{ '<|end_header_id|>\n\n' }}"
    '{% if loop.first and tools %}{{ \'Answer with {"name": name, "parameters": {}}.\n\' }}'
    "{% for t in tools %}{{ t | tojson }}{% endfor %}{{ '\n\n' }}{% endif %}"
    '{% if m.tool_calls %}{{ \'{"name": "\' + m.tool_calls[0].function.name }}'
    "{{ '\", \"parameters\": ' + (m.tool_calls[0].function.arguments | tojson) + '}' }}"
    "{% else %}{{ m.content | trim }}{% endif %}{{ '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
MISTRAL_IDS = (
    "{% if m.tool_calls or m.role == 'tool' %}{% for i in [m.tool_call_id or m.tool_calls[0].id] %}"
    "{% if i | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif %}"
    "{% endfor %}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% set ns = namespace(asked=0) %}{% for m in messages %}"
    "{% if m.role == 'user' %}{% set ns.asked = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}" + MISTRAL_IDS + "{% if m.role == 'user' %}"
    "{% if tools and loop.index0 == ns.asked %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) }}"
    "{{ '[/AVAILABLE_TOOLS]' }}{% endif %}{{ '[INST] ' + m.content + '[/INST]' }}"
    "{% elif m.role == 'tool' %}{{ '[TOOL_RESULTS] ' + m.content + '[/TOOL_RESULTS]' }}"
    "{% elif m.role == 'system' %}{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}"
    "{% elif m.tool_calls %}{{ '[TOOL_CALLS] [' }}{% for c in m.tool_calls %}"
    '{{ \'{"name": "\' + c.function.name + \'", "arguments": \' }}'
    "{{ c.function.arguments | tojson }}{{ ', \"id\": \"' + c.id + '\"}' }}"
    "{{ ', ' if not loop.last else '' }}{% endfor %}{{ ']' + eos_token }}"
    "{% else %}{{ ' ' + m.content | trim + eos_token }}{% endif %}{% endfor %}"
)
MISTRAL_ARGS = (
    "{{ bos_token }}{% if tools %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) }}"
    "{{ '[/AVAILABLE_TOOLS]' }}{% endif %}{% for m in messages %}"
    "{% if m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{% elif m.role == 'tool' %}{{ '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}"
    "{% elif m.role == 'system' %}{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}"
    "{% else %}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ '[TOOL_CALLS]' + c.function.name + '[ARGS]' + (c.function.arguments | tojson) }}"
    "{% endfor %}{{ eos_token }}{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}"
    "{{ m.content | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
PHI = (
    "{% for m in messages %}{% if m.role == 'system' and m.tools %}"
    "{{ '<|system|>' + m.content + '<|tool|>' + m.tools + '<|/tool|><|end|>' }}"
    "{% else %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
DEEPSEEK_CALLS = (
    "{{ '<｜tool▁calls▁begin｜>' }}{% for c in m.tool_calls %}"
    "{{ '<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + c.function.name + '\n```json\n' }}"
    "{{ c.function.arguments + '\n```<｜tool▁call▁end｜>' }}{% endfor %}"
    "{{ '<｜tool▁calls▁end｜>' }}"
)
DEEPSEEK_R1 = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}"
    "{% elif m.role == 'user' %}{{ '<｜User｜>' + m.content }}"
    "{% elif m.role == 'assistant' %}"
    "{{ '<｜Assistant｜>' + m.content.split('</think>')[-1] }}"
    "{% if m.tool_calls %}" + DEEPSEEK_CALLS + "{% endif %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\n' }}{% endif %}"
)
DEEPSEEK_V3 = (
    "{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% set ns = namespace(tool=false) %}{% for m in messages %}"
    "{% if m.role == 'system' %}{{ m.content }}"
    "{% elif m.role == 'user' %}{% set ns.tool = false %}{{ '<｜User｜>' + m.content }}"
    "{% elif m.role == 'tool' %}{% set ns.tool = true %}"
    "{{ '<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>' }}"
    "{% else %}{{ '' if ns.tool else '<｜Assistant｜>' }}{{ m.content }}"
    "{% if m.tool_calls %}" + DEEPSEEK_CALLS + "{% endif %}{{ eos_token }}"
    "{% set ns.tool = false %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt and not ns.tool %}{{ '<｜Assistant｜>' }}{% endif %}"
)
PLAIN = (
    "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)

MISTRAL_TOKENS = (
    "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[ARGS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
)  # fmt: skip
DEEPSEEK_TOKENS = (
    "<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
)  # fmt: skip
LLAMA_TOKENS = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>")
PHI_TOKENS = (
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
    "<|tool_call|>",
    "<|/tool_call|>",
)
THINKING_TOKENS = ("<think>", "</think>", "<tool_call>", "</tool_call>")


def as_json(call: ToolCall, arguments: str = "arguments", **more: str) -> str:
    written = {"name": call.name, arguments: dict(call.arguments), **more}
    return json.dumps(written, ensure_ascii=False)


def tagged(calls: Sequence[ToolCall]) -> str:
    return "\n".join(write_tool_call(call) for call in calls)


def bare(calls: Sequence[ToolCall]) -> str:
    return as_json(calls[0], "parameters")


def mistral_list(calls: Sequence[ToolCall]) -> str:
    return f"[TOOL_CALLS] [{', '.join(as_json(call, id='abcdefgh1') for call in calls)}]"


def mistral_named(calls: Sequence[ToolCall]) -> str:
    return "".join(
        f"[TOOL_CALLS]{call.name}[ARGS]{json.dumps(dict(call.arguments))}" for call in calls
    )


def phi(calls: Sequence[ToolCall]) -> str:
    return f"<|tool_call|>[{', '.join(map(as_json, calls))}]<|/tool_call|>"


def deepseek(calls: Sequence[ToolCall]) -> str:
    each = (
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call.name}\n"
        f"```json\n{json.dumps(dict(call.arguments))}\n```<｜tool▁call▁end｜>"
        for call in calls
    )
    return f"<｜tool▁calls▁begin｜>{''.join(each)}<｜tool▁calls▁end｜>"


def coder(calls: Sequence[ToolCall]) -> str:
    def value(given: Any) -> str:
        return given if isinstance(given, str) else json.dumps(given)

    return "\n".join(
        f"<tool_call>\n<function={call.name}>\n"
        + "".join(
            f"<parameter={name}>\n{value(given)}\n</parameter>\n"
            for name, given in call.arguments.items()
        )
        + "</function>\n</tool_call>"
        for call in calls
    )


def python_fence(calls: Sequence[ToolCall]) -> str:
    lines = (
        f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"
        for call in calls
    )
    return "```tool_code\n" + "\n".join(lines) + "\n```"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A template, and how a model that knows it writes."""

    template: str
    tokens: tuple[str, ...] = ()
    calls: Callable[[Sequence[ToolCall]], str] = tagged
    thinks: str = ""
    """Empty: never. `kept`: the template shows it for ever. `asked`: until the user asks again.
    `dropped`: never again."""
    opens_thinking: bool = False
    shows_empty_thinking: bool = False
    """Whether thinking of nothing is shown like any other, and not in the last turn only."""
    single_call: bool = False
    says_with_calls: bool = True
    """Whether the template shows content beside calls."""
    moves_tools: bool = False
    """Whether tools stand before the user's last message."""

    def text(self, message: Message) -> str:
        """What the model samples for a message, its end left out."""
        thought = ""
        if self.thinks and (message.reasoning or self.opens_thinking):
            opening = "" if self.opens_thinking else "<think>\n"
            thought = f"{opening}{message.reasoning}\n</think>\n\n"
        calls = self.calls(message.tool_calls) if message.tool_calls else ""
        between = "\n" if message.content and calls else ""
        return thought + message.content + between + calls


FAMILIES: dict[str, Family] = {
    "chatml": Family(template=CHAT_TEMPLATE),
    "plain": Family(template=PLAIN),
    "qwen2.5": Family(template=QWEN25),
    "qwen3": Family(template=QWEN3, thinks="asked"),
    "qwen3-tokens": Family(template=QWEN3, thinks="asked", tokens=THINKING_TOKENS),
    "qwen3-thinking": Family(template=QWEN3_THINKING, thinks="asked", opens_thinking=True),
    "qwen3-coder": Family(template=CODER, calls=coder),
    "keeps-thinking": Family(template=KEEPS_THINKING, thinks="kept", opens_thinking=True),
    "smollm3": Family(template=SMOLLM3, thinks="kept"),
    "llama3": Family(
        template=LLAMA3, tokens=LLAMA_TOKENS, calls=bare, single_call=True, says_with_calls=False
    ),
    "mistral": Family(
        template=MISTRAL,
        tokens=MISTRAL_TOKENS,
        calls=mistral_list,
        says_with_calls=False,
        moves_tools=True,
    ),
    "mistral-args": Family(template=MISTRAL_ARGS, tokens=MISTRAL_TOKENS, calls=mistral_named),
    "gemma": Family(
        template=GEMMA, tokens=("<start_of_turn>", "<end_of_turn>"), calls=python_fence
    ),
    "phi": Family(template=PHI, tokens=PHI_TOKENS, calls=phi),
    "deepseek-r1": Family(
        template=DEEPSEEK_R1,
        tokens=DEEPSEEK_TOKENS,
        calls=deepseek,
        thinks="dropped",
        opens_thinking=True,
    ),
    "deepseek-v3": Family(template=DEEPSEEK_V3, tokens=DEEPSEEK_TOKENS, calls=deepseek),
}


PUBLIC_SPECIAL = re.compile(r"<\|[A-Za-z_/]+\|>|<｜[^｜]+｜>|<(?:start|end)_of_turn>")


def public_families() -> dict[str, Family]:
    """The same families with the templates that their models are published with.

    TRL brings the texts; without it there are none, and only the ones above are tested.
    """
    found = importlib.util.find_spec("trl")
    if found is None or not found.submodule_search_locations:
        return {}
    folder = Path(found.submodule_search_locations[0]) / "chat_templates"
    families: dict[str, Family] = {}
    for name, behaves_like in PUBLISHED.items():
        text = (folder / f"{name}.jinja").read_text(encoding="utf-8")
        special = dict.fromkeys(PUBLIC_SPECIAL.findall(text))
        tokens = tuple(token for token in special if token not in NAMED_TOKENS)
        families[f"published-{name}"] = replace(behaves_like, template=text, tokens=tokens)
    return families


PUBLISHED = {
    "qwen2_5": FAMILIES["qwen2.5"],
    "qwen3": FAMILIES["qwen3"],
    "qwen3_instruct_2507": FAMILIES["qwen2.5"],
    "qwen3_5_think": replace(FAMILIES["qwen3-thinking"], calls=coder, shows_empty_thinking=True),
    "llama3": FAMILIES["chatml"],
    "llama3_1": FAMILIES["llama3"],
    "llama3_2": FAMILIES["llama3"],
    "gemma": FAMILIES["gemma"],
    "gemma3": FAMILIES["gemma"],
    "phi3_5": FAMILIES["chatml"],
    "deepseekv3": FAMILIES["deepseek-r1"],
    "deepseek_r1_distill": FAMILIES["deepseek-r1"],
}
"""Names of published templates, and which of the above they behave like."""

PUBLIC = public_families()
ALL_FAMILIES = FAMILIES | PUBLIC


def tokenizer_of(family: Family) -> Any:
    """A tokenizer with merges: a text that was sampled need not be how it would be encoded."""
    characters = _byte_characters()
    vocabulary = {character: byte for byte, character in enumerate(characters)}
    merges = [tuple(pair.split(" ")) for pair in MERGES]
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    tokens = (*NAMED_TOKENS, *family.tokens)
    backend.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in tokens])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|bos|>",
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        chat_template=family.template,
        clean_up_tokenization_spaces=False,
    )


def codec_of(name: str) -> TemplateCodec:
    return TemplateCodec(tokenizer_of(ALL_FAMILIES[name]), model=name)


def sampled(codec: TemplateCodec, text: str, dice: random.Random) -> tuple[int, ...]:
    """Tokens of a text as a model might sample them: cut at places of chance."""
    tokenizer: Any = codec._tokenizer
    specials = [t.content for t in tokenizer.added_tokens_decoder.values()]
    ids: list[int] = []
    for piece in re.split(f"({'|'.join(map(re.escape, specials))})", text):
        if piece in specials:
            ids.append(tokenizer.convert_tokens_to_ids(piece))
            continue
        while piece:
            size = dice.randint(1, 12)
            ids += tokenizer.encode(piece[:size], add_special_tokens=False)
            piece = piece[size:]
    return tuple(ids)
