"""Writes the pages that are made from the code: coming-from, config reference, config schema.

python scripts/make_docs.py            write them
python scripts/make_docs.py --check    exit code 1 where one is not up to date
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from practicum.core.config import reward_config
from practicum.core.config.agent_config import AgentConfig
from practicum.core.config.algorithm_config import ALGORITHMS, AlgorithmConfig, OwnAlgorithmConfig
from practicum.core.config.config_sections import (
    CheckpointConfig,
    EvalConfig,
    HardwareConfig,
    LoraConfig,
    ModelConfig,
    RolloutConfig,
    WarmStartConfig,
)
from practicum.core.config.curriculum_config import AdaptiveConfig, PhasesConfig
from practicum.core.config.run_config import DataConfig, RunConfig, TrainingStageConfig
from practicum.core.config.sampler_config import SamplerConfig
from practicum.core.word_table import SYSTEMS, WORDS, Kind, Word

DOCS = Path(__file__).parents[1] / "docs"
MADE = "<!-- made by scripts/make_docs.py; change the code it is made from, and run it again -->\n"

HEADINGS: dict[Kind, tuple[str, str]] = {
    "command": ("command", "here"),
    "verb": ("as a verb of `practicum`", "here"),
    "flag": ("flag", "here"),
    "key": ("config key", "here"),
    "class": ("class", "here"),
    "method": ("in Python", "here"),
    "file": ("file", "here"),
}

COMING_FROM = """# Coming from elsewhere

Whoever has read another system's guide types its words. They work here where that is safe, with a
line that says what was understood; the others are answered with the word to type:

```bash
practicum train --config configs/demo.yaml --num_epochs 8 --batch_size 16 --validate-only
```

A script is named as it is there, with `practicum` in place of `python`: `practicum
src/train_lora_rl.py --config_path ...`, `practicum ./scripts/train_lora_rl.sh CONFIG DIR 20 100`.
`practicum monitor --list` is answered with `practicum runs`, and `practicum evaluate_lora --mode
merge` does `practicum export RUN --to merged DIR` where the line says what to merge.

A config file of TAC-RL is translated, with a line for each of its keys. Those of other systems are
answered key by key, and a class name with ours:
`from practicum import GRPOTrainer` says `practicum.train(..., algorithm="grpo")`.
"""


def code(text: str) -> str:
    """Text as code in a table."""
    return f"`{text}`".replace("|", "\\|")


def shown(word: Word) -> str:
    """What is typed here, and why."""
    ours = code(word.ours) if word.ours else "nothing to type"
    return f"{ours}; {word.note}" if word.note else ours


def coming_from() -> str:
    """The page of other systems' words."""
    parts = [MADE, COMING_FROM]
    for system in SYSTEMS:
        parts.append(f"\n## {system}\n")
        for kind, (theirs, ours) in HEADINGS.items():
            rows = [w for w in WORDS if w.system == system and w.kind == kind]
            for verb in dict.fromkeys(w.verb for w in rows):
                of = f" of `practicum {verb}`" if verb else ""
                parts.append(f"\n| {theirs}{of} | {ours} |\n|---|---|\n")
                parts += [f"| {code(w.theirs)} | {shown(w)} |\n" for w in rows if w.verb == verb]
    return "".join(parts)


def default_of(field: FieldInfo) -> str:
    """A field's default as YAML would have it."""
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "see there"
    if isinstance(value, tuple):
        return code("[" + ", ".join(map(str, value)) + "]")
    return code("empty" if value == "" else json.dumps(value))


def kind_of(field: FieldInfo) -> str:
    """What may be written."""
    return " or ".join(dict.fromkeys(_words_of(field.annotation)))


PLAIN = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    type(None): "null",
}


def _words_of(annotation: Any) -> Iterator[str]:
    """The alternatives of a type, in words."""
    if get_origin(annotation) is Literal:
        yield from (code(str(value)) for value in get_args(annotation))
    elif annotation in PLAIN:
        yield PLAIN[annotation]
    elif get_origin(annotation) is tuple:
        yield f"list of {next(_words_of(get_args(annotation)[0]))}"
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "section"
    elif get_args(annotation):
        for part in get_args(annotation):
            if isinstance(part, type) or get_args(part):
                yield from _words_of(part)
    else:
        yield "any"


