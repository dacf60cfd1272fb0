"""The `reward` section: a preset or a list of components, each with its own config model."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, SerializeAsAny, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.config_sections import ConfigModel
from practicum.core.errors import nearest
from practicum.core.user_code import names_code

LABEL = re.compile(r"[A-Za-z_]\w*")


class ComponentConfig(ConfigModel):
    """Fields of every reward component."""

    measures_success: ClassVar[bool] = False
    """Whether it measures task success rather than style."""

    name: str
    """Which part it is; `FILE.py:NAME` is a function of your own."""
    weight: float = 1.0
    """What it counts; below 0 for what is to become less."""
    label: str = ""
    """What it is called in logs, where its name is not enough; its name unless given."""

    @field_validator("label")
    @classmethod
    def _one_word(cls, value: str) -> str:
        if value and not LABEL.fullmatch(value):
            raise PydanticCustomError("label", "a label is one word of letters, digits and _")
        return value

    @property
    def logged_as(self) -> str:
        """Its key among the components of a score."""
        return self.label or self.name.rpartition(":")[2]


class OutcomeComponent(ComponentConfig):
    """One value for each way an episode can end; the defaults are the preset `os`."""

    measures_success: ClassVar[bool] = True

    name: Literal["outcome"] = "outcome"
    correct: float = 1.0
    """The task was done."""
    incorrect: float = -0.5
    """It was not."""
    unknown: float = 0.0
    """It cannot be said whether it was."""
    malformed: float | None = None
    """It was not, and the episode ended with a turn in no known form; as `incorrect` unless
    given."""


class TurnsComponent(ComponentConfig):
    """The sum of what the environment paid for each turn."""

    measures_success: ClassVar[bool] = True

    name: Literal["turns"] = "turns"


class AgentCompanyComponent(ComponentConfig):
    """Checkpoints passed, half of it for passing all: 0.5 r / t + 0.5 [r = t]."""

    measures_success: ClassVar[bool] = True

    name: Literal["agent_company"] = "agent_company"


class ProgressComponent(ComponentConfig):
    """The root of the share of points that checkpoints gave: early ones count most."""

    measures_success: ClassVar[bool] = True

    name: Literal["progress"] = "progress"


class TaskCompletionComponent(ComponentConfig):
    """The share of the work that was completed."""

    measures_success: ClassVar[bool] = True

    name: Literal["task_completion"] = "task_completion"


class _OfWrittenText(ComponentConfig):
    """A component that reads the policy's text."""

    turns: Literal["all", "final"] = "all"
    """Whether every turn is read or only the last."""


class CodeExecutionComponent(_OfWrittenText):
    """Whether the code that was written runs, or passes the task's tests; in a sandbox."""

    name: Literal["code_execution"] = "code_execution"
    turns: Literal["all", "final"] = "final"
    """Whether the code of every turn is run or only that of the last turn that has any."""
    score: Literal["share", "all"] = "share"
    """`share`: of the blocks or tests that went well; `all`: 1 where all did, else 0."""
    without: float | None = 0.0
    """What an episode without code is worth; null leaves it unscored."""
    timeout_s: float = Field(default=10.0, gt=0.0, le=600.0)
    """For each block or test."""
    memory_mb: int = Field(default=256, ge=32)
    processes: int = Field(default=32, ge=1)
    most: int = Field(default=8, ge=1)
    """Blocks that are run; the last ones, where there are more."""
    sandbox: str = "auto"
    """Kind of sandbox; see docs/sandboxes.md."""


class SyntaxComponent(_OfWrittenText):
    """The share of code blocks that can be parsed."""

    name: Literal["syntax"] = "syntax"
    without: float | None = 0.0
    """What an episode without a block that can be checked is worth; null leaves it unscored."""
    sandbox: str = ""
    """Kind of sandbox in which bash reads shell scripts; it reads them on this machine unless
    given, and runs them in neither."""


class ToolSuccessComponent(ComponentConfig):
    """The share of tool calls that did not fail."""

    name: Literal["tool_success"] = "tool_success"
    without: float = 0.0
    """What an episode without a call is worth."""


