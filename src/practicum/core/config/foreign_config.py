"""A config file of TAC-RL as one of ours, with a line for what each of its keys became."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from practicum.core.config.run_config import RunConfig

SECTIONS = ("training", "task_phases", "openhands", "monitoring", "environment", "requirements")
"""Sections that only its files have."""

BASE: Mapping[str, Any] = {
    "env": {
        "name": "office",
        "level": [1, 2, 3, 4],
        "heldout": "kinds",
        "protocol": "tools",
        "rounds": 12,
        "output_chars": 2000,
        "command_timeout_s": 30,
    },
    "steps": 150,
    "curriculum": {"name": "phases", "phases": [[1], [2], [3], [4]], "threshold": 0.6},
    "rollouts": {"max_tokens": 700, "max_turns": 12},
    "warm_start": "none",
    "algorithm": {"name": "dr_grpo"},
}
"""What such a file leaves open: work in the office, as configs/office_qwen2.5_7b.yaml trains it.
TheAgentCompany itself is a test set."""

OFFICE = "configs/office_qwen2.5_7b.yaml"
PHASES = ("warmup", "intermediate", "advanced", "expert")
WEIGHTS_NOTE = "there are no 8-bit or 4-bit weights; bfloat16 takes half of float32"


class Became(NamedTuple):
    """What a key became: our keys with values, or none, and why."""

    keys: Mapping[str, Any]
    note: str = ""
    is_missing: bool = False
    """Whether it asks for what there is not, rather than for what needs no key."""


def is_foreign(values: Mapping[str, Any]) -> bool:
    """Whether a file is one of TAC-RL."""
    model = values.get("model")
    has_path = isinstance(model, Mapping) and "base_model_path" in model
    return has_path or any(isinstance(values.get(key), Mapping) for key in SECTIONS)


def in_our_keys(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    r"""The config, and a line for each key of the file.

    >>> config, lines = in_our_keys({"training": {"batch_size": 2, "max_hours": 8}})
    >>> config["rollouts"]["tasks_per_step"]
    2
    >>> print("\n".join(lines[:2]))
    training.batch_size: 2 is rollouts.tasks_per_step=2
    training.max_hours: 8 has no counterpart and is left out
    """
    config: dict[str, Any] = copy.deepcopy(dict(BASE))
    lines = []
    for path, value in _leaves(values):
        became = _became(path, value, values)
        for key, ours in became.keys.items():
            _set(config, key.split("."), ours)
        lines.append(_line(path, value, became))
    lines.append(f"what it leaves open is as in {OFFICE}, so it acts in env=office")
    return config, lines


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and path not in WHOLE:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value


def _line(path: str, value: Any, became: Became) -> str:
    said = f"{path}: {_brief(value)}"
    note = f" ({became.note})" if became.note else ""
    if became.keys:
        ours = " ".join(f"{key}={_brief(one)}" for key, one in became.keys.items())
        return f"{said} is {ours}{note}"
    missing = "has no counterpart and is left out"
    return f"{said} {missing if became.is_missing else 'is not needed'}{note}"


def _brief(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_brief, value))}]"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _became(path: str, value: Any, values: Mapping[str, Any]) -> Became:
    if path in RULES:
        return RULES[path](value, values)
    from practicum.core.word_table import WORDS  # long, and seldom needed

    word = next((w for w in WORDS if w.kind == "key" and w.theirs == path), None)
    if word is not None:
        return Became({word.ours: value} if word.ours else {}, word.note)
    return Became({path: value}) if _is_ours(path) else Became({}, is_missing=True)


def _is_ours(path: str) -> bool:
    """Whether a key is one of ours as well; its value is checked with all others."""
    section, _, key = path.partition(".")
    field = RunConfig.model_fields.get(section)
    inner = field.annotation if field else None
    fields = getattr(inner, "model_fields", None)
    return field is not None and (fields is None or not key or key.partition(".")[0] in fields)


def _nothing(note: str) -> Callable[[Any, Mapping[str, Any]], Became]:
    return lambda value, values: Became({}, note)


def _model_name(value: Any, values: Mapping[str, Any]) -> Became:
    if "base_model_path" in values["model"]:
        return Became({}, "model.base_model_path names the model")
    return Became({"model.name": value})


def _dtype(value: Any, values: Mapping[str, Any]) -> Became:
    name = str(value).removeprefix("torch.")
    if name in ("float16", "half"):
        return Became({"model.dtype": "bfloat16"}, "float16 is not used")
    return Became({"model.dtype": name})


def _smaller_weights(value: Any, values: Mapping[str, Any]) -> Became:
    if not value:
        return Became({}, "it is always so")
    has_type = "torch_dtype" in values["model"]
    return Became({} if has_type else {"model.dtype": "bfloat16"}, WEIGHTS_NOTE, is_missing=True)


def _device(value: Any, values: Mapping[str, Any]) -> Became:
    return Became({"model.device": "cuda" if value == "cuda:0" else str(value)})


def _algorithm(value: Any, values: Mapping[str, Any]) -> Became:
    return Became({"algorithm.name": str(value).lower()})


def _group_size(value: Any, values: Mapping[str, Any]) -> Became:
    if value == 1:
        return Became({}, "the episodes of a group are compared, so it has 8")
    return Became({"rollouts.group_size": value})


def _phase(value: Any, values: Mapping[str, Any]) -> Became:
    if value not in PHASES:
        return Became({}, f"phases are {', '.join(PHASES)}; it begins with the first")
    first = PHASES.index(value) + 1
    return Became({"curriculum.phases": [[level] for level in range(first, len(PHASES) + 1)]})


def _turns(value: Any, values: Mapping[str, Any]) -> Became:
    return Became({"rollouts.max_turns": value, "env.rounds": value})


def _hostname(value: Any, values: Mapping[str, Any]) -> Became:
    return Became(
        {},
        "the office is in this process; the benchmark's servers: practicum eval RUN --env "
        f"agent_company env.server_hostname={value}",
    )


def _cuda(value: Any, values: Mapping[str, Any]) -> Became:
    return Became({"model.device": "cuda"} if value else {}, "" if value else "any device will do")


WHOLE = ("task_phases",)
"""Sections that are answered as one."""

RULES: Mapping[str, Callable[[Any, Mapping[str, Any]], Became]] = {
    "model.name": _model_name,
    "model.torch_dtype": _dtype,
    "model.load_in_8bit": _smaller_weights,
    "model.load_in_4bit": _smaller_weights,
    "model.device": _device,
    "training.algorithm": _algorithm,
    "training.max_episodes_per_task": _group_size,
    "training.reward_scale": _nothing("episodes of a group are compared, whatever the scale"),
    "training.current_phase": _phase,
    "training.tasks_per_phase": _nothing("a phase ends when it is mastered: curriculum.threshold"),
    "training.success_threshold": lambda value, values: Became({"curriculum.threshold": value}),
    "training.max_parallel_tasks": _nothing("the episodes of a step act at once"),
    "training.checkpoint_dir": _nothing("a run's folder has all"),
    "training.log_dir": _nothing("a run's folder has all"),
    "task_phases": _nothing("the phases are the office's levels 1 to 4: curriculum.phases"),
    "openhands.max_iterations": _turns,
    "openhands.enable_auto_lint": _nothing("OpenHands itself acts with agent=openhands"),
    "environment.server_hostname": _hostname,
    "monitoring.project_name": _nothing("a run has its own folder, in runs_dir"),
    "requirements.cuda_required": _cuda,
}
"""What is not just another name for a key of ours."""


def _set(config: dict[str, Any], path: list[str], value: Any) -> None:
    at = config
    for word in path[:-1]:
        inner = at.setdefault(word, {})
        if not isinstance(inner, dict):
            inner = at[word] = {}
        at = inner
    at[path[-1]] = value
