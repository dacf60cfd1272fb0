"""Finds a word of another system: what its flag, verb, config key or class is here.

The command line translates flags and verbs by it, and unknown config keys and names are answered
with it. Loaded only when something was not understood.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from practicum.core.word_table import WORDS, Kind, Word, bare


def of_kind(kind: Kind) -> Iterable[Word]:
    """The rows of a kind, in order."""
    return (word for word in WORDS if word.kind == kind)


def find_flag(verb: str, flag: str, value: str = "") -> Word | None:
    """A flag that a verb does not have, as another system has it; by its value where it matters.

    >>> find_flag("train", "--num-epochs").ours
    'steps=10'
    >>> find_flag("eval", "--mode", "merge").ours
    'practicum export RUN --to merged DIR'
    """
    found = [w for w in of_kind("flag") if w.verb == verb and w.name == bare(flag)]
    exact = [w for w in found if w.theirs.split()[1:] == [value]]
    return next(iter(exact or found), None)


def find_verb(verb: str) -> Word | None:
    """A verb of another system; scripts may be named with their folder and ending."""
    wanted = Path(verb).name.removesuffix(".py").removesuffix(".sh").replace("-", "_")
    return next((w for w in of_kind("verb") if w.theirs.replace("-", "_") == wanted), None)


def find_config_row(named: str) -> Word | None:
    """A config file of another system, by its name or that of a folder that it lies in.

    >>> find_config_row("configs/qwen25_32b_instruct/os_interaction/standard.yaml").ours
    'configs/shell_qwen2.5_32b.yaml'
    """
    parts = Path(named).parts
    files = (w for w in of_kind("file") if w.ours.startswith("configs/"))
    return next((w for w in files if Path(w.theirs).name in parts), None)


def find_name(name: str) -> Word | None:
    """A class or function of another system, by its bare name."""
    named = (w for kind in ("class", "method") for w in of_kind(kind))
    return next((w for w in named if w.theirs.partition("(")[0].split(".")[-1] == name), None)


def key_hints(path: str, value: object = None) -> list[str]:
    """What a config key of another system is here, and what those below it are, a clause each.

    >>> key_hints("trainer", {"total_epochs": 3, "val_before_train": True})
    ['trainer.total_epochs is steps', 'trainer.val_before_train is eval.before']
    """
    keys = {w.theirs: w for w in of_kind("key")}
    for word in of_kind("flag"):
        if word.verb == "train" and "=" in word.ours:
            keys.setdefault(word.name.removeprefix("--").replace("-", "_"), word)
    inner = [*_dotted(value, path)] if isinstance(value, Mapping) else []
    known = {key: keys[key] for key in (path, *inner) if key in keys}
    if not known and (last := path.rpartition(".")[2]) in keys:
        known = {path: keys[last]}
    return [
        f"{key} is {_ours(word)}"
        for key, word in known.items()
        if word.ours.partition("=")[0] != key
    ]


def _dotted(values: Mapping[object, object], prefix: str) -> Iterable[str]:
    for key, value in values.items():
        yield f"{prefix}.{key}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}.{key}")


def _ours(word: Word) -> str:
    if not word.ours:
        return f"not needed ({word.note})"
    key = word.ours.partition("=")[0]
    return f"{key} ({word.note})" if word.note else key
