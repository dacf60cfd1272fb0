"""`RunNotes`: what people write about a run or a study, in `notes.json` of its folder."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from practicum.core.errors import UserError
from practicum.store.durable import write_file

FILE = "notes.json"
MOST_CHARACTERS = 10_000
MOST_TAGS = 20
TAG = re.compile(r"[\w.+-]{1,40}")


@dataclass(frozen=True, slots=True)
class RunNotes:
    """A text and tags."""

    text: str = ""
    tags: tuple[str, ...] = ()


def read_notes(folder: Path) -> RunNotes:
    """What is written about the run of a folder; a file that is damaged says so in its place."""
    try:
        with (folder / FILE).open(encoding="utf-8") as file:
            found = json.loads(file.read(8 * MOST_CHARACTERS))
        return RunNotes(str(found["text"]), tuple(map(str, found["tags"])))
    except FileNotFoundError:
        return RunNotes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        return RunNotes(f"{folder / FILE} cannot be read: {error}")


def write_notes(folder: Path, text: str, tags: str) -> RunNotes:
    """Replace what is written about a run; tags are words between spaces or commas."""
    words = tuple(dict.fromkeys(word for word in re.split(r"[\s,]+", tags) if word))
    wrong = [word for word in words if not TAG.fullmatch(word)]
    if wrong or len(words) > MOST_TAGS:
        raise UserError(
            f"the tags {', '.join(wrong or words)[:80]!r} cannot be kept; give up to {MOST_TAGS} "
            "words of letters, digits, '.', '+', '_' and '-', up to 40 signs each"
        )
    if len(text) > MOST_CHARACTERS:
        raise UserError(f"the note has {len(text)} characters; write up to {MOST_CHARACTERS}")
    notes = RunNotes(text.strip(), words)
    kept = json.dumps({"text": notes.text, "tags": list(words)}, ensure_ascii=False)
    write_file(folder / FILE, kept.encode("utf-8", "replace") + b"\n")
    return notes
