"""A chat template, which may be a stranger's, is first tried in a process with bounds.

Templates run in Jinja's sandbox: they reach no file and no Python. But `{{ "x" * 10**10 }}` takes
all memory and nested loops never end, and nothing in the sandbox stops that. So a template of a
model that is not one of the known ones writes short conversations in a process of its own first,
which has little time and memory. This file is that process's program too.
"""

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

MOST_CHARACTERS = 1 << 20
"""Of a template; the longest known have some 50,000."""
MOST_OUTPUT = 1 << 22
"""Characters that a short conversation may become."""
SECONDS = 2
"""Of processor time; a usual template takes milliseconds."""
MEMORY_BYTES = 1 << 30
PATIENCE_S = 120
"""For a machine that is too busy to give those seconds."""
TOO_MUCH = 3
"""Exit code for a template that writes too much, or takes too much memory."""

TOOL = {"type": "function", "function": {"name": "look", "description": "", "parameters": {}}}
CALL = {"type": "function", "id": "call00000", "function": {"name": "look", "arguments": {"a": 1}}}
CONVERSATIONS: tuple[list[dict[str, Any]], ...] = (
    [{"role": "user", "content": "?"}],
    [{"role": "system", "content": "?"}, {"role": "user", "content": "?"}],
    [{"role": r, "content": "?"} for r in ("user", "assistant", "user", "assistant", "user")],
    [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "!", "tool_call_id": "call00000"},
    ],
)


@lru_cache(maxsize=64)
def try_template(source: str, model: str) -> None:
    """Raise `UserError` where a template takes more than any conversation could need."""
    from practicum.core.errors import UserError

    told = f"the chat template of {model}"
    advice = "choose another model, or write model.chat_template=chatml"
    if len(source) > MOST_CHARACTERS:
        raise UserError(f"{told} has {len(source):,} characters, which none needs; {advice}")
    try:
        ran = subprocess.run(
            [sys.executable, "-I", str(Path(__file__))],
            input=source.encode(errors="replace"),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{told} did not write a short conversation in time; {advice}") from None
    if ran.returncode == TOO_MUCH or ran.returncode < 0:
        raise UserError(
            f"{told} does not write a short conversation within {SECONDS} seconds, "
            f"{MEMORY_BYTES >> 30} GiB and {MOST_OUTPUT:,} characters; {advice}"
        )


def _try_all(source: str) -> None:
    """Write each conversation; a template that refuses one is for its reader to judge."""
    environment = _environment()
    try:
        template = environment.from_string(source)
    except Exception:  # noqa: BLE001 - loading it for real says what is wrong
        return
    for messages in CONVERSATIONS:
        for tools in (None, [TOOL]):
            written = 0
            try:
                for piece in template.generate(
                    messages=messages,
                    tools=tools,
                    documents=None,
                    add_generation_prompt=True,
                    bos_token="<s>",
                    eos_token="</s>",
                ):
                    written += len(piece)
                    if written > MOST_OUTPUT:
                        sys.exit(TOO_MUCH)
            except MemoryError:
                sys.exit(TOO_MUCH)
            except Exception:  # noqa: BLE001 - it may refuse a conversation in any way
                continue


def _environment() -> Any:
    """What `transformers` gives a template, as far as it can be written in."""
    from jinja2 import ext, nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(ext.Extension):
        tags = {"generation"}  # noqa: RUF012 - as in its base class

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    def refuse(message: str) -> None:
        raise ValueError(message)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols]
    )
    made.filters["tojson"] = lambda x, indent=None, **_: json.dumps(x, indent=indent)
    made.globals |= {"raise_exception": refuse, "strftime_now": lambda form: form}
    return made


def _main() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _try_all(sys.stdin.read())


if __name__ == "__main__":
    _main()
