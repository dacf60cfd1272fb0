"""Command lines written for other systems: translated where that is safe, else answered."""

import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from practicum.core.errors import UserError

if TYPE_CHECKING:
    from practicum.core.word_table import Word


def in_our_words(given: Sequence[str], verbs: Sequence[str]) -> list[str]:
    """The same in the words of Practicum, with a line on standard error for what was changed.

    Args:
        given: What was typed after `practicum`.
        verbs: The verbs there are; these are never translated.

    Raises:
        UserError: For a word that has no counterpart here; it says what to type.
    """
    words = list(given)
    if not words or words[0].startswith("-"):
        return words
    if words[0] not in verbs or _is_their_monitor(words):
        words = [_verb(*words[:2]), *_spelled_out(Path(words[0]), words[1:])]
    if not any(word.startswith("--") for word in words):
        return words
    if words[0] == "tasks":
        words = _with_number(words)
    if words[0] == "train" and dict(_given(words)).get("--resume") == "":
        raise UserError(
            "--resume names the run to go on with; type: practicum train --resume latest"
        )
    return _merging(words) or [words[0], *_flags(words[0], words[1:])]


def _is_their_monitor(words: Sequence[str]) -> bool:
    """Whether `monitor` is another system's verb, by a flag of its that ours does not have."""
    if words[0] != "monitor":
        return False
    from practicum.core.other_words import find_flag

    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    return any(flag == "--once" or find_flag("watch", flag) is not None for flag in flags)


SOME = "20"
"""Tasks that `--check` looks at where no number is given."""


def _with_number(words: Sequence[str]) -> list[str]:
    """The words of `practicum tasks` with a number after `--check`."""
    found: list[str] = []
    for word, after in zip(words, [*words[1:], ""], strict=True):
        is_bare = word == "--check" and (not after or after.startswith("--") or "=" in after)
        found += [word, SOME] if is_bare else [word]
    return found


OWN_WORDS = {
    "check": "practicum tasks ENV --check 20",
    "create": "practicum new NAME",
    "init": "practicum new NAME",
    "scaffold": "practicum new NAME",
}
"""Verbs of no other system that users try."""


def _verb(typed: str, env: str = "ENV") -> str:
    from practicum.core.other_words import find_verb

    found = find_verb(typed)
    ours = found.ours if found else OWN_WORDS.get(typed, Path(typed).name.removesuffix(".py"))
    if ours.startswith("practicum "):
        ours = ours if env.startswith("-") else ours.replace("ENV", env)
        raise UserError(f"{typed!r} is no command here; type: {ours}")
    if found:
        _say(typed, ours)
    return ours


POSITIONS = {
    "train_lora_rl": ("--config_path", "--output_dir", "--num_epochs", "--samples_per_epoch"),
    "evaluate_lora": ("--config_path", "--lora_weights_path", "--mode", "--num_samples"),
}
"""What the shell scripts of these names take by position."""
DEFAULTS = {
    "train_lora_rl": ("--config_path=configs/shell_ppo.yaml", "--output_dir=./lora_checkpoints")
}
"""What such a script takes where it is not said."""


def _spelled_out(script: Path, words: Sequence[str]) -> list[str]:
    """The arguments of a script as flags, with its defaults."""
    name = script.stem.replace("-", "_")
    plain = list(takewhile(lambda word: not word.startswith("-") and "=" not in word, words))
    flags = POSITIONS.get(name, ()) if script.suffix == ".sh" else ()
    named = [f"{flag}={word}" for flag, word in zip(flags, plain, strict=False)]
    found = [*named, *words[len(named) :]]
    given = dict(_given(found))
    if (plain and not named) or given.keys() & {"--resume", "--resume-from", "--config", "--name"}:
        return found
    usual = DEFAULTS.get(name, ())
    return [*(one for one in usual if not dict(_given([one])).keys() & given.keys()), *found]


def _given(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each flag, however it is spelled, and the word after it or after its sign of equality."""
    from practicum.core.word_table import bare

    for word, after in zip(words, [*words, ""][1:], strict=True):
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            yield bare(flag), value if equals or after.startswith("--") else after


def _merging(words: Sequence[str]) -> list[str] | None:
    """The line for an evaluation that merges, or of what was merged; None if it is neither."""
    given = dict(_given(words))
    weights, merged = given.get("--lora-weights-path"), given.get("--merged-model-path")
    if words[0] != "eval":
        return None
    if given.get("--mode") in ("merge", "both") and weights:
        line = ["export", weights, *filter(None, [merged]), "--to", "merged"]
    elif "--use-merged-model" in given and merged:
        line = ["eval", merged, "--env", given.get("--env", "shell")]
    else:
        return None
    line += ["--n", given["--num-samples"]] if given.get("--num-samples") else []
    _say("that line", "practicum " + " ".join(line))
    return line


def _flags(verb: str, words: Sequence[str]) -> list[str]:
    from practicum.core.other_words import find_flag

    first: list[str] = []
    rest: list[str] = []
    remaining = iter(words)
    for word in remaining:
        flag, equals, value = word.partition("=")
        found = find_flag(verb, flag) if word.startswith("--") else None
        if found is None:
            rest.append(word)
            continue
        takes_value = len(found.theirs.split()) > 1
        if takes_value and not equals:
            value = next(remaining, "")
        found = find_flag(verb, flag, value) or found
        ours = _translated(found, flag, value)
        _say(f"{flag} {value}".rstrip(), ours)
        is_position = found.ours == _example(found) and takes_value
        if is_position:
            first.append(ours)
        else:
            rest += [ours] if "=" in ours else ours.split()
    return [*first, *rest]


def _translated(word: "Word", flag: str, value: str) -> str:
    if word.ours.startswith("practicum "):
        why = f" ({word.note})" if word.note else ""
        raise UserError(f"{flag} is no option here; type: {word.ours}{why}")
    example = _example(word)
    if example and not value:
        raise UserError(f"{flag} needs a value; here it is {word.ours}")
    if example.startswith("./") and not any(one in value for one in "/\\"):
        value = f"./{value}"  # a folder of this name, and not a run's name
    if example.startswith("configs/"):
        value = _config(value)
    return word.ours.replace(example, value) if example else word.ours


def _config(named: str) -> str:
    """Our config in place of another system's, unless a file of that name is here."""
    from practicum.core.other_words import find_config_row

    row = None if Path(named).exists() else find_config_row(named)
    if row is None:
        return named
    if row.note:
        print(f"practicum: {row.ours}: {row.note}", file=sys.stderr)
    return row.ours


def _example(word: "Word") -> str:
    return word.theirs.partition(" ")[2]


def _say(typed: str, ours: str) -> None:
    print(f"practicum: {typed} is {ours or 'not needed'} here", file=sys.stderr)
