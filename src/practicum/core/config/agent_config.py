"""The `agent` section: a built-in loop or a program, and the options of each."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.config_sections import ConfigModel

AgentName = Literal["auto", "actions", "tools", "function", "command", "openhands"]

LOOP_OPTIONS: Mapping[str, Any] = {
    "style": None,
    "on_text": None,
    "context_tokens": 0,
    "fold": False,
    "frozen": (),
}

AGENT_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "auto": LOOP_OPTIONS,
    "actions": {"context_tokens": 0, "fold": False, "frozen": ()},
    "tools": {key: value for key, value in LOOP_OPTIONS.items() if key != "frozen"},
    "function": {"path": None, "success_at": 1.0, "sampling": "run", "at_once": None},
    "command": {
        "command": None,
        "inherit": (),
        "workdir": "new",
        "score": "evidence",
        "hide": ("answer",),
        "sandbox": "none",
        "success_at": 1.0,
        "sampling": "run",
        "at_once": 8,
    },
    "openhands": {"prompt": "short", "sampling": "run", "at_once": 4},
}
"""Options of each agent besides `deadline_s` and `retries`, with their defaults."""

PROGRAMS = frozenset({"function", "command", "openhands"})
"""Agents that are programs and reach the model over HTTP."""

PROGRAM_DEADLINE_S = 600.0
"""Default deadline of a program, which may hang."""


class AgentConfig(ConfigModel):
    """Who does the work in an episode: a built-in loop, or a program of your own."""

    name: AgentName = "auto"
    """`auto`: what the environment is made for; `actions`: one action a turn; `tools`: a loop over
    tool calls; `function`: a Python function of yours, or FILE.py:NAME in one word; `command`: any
    executable; `openhands`: the OpenHands SDK."""
    deadline_s: float | None = Field(default=None, gt=0.0)
    """Seconds an episode may take before it is cut off and has failed, and is scored so; 600 for
    `function`, `command` and `openhands` by default, no limit for the others."""
    retries: int = Field(default=1, ge=0)
    """How often an episode is tried again, with another seed, after its agent or environment
    failed; then it is masked."""
    style: Literal["auto", "native", "text", "react"] | None = None
    """How tools are called (`tools`): `native`, as the model's chat template writes calls, several
    in a turn if it likes; `text`, the first JSON object of a turn; `react`, lines that begin with
    Thought, Action and Action Input; `auto`, native and else text."""
    on_text: Literal["ask", "finish"] | None = None
    """What a turn without a call means (`tools`): `ask`, it is answered with how to call a tool;
    `finish`, the first is answered so and the second ends the episode."""
    context_tokens: int | None = Field(default=None, ge=0)
    """Tokens that a conversation and its next turn may have together (`actions`, `tools`): an
    episode that would need more ends as `context_full`. 0 is as many as the model takes."""
    fold: bool | None = None
    """Whether an episode that would need more than `context_tokens` goes on with earlier results
    cut to their first characters (`actions`, `tools`), once for all that the model has answered."""
    frozen: tuple[str, ...] | None = None
    """Roles that act with the same weights and are not learned from (`actions`), in environments
    whose episodes have several."""
    path: str | None = None
    """The function (`function`): FILE.py:NAME or module:NAME, found from where practicum starts."""
    success_at: float | None = None
    """The score from which an episode counts as a success, where the program gives the score."""
    command: tuple[str, ...] | None = None
    """The program and its arguments (`command`); words that name a file here are made absolute."""
    inherit: tuple[str, ...] | None = None
    """Environment variables that the program is given besides the basics (`command`)."""
    workdir: str | None = None
    """Where the program runs (`command`): `new`, an empty folder that is removed afterwards, or a
    folder."""
    score: Literal["evidence", "exit_code"] | tuple[str, ...] | None = None
    """What a command's work is worth (`command`): `evidence`, what it printed is given to the
    environment as its answer; `exit_code`, 1 for exit code 0 and else 0; or a command whose last
    printed line is the score."""
    hide: tuple[str, ...] | None = None
    """Keys of a task's data that the program is not shown, only the scoring command (`command`)."""
    sandbox: Literal["none", "code"] | None = None
    """`code` asks for a sandbox around the program (`command`)."""
    prompt: Literal["short", "openhands"] | None = None
    """`short`: few words about two tools; `openhands`: the SDK's own prompt and descriptions, 6 to
    7 thousand tokens of them (`openhands`)."""
    sampling: Literal["run", "client"] | None = None
    """Who says how a program's turns are drawn: `run`, temperature, top-p, top-k and seeds are the
    run's whatever the program asks for, so that the episodes of a group differ and an evaluation
    is what it says; `client`, what the program asks for."""
    at_once: int | None = Field(default=None, ge=1)
    """Episodes under way together, each a program of its own: 8 for `command`, 4 for `openhands`,
    all for `function` by default. What waits for its turn has not begun, nor has its deadline."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, value: Any) -> Any:
        """Add the defaults of the chosen agent."""
        if not isinstance(value, dict):
            return value
        if ":" in str(value.get("name", "")):  # FILE.py:NAME, as environments and rewards are named
            value = {**value, "name": "function", "path": value["name"]}
        own = AGENT_OPTIONS.get(str(value.get("name", "auto")), {})
        given = {key: v for key, v in value.items() if v is not None}
        return {**{k: v for k, v in own.items() if v is not None}, **given}

    @field_validator("command", "score", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        """YAML reads `[sleep, 5]` with a number; a command has strings only."""
        if isinstance(value, list | tuple):
            return tuple(str(word) for word in value)
        return value

    @model_validator(mode="after")
    def _only_its_own(self) -> "AgentConfig":
        takes = AGENT_OPTIONS[self.name]
        stray = [key for key in OPTIONS if getattr(self, key) is not None and key not in takes]
        if stray:
            raise PydanticCustomError(
                "agent",
                "{key} is not an option of the agent {name}, which takes: {takes}",
                {
                    "key": sorted(stray)[0],
                    "name": self.name,
                    "takes": ", ".join(["deadline_s", "retries", *sorted(takes)]),
                },
            )
        return self

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "AgentConfig":
        wrong = [
            (
                self.name == "function" and ":" not in (self.path or ""),
                "the agent function needs a path, FILE.py:NAME; write path: my_agent.py:rollout",
            ),
            (
                self.name == "command" and not self.command,
                "the agent command needs a command; write command: [python, my_agent.py]",
            ),
            (
                bool(self.fold) and not self.context_tokens,
                "fold needs context_tokens, the tokens at which results are folded; write "
                "context_tokens: 8000",
            ),
            (
                self.score == (),
                "the scoring command has no words; write score: exit_code, or a command",
            ),
            (
                self.sandbox == "code",
                "sandbox: code has no network, so a program in it cannot reach the model; take it "
                "out, or wrap the program itself in a container that reaches 127.0.0.1",
            ),
        ]
        for is_so, sentence in wrong:
            if is_so:
                raise PydanticCustomError("agent", sentence)
        return self

    @property
    def is_program(self) -> bool:
        """Whether it is a program that reaches the model over HTTP."""
        return self.name in PROGRAMS

    @property
    def deadline(self) -> float | None:
        """Seconds an episode may take; None is no limit."""
        if self.deadline_s is None and self.is_program:
            return PROGRAM_DEADLINE_S
        return self.deadline_s


OPTIONS = frozenset(key for takes in AGENT_OPTIONS.values() for key in takes)
"""Options that some agents have and others do not."""