class EfficiencyComponent(ComponentConfig):
    """What is left of a budget."""

    name: Literal["efficiency"] = "efficiency"
    tokens: int | None = Field(default=None, ge=1)
    """Sampled tokens at which nothing is left."""
    calls: int | None = Field(default=None, ge=1)
    """Tool calls at which nothing is left."""
    turns: int | None = Field(default=None, ge=1)
    """Turns at which nothing is left."""
    characters_per_token: float | None = Field(default=None, gt=0.0)
    """With `tokens`: a turn whose tokens are not known, as in traces of other agents, has one for
    so many characters; unless given, such an episode is not scored."""
    only_successful: bool = True
    """Whether an episode that did not do its task gets 0: giving up early is not efficient."""

    @model_validator(mode="after")
    def _has_a_budget(self) -> "EfficiencyComponent":
        if self.tokens is None and self.calls is None and self.turns is None:
            raise PydanticCustomError(
                "budget", "a budget is missing; give tokens, calls or turns, such as turns: 8"
            )
        return self


class FormatComponent(_OfWrittenText):
    """The share of turns that keep to every rule of form."""

    name: Literal["format"] = "format"
    no_xml: bool = True
    """Whether tags such as <answer> are against the rules; code in fences is not looked at."""
    allowed_tags: tuple[str, ...] = ("tool_call", "think")
    """Tags that are not against them: those that models call tools and think with."""
    must: tuple[str, ...] = ()
    """Regular expressions that each turn must contain."""
    must_not: tuple[str, ...] = ()
    """Regular expressions that no turn may contain."""

    @field_validator("must", "must_not")
    @classmethod
    def _are_expressions(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as error:
                raise PydanticCustomError(
                    "pattern",
                    "{pattern} is no regular expression ({problem})",
                    {"pattern": repr(pattern), "problem": str(error)},
                ) from None
        return value


class LengthComponent(ComponentConfig):
    """A penalty that grows from 0 to -1 over the last tokens before a limit."""

    name: Literal["length"] = "length"
    limit: int = Field(ge=1)
    """Tokens from which the penalty is whole."""
    margin: int = Field(default=0, ge=0)
    """Tokens before the limit over which it grows."""
    of: Literal["episode", "turn"] = "episode"
    """Whether all sampled tokens count together or those of the longest turn."""

    @model_validator(mode="after")
    def _margin_fits(self) -> "LengthComponent":
        if self.margin > self.limit:
            raise PydanticCustomError("margin", "margin is larger than limit; lower it")
        return self


class RepetitionComponent(ComponentConfig):
    """A penalty for word sequences that come again, from 0 to -1."""

    name: Literal["repetition"] = "repetition"
    n: int = Field(default=3, ge=1)
    """Words in a sequence."""
    free: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of repeated sequences that costs nothing."""


class FunctionComponent(ComponentConfig):
    """A function of your own: `score(task, trace, outcome)` gives a number or a `Score`."""


class LearnedComponent(ComponentConfig):
    """How likely it is that a person would call the episode good, as a labeler has learned it."""

    name: Literal["learned"] = "learned"
    labeler: str
    """Folder of the labeler that `practicum traces label` has saved."""
    form: Literal["probability", "logit"] = "probability"
    """Between 0 and 1; or log-odds, which go on where the probability is near its end."""
    minimum_confidence: float = Field(default=0.5, ge=0.5, lt=1.0)
    """Episodes of which the likelier verdict is less likely than this are not scored."""


OF_WRITING = ("repeats", "retries", "temperature", "max_tokens")
"""Options of judges that write their scores as text."""


class JudgeComponent(ComponentConfig):
    """A language model compares the episodes of a group and scores each from 0 to 1."""

    name: Literal["judge"] = "judge"
    model: str = ""
    """The judge: a model at the endpoint, a local one as `model:` names it, or `FILE.py:NAME`, a
    function of yours that takes messages and returns what the judge writes."""
    endpoint: str = ""
    """Address of an OpenAI-compatible server, such as http://localhost:8000/v1; a local model
    judges unless given."""
    key_variable: str = ""
    """Environment variable that holds the key of the endpoint; the key itself is stored nowhere."""
    rubric: str = ""
    """What is good, in your words; Practicum's own rubric unless given."""
    way: Literal["auto", "compared", "weighed"] = "auto"
    """`compared`: it is shown all episodes of a group and writes down a score for each; `weighed`:
    it is asked of each whether the task is done, and the probability of its Yes is the score, which
    works with models too small to write scores; `auto`: a local model weighs, a server's compares.
    """
    repeats: int = Field(default=1, ge=1)
    """Times that each group is judged, in another order each time; the mean counts."""
    retries: int = Field(default=2, ge=0)
    """Times that it is asked again where an answer cannot be used."""
    temperature: float = Field(default=0.0, ge=0.0)
    max_tokens: int = Field(default=2000, ge=16)
    """Tokens of its answer."""
    longest: int = Field(default=20_000, ge=200)
    """Characters of an episode that it is shown; the middle of a longer one is left out."""
    at_once: int = Field(default=4, ge=1)
    """Requests under way together."""
    timeout_s: float = Field(default=120.0, gt=0.0)
    seed: int = 0
    """Of the orders in which episodes are shown."""

    @model_validator(mode="after")
    def _has_a_model(self) -> "JudgeComponent":
        if not self.model:
            raise PydanticCustomError("judge", "the judge's model is missing; add model: NAME")
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise PydanticCustomError(
                "judge", "the endpoint is no address; write http://HOST:PORT/v1"
            )
        if self.endpoint and self.way == "weighed":
            raise PydanticCustomError(
                "judge", "a server does not tell its probabilities; leave out way: weighed"
            )
        fields = type(self).model_fields
        given = [key for key in OF_WRITING if getattr(self, key) != fields[key].default]
        weighs = not self.endpoint and not names_code(self.model) and self.way != "compared"
        if given and weighs:
            raise PydanticCustomError(
                "judge",
                "{key} is for a judge that writes; this one weighs: add way: compared, or leave "
                "{key} out",
                {"key": given[0]},
            )
        return self


COMPONENTS: dict[str, type[ComponentConfig]] = {
    "outcome": OutcomeComponent,
    "turns": TurnsComponent,
    "agent_company": AgentCompanyComponent,
    "progress": ProgressComponent,
    "task_completion": TaskCompletionComponent,
    "code_execution": CodeExecutionComponent,
    "syntax": SyntaxComponent,
    "tool_success": ToolSuccessComponent,
    "efficiency": EfficiencyComponent,
    "format": FormatComponent,
    "length": LengthComponent,
    "repetition": RepetitionComponent,
    "judge": JudgeComponent,
    "learned": LearnedComponent,
}
"""Component models by name."""


def component_of(value: Any) -> ComponentConfig:
    """The component that a config value describes; raises `PydanticCustomError` with a sentence.

    >>> component_of({"name": "efficiency", "turns": 8, "weight": 0.2}).weight
    0.2
    >>> component_of("my_rewards.py:politeness").logged_as
    'politeness'
    """
    if isinstance(value, ComponentConfig):
        return value
    given = {"name": value} if isinstance(value, str) else value
    name = given.get("name") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(name, str):
        raise _mistake(f"{value!r} is no component; write it as {{name: outcome, weight: 1.0}}")
    kind = FunctionComponent if ":" in name else COMPONENTS.get(name)
    if kind is None:
        ranks = "; here it is judge, which ranks a group's episodes" if name == "ruler" else ""
        raise _mistake(
            f"there is no component {name!r}{ranks}; there are {', '.join(COMPONENTS)}, and your "
            "own functions as FILE.py:NAME"
        )
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise _mistake(_explain(name, kind, error)) from None


def _explain(name: str, kind: type[ComponentConfig], error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    allowed = sorted(kind.model_fields)
    if first["type"] == "extra_forbidden":
        hint = nearest(key, allowed)
        return f"{name} has no option {key!r}; {hint}it takes {', '.join(allowed)}"
    if first["type"] == "missing":
        return f"{name} needs the option {key!r}; add `{key}: ...`"
    problem = first["msg"][0].lower() + first["msg"][1:]
    where = f"{name}: {key} = {first['input']!r}" if key else name
    return f"{where}: {problem}"


def _mistake(sentence: str) -> PydanticCustomError:
    return PydanticCustomError("component", "{sentence}", {"sentence": sentence})


class RewardConfig(ConfigModel):
    """How an episode's evidence becomes its score."""

    name: Literal["auto", "turns", "os", "agent_company"] = "auto"
    """`turns`: the sum of what the environment paid for each turn; `os`: one value for the whole
    episode, by its outcome; `agent_company`: the points of its checkpoints; `auto`: what the
    environment is made for."""
    correct: float = 1.0
    """With `os`: the task was done."""
    incorrect: float = -0.5
    """With `os`: it was not."""
    unknown: float = 0.0
    """With `os`: it cannot be said whether it was."""
    malformed: float | None = None
    """With `os`: it was not, and the episode ended with a turn in no known form; as `incorrect`
    unless given."""
    components: tuple[SerializeAsAny[ComponentConfig], ...] = ()
    """In place of all that: parts with weights, such as [{name: outcome}, {name: efficiency,
    turns: 8, weight: 0.2}]; see docs/rewards.md."""
    success_at: float | None = None
    """The score from which an episode counts as a success; what the environment says unless given,
    which is unknown where it cannot tell."""
    combine: Literal["sum", "normalise", "mean"] = "sum"
    """With `components`: their weighted sum; or each divided by its spread in the group first, so
    that a part counts by its weight and not by its range; or the mean by weight of those that can
    be scored, where otherwise one that cannot leaves the episode unscored."""

    @model_validator(mode="before")
    @classmethod
    def _function_of_yours(cls, value: Any) -> Any:
        """One word of the form FILE.py:NAME is a function of the user's, and the only component."""
        if isinstance(value, dict) and ":" in str(value.get("name", "")):
            others = {key: v for key, v in value.items() if key != "name"}
            return {"components": [{"name": value["name"]}], **others}
        return value

    @field_validator("components", mode="before")
    @classmethod
    def _each_by_its_name(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise PydanticCustomError(
                "components", "components are a list, such as [{{name: outcome, weight: 1.0}}]"
            )
        return tuple(component_of(one) for one in value)

    @model_validator(mode="after")
    def _values_belong_to_outcomes(self) -> "RewardConfig":
        values = _DEFAULT_VALUES.keys() & self.model_fields_set
        stray = sorted(key for key in values if getattr(self, key) != _DEFAULT_VALUES[key])
        if self.name == "turns" and stray:
            raise PydanticCustomError(
                "reward",
                "{key} is for the reward `os`; `turns` takes what the environment pays",
                {"key": stray[0]},
            )
        if self.components and (stray or self.name != "auto"):
            raise PydanticCustomError(
                "reward",
                "{key} cannot be given beside components; write it as one of them",
                {"key": stray[0] if stray else "name"},
            )
        return self

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "RewardConfig":
        if self.success_at is not None and self.combine == "normalise":
            raise PydanticCustomError(
                "reward", "success_at is held against a sum of scores; leave out combine: normalise"
            )
        if not self.components and self.combine != "sum":
            raise PydanticCustomError("reward", "combine is for components; add components: [...]")
        if self.combine == "mean" and any(isinstance(p, JudgeComponent) for p in self.components):
            raise PydanticCustomError(
                "reward",
                "combine: mean cannot wait for a judge, who scores last; leave one of them out",
            )
        labels = [part.logged_as for part in self.components]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise PydanticCustomError(
                "reward",
                "two components are called {label}; give one of them a label: of its own",
                {"label": twice[0]},
            )
        return self


_DEFAULT_VALUES = {"correct": 1.0, "incorrect": -0.5, "unknown": 0.0, "malformed": None}
