"""What a task's Dockerfile puts into the image: files, packages, and commands to run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PIP = re.compile(r"\bpip3? install\s+([^&|;]+)")
APT = re.compile(r"\bapt-get install\s+([^&|;]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStep:
    """One line of a Dockerfile: `COPY`, `RUN` and so on."""

    kind: str
    words: str

    def copies(self, folder: Path) -> Iterator[tuple[Path, str]]:
        """The files that the line copies, each with its place in the image."""
        if self.kind != "COPY":
            return
        *sources, target = self.words.split()
        for name in sources:
            for found in sorted(folder.glob(name.rstrip("/"))):
                if found.is_dir():
                    for path in sorted(one for one in found.rglob("*") if one.is_file()):
                        yield path, f"{target.rstrip('/')}/{path.relative_to(found)}"
                elif target.endswith("/") or not Path(target).suffix:
                    yield found, f"{target.rstrip('/')}/{found.name}"
                else:
                    yield found, target

    def python_packages(self) -> list[str]:
        """What `pip` installs, each with its version where the line has one."""
        return self._installed(PIP)

    def debian_packages(self) -> list[str]:
        """What `apt-get` installs."""
        return self._installed(APT)

    def _installed(self, pattern: re.Pattern[str]) -> list[str]:
        found = pattern.findall(self.words) if self.kind == "RUN" else []
        return [word for words in found for word in words.split() if not word.startswith("-")]

    @property
    def command(self) -> str:
        """What is to be run in the machine; empty where it only installs something."""
        if self.kind != "RUN" or PIP.search(self.words) or "apt-get" in self.words:
            return ""
        return self.words


def read_image(folder: Path) -> tuple[ImageStep, ...]:
    r"""The steps of a folder's Dockerfile; none where it has no Dockerfile.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = (Path(name) / "Dockerfile").write_text("FROM base\n# why\nRUN a && \\\n  b\n")
    ...     [(step.kind, step.words) for step in read_image(Path(name))]
    [('FROM', 'base'), ('RUN', 'a && b')]
    """
    path = folder / "Dockerfile"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\s*\n\s*", " ", "\n".join(lines))
    steps = []
    for line in joined.splitlines():
        kind, _, words = line.strip().partition(" ")
        if kind:
            steps.append(ImageStep(kind=kind.upper(), words=" ".join(words.split())))
    return tuple(steps)
