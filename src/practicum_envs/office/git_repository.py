"""`GitRepository`: a bare repository, read and changed by git itself without a work tree."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from practicum_envs.office.company_state import Document

PUSH_BYTES = 64 << 20
"""Bytes of the objects of one push."""
GIT_S = 20.0
"""Seconds for one run of git."""
SETTINGS = {
    "safe.directory": "*",
    "core.hooksPath": "/dev/null",
    "gc.auto": "0",
    "fastimport.unpackLimit": "1",
    "receive.unpackLimit": "1",
    "http.receivepack": "true",
    "uploadpack.allowAnySHA1InWant": "true",
    "uploadpack.allowFilter": "true",
    "core.quotePath": "false",
}
"""For every git that runs here: nothing of a repository is run, nothing of the host is read,
objects stay in packs, which are few files to copy, and clones may be partial."""
NAME_BYTES = 240
"""Of a branch's or tag's name, which is a file's name here."""
FIELD, RECORD = "\x1f", "\x1e"
COMMIT_FORM = (
    FIELD.join(("%H", "%h", "%P", "%an", "%ae", "%aI", "%cn", "%ce", "%cI", "%B")) + RECORD
)


class GitError(Exception):
    """Git could not do it; the message is its own."""


def git_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every git here; `more` are settings of one run."""
    settings = {**SETTINGS, **(more or {})}
    found = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_TERMINAL_PROMPT": "0",
        "LANG": "C.UTF-8",
    }
    for at, (name, value) in enumerate(settings.items()):
        found[f"GIT_CONFIG_KEY_{at}"] = name
        found[f"GIT_CONFIG_VALUE_{at}"] = value
    return found


class GitRepository:
    """One bare repository."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, branch: str = "main") -> "GitRepository":
        """An empty one; written by hand, since `git init` costs more than all the rest."""
        for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
            (path / name).mkdir(parents=True)
        (path / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
        (path / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        return cls(path)

    def git(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run git; `GitError` when it fails, or when a word is no text that git could be given."""
        if any("\0" in word or not _is_text(word) for word in words):
            raise GitError("a name is no text")
        done = subprocess.run(
            ["git", f"--git-dir={self.path}", *words],
            input=stdin,
            capture_output=True,
            check=False,
            env=git_environment(),
            timeout=GIT_S,
        )
        if done.returncode != 0:
            raise GitError(done.stderr.decode(errors="replace").strip()[:500])
        return done.stdout

    def text(self, *words: str) -> str:
        """What git prints, without the last newline."""
        return self.git(*words).decode(errors="replace").rstrip("\n")

    def resolve(self, ref: str) -> str | None:
        """The commit of a branch, tag or id; None where there is none."""
        if not ref or ref.startswith("-"):
            return None
        for name in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref):
            try:
                return self.text("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
            except GitError:
                continue
        return None

    def branches(self) -> dict[str, str]:
        """Commit by name."""
        return self._refs("refs/heads")

    def tags(self) -> dict[str, str]:
        """Commit by name."""
        return self._refs("refs/tags")

    def _refs(self, folder: str) -> dict[str, str]:
        shown = self.text("for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", folder)
        pairs = (line.rpartition(" ") for line in shown.splitlines())
        return {name: commit for name, _, commit in pairs}

    def require_name(self, name: str) -> None:
        """`GitError` where no branch and no tag can have a name."""
        if not name or name.startswith("-") or len(name.encode(errors="replace")) > NAME_BYTES:
            raise GitError(f"{name!r} is no name of a branch or tag")
        self.git("check-ref-format", f"refs/heads/{name}")

    def set_branch(self, name: str, commit: str) -> None:
        """Make or move a branch."""
        self.require_name(name)
        self.git("update-ref", f"refs/heads/{name}", commit)

    def delete_ref(self, full_name: str) -> None:
        """Delete a branch or tag by its full name."""
        self.git("update-ref", "-d", full_name)

    def set_tag(self, name: str, commit: str) -> None:
        """Make a tag."""
        self.require_name(name)
        self.git("update-ref", f"refs/tags/{name}", commit)

    def tree(self, ref: str, folder: str = "", *, is_recursive: bool = False) -> list[Document]:
        """The entries of a folder."""
        words = ["ls-tree", "-z", "--full-tree", *(["-r", "-t"] if is_recursive else []), ref]
        if folder.strip("/"):
            words += ["--", folder.strip("/") + "/"]
        found = []
        for line in self.git(*words).decode(errors="replace").split("\0"):
            facts, _, path = line.partition("\t")
            if path:
                mode, kind, name = facts.split()
                entry = {"id": name, "name": path.rpartition("/")[2], "type": kind, "path": path}
                found.append({**entry, "mode": mode})
        return found

    def blob(self, ref: str, path: str) -> tuple[str, bytes] | None:
        """The id and the content of a file; None where there is none."""
        try:
            line = self.text("ls-tree", "--full-tree", ref, "--", path)
            facts = line.partition("\t")[0].split()
            if len(facts) != 3 or facts[1] != "blob":
                return None
            return facts[2], self.git("cat-file", "blob", facts[2])
        except GitError:
            return None

    def commits(self, ref: str, *words: str, path: str = "") -> list[Document]:
        """The history from a commit backwards; `words` are more options of `git log`."""
        limit = ["--", path] if path else ["--"]
        shown = self.text("log", f"--format={COMMIT_FORM}", *words, ref, *limit)
        return [_commit(record) for record in shown.split(RECORD) if record.strip()]

    def diffs(self, base: str, head: str) -> list[Document]:
        """What changed between two commits, file by file, as GitLab shows it."""
        shown = self.text("diff", "--no-color", "--no-ext-diff", "-M", "--full-index", base, head)
        return read_diff(shown)

    def diffs_of(self, commit: str) -> list[Document]:
        """What a commit changed."""
        shown = self.text(
            "show", "--format=", "--no-color", "--no-ext-diff", "-M", "--full-index", commit
        )
        return read_diff(shown)

    def merge_base(self, one: str, other: str) -> str | None:
        """The newest commit that both have; None where their histories are apart."""
        try:
            return self.text("merge-base", one, other)
        except GitError:
            return None

    def merge(self, source: str, target: str, message: str, author: tuple[str, str, str]) -> str:
        """A commit that joins two; `GitError` where they conflict."""
        merged = self.text("merge-tree", "--write-tree", target, source).splitlines()[0]
        return self._commit_tree(merged, [target, source], message, author)

    def _commit_tree(
        self, tree: str, parents: Sequence[str], message: str, author: tuple[str, str, str]
    ) -> str:
        name, email, date = author
        words = [word for parent in parents for word in ("-p", parent)]
        done = subprocess.run(
            ["git", f"--git-dir={self.path}", "commit-tree", tree, *words],
            input=message.encode(),
            capture_output=True,
            check=False,
            timeout=GIT_S,
            env={
                **git_environment(),
                **{f"GIT_{who}_NAME": name for who in ("AUTHOR", "COMMITTER")},
                **{f"GIT_{who}_EMAIL": email for who in ("AUTHOR", "COMMITTER")},
                **{f"GIT_{who}_DATE": date for who in ("AUTHOR", "COMMITTER")},
            },
        )
        if done.returncode != 0:
            raise GitError(done.stderr.decode(errors="replace").strip()[:500])
        return done.stdout.decode().strip()

    def write(self, changes: Sequence[Mapping[str, Any]]) -> None:
        """Add commits in one go, by `git fast-import`.

        Each has `branch`, `message`, `author` (name, address), `at` (seconds), `files` (content by
        path; None deletes) and may have `start`, the commit to begin from.
        """
        parts: list[bytes] = []
        for one in changes:
            name, email = (re.sub(r"[<>\n\0]", " ", text) for text in one["author"])
            if not all(map(_is_text, one["files"])):
                raise GitError("the path of a file is no text")
            parts.append(f"commit refs/heads/{one['branch']}\n".encode())
            who = f"committer {name} <{email}> {one['at']} +0000\n"
            parts.append(who.encode(errors="replace"))
            parts.append(_data(str(one["message"]).encode(errors="replace")))
            if one.get("start"):
                parts.append(f"from {one['start']}\n".encode())
            for path, content in one["files"].items():
                quoted = (
                    '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
                )
                if content is None:
                    parts.append(f"D {quoted}\n".encode())
                else:
                    blob = (
                        content
                        if isinstance(content, bytes)
                        else str(content).encode(errors="replace")
                    )
                    parts.append(f"M 100644 inline {quoted}\n".encode() + _data(blob))
            parts.append(b"\n")
        self.git("fast-import", "--quiet", "--force", stdin=b"".join(parts))


def _is_text(word: str) -> bool:
    """Whether a word can be written in UTF-8, which half a surrogate pair cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in word)


def _data(content: bytes) -> bytes:
    return b"data %d\n" % len(content) + content + b"\n"


def _commit(record: str) -> Document:
    whole, short, parents, *rest = record.strip("\n").split(FIELD)
    name, email, at, committer, committer_email, committed, message = rest
    return {
        "id": whole,
        "short_id": short,
        "created_at": committed,
        "parent_ids": parents.split(),
        "title": message.strip().partition("\n")[0],
        "message": message.rstrip("\n") + "\n",
        "author_name": name,
        "author_email": email,
        "authored_date": at,
        "committer_name": committer,
        "committer_email": committer_email,
        "committed_date": committed,
        "trailers": {},
    }


def read_diff(shown: str) -> list[Document]:
    r"""The files of `git diff`.

    >>> text = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+1"
    >>> found = read_diff(text)
    >>> found[0]["new_path"], found[0]["new_file"], found[0]["diff"]
    ('x', True, '@@ -0,0 +1 @@\n+1\n')
    """
    found: list[Document] = []
    for part in ("\n" + shown).split("\ndiff --git ")[1:]:
        head, _, body = part.partition("\n@@")
        lines = head.splitlines()
        old, new = _paths(lines)
        modes = [
            line.split()[-1] for line in lines if line.startswith(("new file", "deleted file"))
        ]
        is_new = any(line.startswith("new file mode") for line in lines)
        is_deleted = any(line.startswith("deleted file mode") for line in lines)
        found.append(
            {
                "old_path": old,
                "new_path": new,
                "a_mode": "0" if is_new else (modes or ["100644"])[0],
                "b_mode": "0" if is_deleted else (modes or ["100644"])[0],
                "new_file": is_new,
                "renamed_file": any(line.startswith("rename from") for line in lines),
                "deleted_file": is_deleted,
                "diff": f"@@{body}\n" if body else "",
            }
        )
    return found


def _paths(lines: list[str]) -> tuple[str, str]:
    """The two paths in the head of a file's diff."""
    old = new = ""
    for line in lines:
        if line.startswith(("--- a/", "+++ b/")):
            path = line[6:].rstrip("\t")
            old, new = (path, new) if line[0] == "-" else (old, path)
        elif line.startswith("rename from "):
            old = line.removeprefix("rename from ")
        elif line.startswith("rename to "):
            new = line.removeprefix("rename to ")
    if not old and not new:
        new = lines[0].partition(" b/")[2]
    return old or new, new or old