def rows_of(model: type[BaseModel], leave: frozenset[str] = frozenset()) -> Iterator[str]:
    """A table of a model's fields."""
    yield "| key | value | default | |\n|---|---|---|---|\n"
    for name, field in model.model_fields.items():
        if name not in leave:
            help_text = " ".join((field.description or "").split()).replace("|", "\\|")
            kind = kind_of(field).replace("|", "\\|")
            yield f"| `{name}` | {kind} | {default_of(field)} | {help_text} |\n"


SECTIONS: dict[str, type[BaseModel]] = {
    "model": ModelConfig,
    "lora": LoraConfig,
    "rollouts": RolloutConfig,
    "sampler": SamplerConfig,
    "agent": AgentConfig,
    "reward": reward_config.RewardConfig,
    "data": DataConfig,
    "warm_start": WarmStartConfig,
    "stages": TrainingStageConfig,
    "eval": EvalConfig,
    "checkpoints": CheckpointConfig,
    "hardware": HardwareConfig,
}


def config_reference() -> str:
    """The page of every key of a config."""
    parts = [
        MADE,
        "# Every key of a config\n\n",
        "A run's config is YAML; on the command line a key is written with dots: ",
        "`algorithm.lr=1e-4`. Editors complete and check configs by ",
        "[config.schema.json](config.schema.json): begin a file with\n\n",
        "```text\n# yaml-language-server: $schema=docs/config.schema.json\n```\n\n",
        "An environment's own options are on its page.\n",
        "\n## The whole\n\n",
        *rows_of(RunConfig),
    ]
    for name, model in SECTIONS.items():
        parts += [f"\n## {name}\n\n", *rows_of(model)]
    parts += ["\n## algorithm\n\nWhat every method takes:\n\n", *rows_of(AlgorithmConfig)]
    shared = frozenset(AlgorithmConfig.model_fields) - {"lr"}
    for name, algorithm in ALGORITHMS.items():
        parts += [f"\n### algorithm: {name}\n\n", *rows_of(algorithm, shared)]
    for title, curriculum in (("phases", PhasesConfig), ("adaptive", AdaptiveConfig)):
        parts += [f"\n## curriculum: {title}\n\n", *rows_of(curriculum)]
    parts.append("\n## Components of a reward\n")
    for name, component in sorted(_components().items()):
        parts += [f"\n### {name}\n\n", *rows_of(component, frozenset({"name"}))]
    return "".join(parts)


def _components() -> dict[str, type[BaseModel]]:
    found = {}
    for value in vars(reward_config).values():
        if isinstance(value, type) and issubclass(value, reward_config.ComponentConfig):
            name = value.model_fields["name"].default
            if isinstance(name, str):
                found[name] = value
    return found


OTHER_FORMS = {
    "algorithm": [{"$ref": "#/$defs/OwnAlgorithmConfig"}],
    "env": [
        {
            "type": "array",
            "minItems": 1,
            "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/EnvConfig"}]},
        }
    ],
}
"""What may stand for a section besides a word and its own keys."""


def config_schema() -> str:
    """The JSON schema of a config, for editors: one word may stand for a section."""
    from practicum.core.config.run_config import SHORTHANDS

    schema = RunConfig.model_json_schema()
    for model in (schema, *schema["$defs"].values()):
        for key, given in model.get("properties", {}).items():
            if key in SHORTHANDS or key == "imports":
                kept = {k: v for k, v in given.items() if k not in ("default", "description")}
                told = {k: given[k] for k in ("description",) if k in given}
                others = OTHER_FORMS.get(key, [])
                model["properties"][key] = {"anyOf": [{"type": "string"}, kept, *others], **told}
    schema["$defs"]["OwnAlgorithmConfig"] = OwnAlgorithmConfig.model_json_schema()
    schema["$defs"]["OwnAlgorithmConfig"]["properties"]["name"]["pattern"] = ":"
    components = [one.model_json_schema() for one in _components().values()]
    for one in components:
        schema["$defs"] |= one.pop("$defs", {})
    any_component = {"anyOf": [*components, {"$ref": "#/$defs/ComponentConfig"}]}
    schema["$defs"]["RewardConfig"]["properties"]["components"]["items"] = any_component
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "The config of a Practicum run"
    return json.dumps(schema, indent=1) + "\n"


PAGES = {
    "coming-from.md": coming_from,
    "config-reference.md": config_reference,
    "config.schema.json": config_schema,
}
"""Files below docs/, and what makes them."""


def main() -> int:
    """Write or check every page."""
    stale = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if "--check" in sys.argv and stale:
        print(f"not up to date: {', '.join(stale)}; run: python scripts/make_docs.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
