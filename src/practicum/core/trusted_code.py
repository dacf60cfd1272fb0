"""Which code may run: what the user typed, ran or trusted, remembered by its SHA-256.

A config, a run and an adapter name code: `FILE.py:NAME`, `module:NAME`, a command. They may come
from a stranger, so the first time such code is to run it needs the user's word. The record is a
text file with a line for each consent; taking a line out withdraws it.
"""

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from practicum.core.cache_folder import cache_root
from practicum.core.errors import UserError

RECORD = "trusted"
"""The record's name in the cache folder: a SHA-256 or the word `folder`, a space, what it is of."""
RECORD_VARIABLE = "PRACTICUM_TRUST_FILE"
"""Variable with another place for the record."""
VARIABLE = "PRACTICUM_TRUST"
"""Variable with folders and digests that are trusted besides the record, parted as in PATH."""
NOT_TYPED = "PRACTICUM_NOT_TYPED"
"""Variable for processes that Practicum starts: the words they are given are not the user's."""
FOLDER = "folder"
MOST_FILES = 1000
"""Files that one consent covers at most: those that a file imports from its own folder."""
SENT = (
    ("endpoint", "key_variable", ""),
    ("colleague_endpoint", "colleague_key_env", "OPENAI_API_KEY"),
    ("judge_endpoint", "judge_key_env", "OPENAI_API_KEY"),
    ("url", "key_file", "PRACTICUM_ENV_KEY"),
    ("urls", "key_file", "PRACTICUM_SAMPLER_KEY"),
    ("teacher", "", "PRACTICUM_TEACHER_KEY"),
)
"""Keys of configs by which a secret leaves: the address, the key that names a variable or a file,
and the variable that is sent where it names none."""
NEW_FOLDER = "new"
"""Where a command runs that needs no folder of its own."""
SERVED = "remote"
"""The environment whose `url` is where its server answers."""
FILE = "file "
"""Before the name of a file whose content is sent; other secrets are variables."""


class NotTrusted(UserError):
    """Code that nobody has agreed to run yet."""


def record_path() -> Path:
    """The file that remembers what is trusted: `$PRACTICUM_TRUST_FILE`, or one in the cache."""
    named = os.environ.get(RECORD_VARIABLE)
    return Path(named).expanduser() if named else cache_root() / RECORD


def trusted_lines() -> list[str]:
    """The lines of the record."""
    try:
        return record_path().read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _trusted() -> set[str]:
    """Digests and folders that are trusted."""
    named = {one for one in os.environ.get(VARIABLE, "").split(os.pathsep) if one}
    for line in trusted_lines():
        key, _, label = line.partition(" ")
        named.add(label if key == FOLDER else key)
    return named


def consents_as_variable() -> str:
    """All consents as `VARIABLE` has them, for processes on machines without the record."""
    return os.pathsep.join(sorted(_trusted()))


def remember(keys: Iterable[tuple[str, str]], *, must: bool = False) -> None:
    """Keep consents, pairs of a digest (or `folder`) and what it is of.

    Where the record cannot be written they hold for this process and those it starts; with `must`
    that is an error.
    """
    known = _trusted()
    new = [(k, label) for k, label in keys if (label if k == FOLDER else k) not in known]
    if not must:  # what lies in a trusted folder needs no line of its own
        new = [(k, label) for k, label in new if not _is_covered(label)]
    if not new:
        return
    path = record_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{key} {_one_line(label)}\n" for key, label in new))
    except OSError as error:
        if must:
            raise UserError(
                f"{path} cannot be written ({error.strerror}), so no consent can be kept; set "
                f"{RECORD_VARIABLE} to a file of yours"
            ) from None
        held = [label if key == FOLDER else key for key, label in new]
        os.environ[VARIABLE] = os.pathsep.join([*filter(None, [os.environ.get(VARIABLE)]), *held])


def forget(named: str) -> list[str]:
    """Take out the lines of a file, a folder, a function or a digest, and return them."""
    wanted = {named, str(Path(named).expanduser().resolve()), f"function {named}"}
    lines = trusted_lines()
    gone = [line for line in lines if not wanted.isdisjoint(line.split(" ", 1))]
    if gone:
        kept = "".join(f"{line}\n" for line in lines if line not in gone)
        record_path().write_text(kept, encoding="utf-8")
    return gone


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n")


def digest_of(content: bytes) -> str:
    """The SHA-256 of a file's bytes."""
    return hashlib.sha256(content).hexdigest()


def is_in_trusted_folder(path: Path) -> bool:
    """Whether a file lies in a folder that the user called theirs."""
    folders = {Path(one).resolve() for one in _trusted() if os.path.isabs(one)}
    return not folders.isdisjoint(path.resolve().parents)


def _is_covered(label: str) -> bool:
    return os.path.isabs(label) and is_in_trusted_folder(Path(label))


def trusted_source(path: Path, key: str) -> bytes:
    """The bytes of a file that may run; `NotTrusted` where nobody has agreed to that.

    What was checked is what is to run: the file is read once.
    """
    content = path.read_bytes()
    if digest_of(content) not in _trusted() and not is_in_trusted_folder(path):
        raise NotTrusted(
            f"{key}: {path} is code that was not run here before, or has changed since, and it may "
            f"do whatever you may; read it, and if you trust it type: practicum trust {path} (or "
            f"the folder of your own project, once: practicum trust {path.parent})"
        )
    return content


