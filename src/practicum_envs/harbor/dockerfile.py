"""What a task's Dockerfile says, instruction by instruction, with its variables filled in."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
VARIABLE = re.compile(r"\\?\$(?:(\w+)|\{(\w+)(?::([-+])([^}]*))?\})")
FLAG = re.compile(r"--([\w-]+)(?:=(\S+))?\s+")


class UnreadableDockerfile(ValueError):
    """A Dockerfile that says something which is not understood here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction: `RUN`, `COPY` and so on."""

    kind: str
    words: str
    """What follows it, lines joined and variables filled in (in `RUN` the shell does that)."""
    flags: tuple[tuple[str, str], ...] = ()
    """Such as `chown` of a COPY."""
    documents: tuple[tuple[str, str], ...] = ()
    """Here-documents by their marks."""

    def argv(self) -> list[str]:
        """The words of the JSON form, or as a shell splits them."""
        if self.words.startswith("["):
            try:
                return [str(word) for word in json.loads(self.words)]
            except ValueError:
                pass
        try:
            return shlex.split(self.words)
        except ValueError as error:
            raise UnreadableDockerfile(f"{self.kind} {self.words[:80]}: {error}") from None

    def script(self) -> str:
        """What bash runs for a `RUN`."""
        if self.words.startswith("["):
            return shlex.join(self.argv())
        documents = "".join(f"\n{text}{mark}" for mark, text in self.documents)
        first = self.documents[0][0] if self.documents else ""
        if self.documents and HEREDOC.fullmatch(self.words):
            return dict(self.documents)[first]  # RUN <<END: the document is the script
        return f"{self.words}{documents}"


def read_dockerfile(text: str) -> tuple[Instruction, ...]:
    r"""The instructions in order.

    >>> text = "ARG v=3\nFROM a:$v\nRUN a && \\\n # b\n c"
    >>> [(one.kind, one.words) for one in read_dockerfile(text)]
    [('ARG', 'v=3'), ('FROM', 'a:3'), ('RUN', 'a &&  c')]
    """
    variables: dict[str, str] = {}
    found = []
    for kind, words, documents in _logical_lines(text):
        if kind not in ("RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK"):
            words = filled(words, variables)
        flags = []
        while kind in ("COPY", "ADD", "RUN", "FROM") and (flag := FLAG.match(words)):
            flags.append((flag[1], flag[2] or ""))
            words = words[flag.end() :]
        one = Instruction(kind=kind, words=words, flags=tuple(flags), documents=documents)
        if kind in ("ENV", "ARG"):
            variables |= settings_of(one, variables)
        found.append(one)
    return tuple(found)


def settings_of(one: Instruction, known: dict[str, str]) -> dict[str, str]:
    """The variables that an ENV or an ARG sets; an ARG without a value keeps what is known."""
    if one.kind == "ENV" and "=" not in one.words.partition(" ")[0]:
        name, _, value = one.words.partition(" ")
        return {name: value.strip()}
    pairs = (word.partition("=") for word in one.argv())
    return {name: value if has else known.get(name, "") for name, has, value in pairs}


def filled(words: str, variables: dict[str, str]) -> str:
    r"""The words with `$NAME`, `${NAME}` and `${NAME:-default}` filled in.

    >>> filled("${a:-x} $b", {"b": "2"})
    'x 2'
    """

    def value(found: re.Match[str]) -> str:
        if found[0].startswith("\\"):
            return found[0][1:]
        known = variables.get(found[1] or found[2], "")
        if found[3] == "-":
            return known or found[4]
        return found[4] if found[3] == "+" and known else "" if found[3] == "+" else known

    return VARIABLE.sub(value, words)


def _logical_lines(text: str) -> Iterator[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """Each instruction's name, words and here-documents."""
    lines = iter(text.splitlines())
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = [line.strip()]
        while parts[-1].endswith("\\"):
            parts[-1] = parts[-1][:-1]
            more = next(lines, None)
            while more is not None and (not more.strip() or more.lstrip().startswith("#")):
                more = next(lines, None)
            parts.append((more or "").rstrip())
        kind, _, words = "".join(parts).strip().partition(" ")
        kind = kind.upper()
        documents = []
        for mark in HEREDOC.finditer(words) if kind in ("RUN", "COPY", "ADD") else ():
            if words[mark.start() - 1 : mark.start()] == "<":
                continue  # <<< is another thing
            body = []
            for inner in lines:
                if inner.strip() == mark[2]:
                    break
                body.append(f"{inner}\n")
            else:
                raise UnreadableDockerfile(f"{kind}: its here-document {mark[2]} has no end")
            documents.append((mark[2], "".join(body)))
        yield kind, words.strip(), tuple(documents)
