"""The program `ollama`, where it is installed: makes, lists, removes and runs models."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from practicum.core.checkpoint import EXPORT_RESULTS
from practicum.core.errors import UserError
from practicum.delivery.ollama import MODELFILE

PROMPT = "Answer with one word: hello."
TIMEOUT_S = 600.0
"""Creating copies the file; a first answer loads the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A model that Ollama has, and what it was made from."""

    tag: str
    digest: str
    """As `ollama list` shows it."""
    answer: str
    """What it said when it was tried."""


def modelfiles(folder: Path) -> list[Path]:
    """The Modelfiles of an export.

    Raises:
        UserError: there is none.
    """
    found = sorted(folder.glob(f"{MODELFILE}*"))
    if not found:
        raise UserError(
            f"there is no Modelfile in {str(folder)!r}; type: practicum export RUN {folder} "
            "--to ollama"
        )
    return found


def commands(folder: Path, tag: str) -> list[str]:
    """What to type where Ollama is."""
    files = modelfiles(folder)
    tags = [tag if len(files) == 1 else f"{tag}:{_type_of(file)}" for file in files]
    lines = [f"ollama create {t} -f {f}" for t, f in zip(tags, files, strict=True)]
    return [*lines, f'ollama run {tags[0]} "{PROMPT}"']


def _type_of(modelfile: Path) -> str:
    """The type that stands in a Modelfile's name, as a tag."""
    return modelfile.name.removeprefix(f"{MODELFILE}-").lower()


def create(folder: Path, tag: str) -> list[Created]:
    """Make a model of each Modelfile, try it, and write down what became of the export.

    Raises:
        UserError: Ollama is not here or refuses, or a model says nothing.
    """
    files = modelfiles(folder)
    if shutil.which("ollama") is None:
        raise UserError(
            "ollama is not on this machine; install it from https://ollama.com, then type: "
            + " && ".join(commands(folder, tag))
        )
    made = []
    for file in files:
        name = tag if len(files) == 1 else f"{tag}:{_type_of(file)}"
        _ollama("create", name, "-f", str(file))
        answer = run(name, PROMPT)
        if not answer:
            remove(name)
            raise UserError(f"{name!r} said nothing when it was tried, and was removed from Ollama")
        made.append(Created(tag=name, digest=listed().get(_full(name), ""), answer=answer))
    _remember(folder, made)
    return made


def listed() -> dict[str, str]:
    """Tags that Ollama has, and their digests."""
    rows = [line.split() for line in _ollama("list").splitlines()[1:]]
    return {row[0]: row[1] for row in rows if len(row) > 1}


def remove(tag: str) -> None:
    """Remove a model from Ollama."""
    _ollama("rm", tag)


def run(tag: str, prompt: str) -> str:
    """What a model answers."""
    return _ollama("run", tag, prompt).strip()


def talk(tag: str) -> None:
    """Let the user talk with a model, as `ollama run` does by itself."""
    ended = subprocess.call([_program(), "run", tag])
    if ended:
        raise UserError(f"ollama run {tag} ended with {ended}; ollama list shows what there is")


def origins(exports: Path) -> dict[str, dict[str, str]]:
    """Of each tag made from an export below a folder, where it comes from."""
    found = {}
    for file in sorted(exports.glob(f"**/{EXPORT_RESULTS}")):
        kept = json.loads(file.read_text())
        for model in kept.get("ollama", ()):
            found[_full(model["tag"])] = {**kept["lineage"], "folder": str(file.parent)}
    return found


def _full(tag: str) -> str:
    """A tag as `ollama list` shows it."""
    return tag if ":" in tag else f"{tag}:latest"


def _remember(folder: Path, made: list[Created]) -> None:
    file = folder / EXPORT_RESULTS
    kept = json.loads(file.read_text()) if file.is_file() else {"lineage": {}}
    kept["ollama"] = [{"tag": one.tag, "digest": one.digest} for one in made]
    file.write_text(json.dumps(kept, indent=2) + "\n")


def _program() -> str:
    program = shutil.which("ollama")
    if program is None:
        raise UserError("ollama is not on this machine; install it from https://ollama.com")
    return program


def _ollama(*words: str) -> str:
    program = _program()
    try:
        done = subprocess.run(
            [program, *words], capture_output=True, text=True, timeout=TIMEOUT_S, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"ollama {words[0]} has not ended after {TIMEOUT_S:.0f} s; look at what `ollama serve` "
            "says"
        ) from None
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise UserError(f"ollama {' '.join(words[:2])} failed ({told}); is `ollama serve` running?")
    return done.stdout