def require_name(named: str, key: str, origin: Path) -> None:
    """Raise `NotTrusted` unless the user agreed that a function of an installed module is called.

    Args:
        named: The function, `module:NAME`.
        key: Of the config.
        origin: The module's file, which may be the user's own.
    """
    own = origin.is_file() and digest_of(origin.read_bytes()) in _trusted()
    if not own and _name_key(named) not in _trusted() and not is_in_trusted_folder(origin):
        raise NotTrusted(
            f"{key} = {named!r} calls a function of an installed module, which was not called here "
            f"before; if that is what you want, type: practicum trust {named}"
        )


def require_command(
    words: Sequence[str], key: str, workdir: str = "", inherit: Sequence[str] = ()
) -> None:
    """Raise `NotTrusted` unless the user agreed to run this command there, with these files."""
    if _command_key(words, workdir, inherit) not in _trusted():
        raise NotTrusted(
            f"{key} = {' '.join(words)!r} is a command that was not run here before, or a file in "
            "it, its folder or the variables it inherits have changed since, and it may do "
            "whatever you may; if you trust it type: practicum trust CONFIG (the YAML file or the "
            "run that has it)"
        )


def require_secret(secret: str, address: str, key: str) -> None:
    """Raise `NotTrusted` unless the user agreed that a secret is sent to this address.

    Args:
        secret: A variable, or `FILE` and a path.
        address: Where it goes.
        key: What of the config sends it.
    """
    if _secret_key(secret, address) not in _trusted():
        what = secret if secret.startswith(FILE) else f"environment variable {secret}"
        raise NotTrusted(
            f"{key} sends the {what} to {address}, which was not done here before; if you want "
            "that type: practicum trust CONFIG (the YAML file or the run that has it), or type "
            "both on the command line"
        )


def secrets_sent(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The secrets that a section of a config sends somewhere, and where to.

    >>> list(secrets_sent({"endpoint": "http://judge/v1", "key_variable": "MY_KEY"}))
    [('MY_KEY', 'http://judge/v1')]
    >>> list(secrets_sent({"teacher": "http://teacher/v1"}))
    [('PRACTICUM_TEACHER_KEY', 'http://teacher/v1')]
    """
    for place, named, usual in SENT:
        found = values.get(place)
        if place == "url" and values.get("name", SERVED) != SERVED:
            continue  # an environment of the user's own, whose code has its own consent
        addresses = found if isinstance(found, list | tuple) else [found]
        secret = str(values.get(named) or usual)
        if named == "key_file" and secret != usual:
            secret = f"{FILE}{Path(secret).absolute()}"
        for address in addresses if secret else ():
            if isinstance(address, str) and address.startswith(("http://", "https://")):
                yield secret, address.rstrip("/")


def require_secrets(values: Mapping[str, Any], key: str) -> None:
    """`require_secret` for all that a section sends; a variable that is not set is not sent."""
    for secret, address in secrets_sent(values):
        if secret.startswith(FILE) or os.environ.get(secret):
            require_secret(secret, address, key)


def trust_file(path: Path) -> list[tuple[str, str]]:
    """The consents to run a file with all that it imports from its own folder."""
    root = path.parent
    found: dict[Path, str] = {}
    waiting = [path]
    while waiting and len(found) < MOST_FILES:
        one = waiting.pop().resolve()
        if one in found or not one.is_file():
            continue
        content = one.read_bytes()
        found[one] = digest_of(content)
        waiting += _imported(content, one.parent, root) if one.suffix == ".py" else ()
    return [(digest, str(file)) for file, digest in found.items()]


def trust_name(named: str) -> list[tuple[str, str]]:
    """The consent to call a function of an installed module."""
    return [(_name_key(named), f"function {named}")]


def trust_command(
    words: Sequence[str], workdir: str = "", inherit: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """The consent to run a command in a folder, with the files it names and these variables."""
    return [(_command_key(words, workdir, inherit), f"command {' '.join(words)}")]


def trust_secret(secret: str, address: str) -> list[tuple[str, str]]:
    """The consent to send a secret to an address."""
    label = secret if secret.startswith(FILE) else f"variable {secret}"
    return [(_secret_key(secret, address), f"{label} to {address}")]


def _secret_key(secret: str, address: str) -> str:
    return digest_of(f"secret\0{secret}\0{address.rstrip('/')}".encode())


def _name_key(named: str) -> str:
    return digest_of(f"name\0{named}".encode())


def _command_key(words: Sequence[str], workdir: str, inherit: Sequence[str]) -> str:
    """Of the words, the folder they mean something in, and the content of the files they name.

    Of a Python file also those that it imports from its own folder, as far as that can be read.
    """
    folder = "" if workdir in ("", NEW_FOLDER) else str(Path(workdir).absolute())
    parts = ["command", *words, folder, *sorted(inherit)]
    for word in words:
        for path in sorted({Path(word), Path(folder, word)}):
            if _is_file(path) and not is_in_trusted_folder(path):
                parts += sorted(digest for digest, _ in trust_file(path))
    return digest_of("\0".join(parts).encode())


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # too long to be a name, or no name at all
        return False


def _imported(content: bytes, here: Path, root: Path) -> Iterator[Path]:
    """Files beside a file that it may import, by what is written in it."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # loading it says more
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from module_files(root, alias.name)
        elif isinstance(node, ast.ImportFrom):
            start = here.joinpath(*[".."] * (node.level - 1)) if node.level else root
            module = node.module or ""
            yield from module_files(start, module)
            for alias in node.names:  # the last word may be a module
                yield from module_files(start, f"{module}.{alias.name}".strip("."))


def module_files(root: Path, dotted: str) -> Iterator[Path]:
    """The files that importing a module from a folder would run, where they are there."""
    if not dotted:
        yield root / "__init__.py"
        return
    at = root
    for part in dotted.split("."):
        at = at / part
        yield at / "__init__.py"
        yield at.with_name(f"{part}.py")
