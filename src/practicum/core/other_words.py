"""Finds a word of another system: what its flag, verb, config key or class is here.

The command line translates flags and verbs by it, and unknown config keys and names are answered
with it. Loaded only when something was not understood.
"""

from collections.abc import Iterable, Mapping

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
    """A verb of another system; scripts may be named with their ending."""
    wanted = verb.removesuffix(".py").removesuffix(".sh").replace("-", "_")
    return next((w for w in of_kind("verb") if w.theirs.replace("-", "_") == wanted), None)


def find_name(name: str) -> Word | None:
    """A class or function of another system, by its bare name."""
    named = (w for kind in ("class", "method") for w in of_kind(kind))
    return next((w for w in named if w.theirs.partition("(")[0].split(".")[-1] == name), None)


def key_hint(path: str, value: object = None) -> str:
    """What a config key of another system is here, in a clause; empty where it is not known.

    >>> key_hint("trainer.total_epochs")
    'here it is steps'
    """
    keys = {w.theirs: w for w in of_kind("key")}
    for word in of_kind("flag"):
        if word.verb == "train" and "=" in word.ours:
            spelled = word.name.removeprefix("--").replace("-", "_")
            keys.setdefault(spelled, word)
    if isinstance(value, Mapping):
        inner = list(_dotted(value, path))
        known = [f"{key} is {_ours(keys[key])}" for key in inner if key in keys]
        if known:
            return f"here {'; '.join(known)}"
    found = keys.get(path) or (keys.get(path.rpartition(".")[2]) if "." in path else None)
    if found is None or found.ours.partition("=")[0] == path:
        return ""
    return f"here it is {_ours(found)}"


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
