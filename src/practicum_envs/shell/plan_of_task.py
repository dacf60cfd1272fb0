"""`Plan`: how one shell task is set up, solved and checked, the same for every source of tasks.

`Task.data` holds the plan as JSON:

    {"source": "generated", "setup": "...", "reference": "...", "near_misses": ["..."],
     "check": {"kind": "state", "assertions": [...]}, "skills": ["chmod"]}

A script is a text for bash, or `{"language": "bash" | "python", "code": "..."}`. `setup` is one
script or a list of them. `check.kind` is one of:

* `state`: assertions about files, accounts and processes, tested by `state_checker`
* `script`: a script that exits with 0 exactly when the task is done
* `match`: the policy's answer equals `answer`, or `regex` is found in it; `strip` strips it first
* `chain`: scripts that must all exit with 0; the arguments of each are the answer and the outputs
  of the scripts before it; null stands for the reference
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from practicum.core.task import JSON, Task

LANGUAGES = ("bash", "python")

Reading = Literal["first", "last"]
"""Which `Act:` of a turn counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script's text and its language."""

    code: str
    language: str = "bash"

    def command(self, *arguments: str) -> tuple[str, ...]:
        """The argv that runs it.

        Python is isolated (`-I`): it imports nothing from the working or a home folder, where
        the policy may have put a module of its own.
        """
        if self.language == "python":
            return ("python3", "-I", "-c", self.code, *arguments)
        return ("bash", "-c", self.code, *(("--", *arguments) if arguments else ()))

    def as_json(self) -> JSON:
        """The JSON form, for `Task.data`."""
        if self.language == "bash":
            return self.code
        return {"language": self.language, "code": self.code}


def read_script(value: object) -> Script:
    """A script from its JSON form; `ValueError` says what is wrong with it."""
    if isinstance(value, str):
        return Script(code=value)
    if not isinstance(value, Mapping):
        raise ValueError(f"{type(value).__name__} is not a script")
    language, code = value.get("language", "bash"), value.get("code")
    if language not in LANGUAGES:
        raise ValueError(f"scripts in {language!r} cannot be run; bash and python can")
    if not isinstance(code, str):
        raise ValueError("a script has no code")
    return Script(code=code, language=str(language))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one task is set up, solved and checked."""

    source: str
    setup: tuple[Script, ...]
    reference: Script | None
    near_misses: tuple[Script, ...]
    check: Mapping[str, Any]
    cwd: str

    @classmethod
    def of(cls, task: Task) -> "Plan":
        """The plan in a task's data."""
        data: Mapping[str, Any] = task.data
        setup = data.get("setup", "")
        parts = setup if isinstance(setup, list) else [setup] if setup else []
        reference = data.get("reference")
        return cls(
            source=str(data["source"]),
            setup=tuple(read_script(part) for part in parts),
            reference=None if reference is None else read_script(reference),
            near_misses=tuple(read_script(one) for one in data.get("near_misses", ())),
            check=data["check"],
            cwd=str(data.get("cwd", "/")),
        )

    @property
    def takes_answers(self) -> bool:
        """Whether the check uses the policy's answer."""
        return self.check["kind"] in ("match", "chain")

    @property
    def reading(self) -> Reading:
        """Which `Act:` of a turn counts: the first, or the last one known in AgentBench's tasks."""
        return "last" if self.source == "agent_bench" else "first"

    def chain(self) -> Sequence[Script]:
        """The scripts of a `chain`, the reference in the place of null."""
        found = []
        for one in self.check["scripts"]:
            script = self.reference if one is None else read_script(one)
            assert script is not None, "the loader refuses a chain with null and no reference"
            found.append(script)
        return found
