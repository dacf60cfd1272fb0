"""The names of a pipeline from an agent's traces to rewards and datasets, over what does it here.

For code that says `TraceCollector`, `hook_into_agent`, `CheckpointLoader`, `RewardEngine`,
`BaseReward` and `DatasetPipeline`. docs/coming-from.md has all names.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, ClassVar

from practicum.api import run_to_end
from practicum.assemble.datasets import build_dataset
from practicum.assemble.wired_rewards import REWARDS
from practicum.core.config.parse_config import build_config
from practicum.core.errors import UserError
from practicum.core.interfaces import Reward
from practicum.core.json_values import as_json
from practicum.core.sample import Episode
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message
from practicum.traces.datasets.build import BuildOptions, Built, Kind, Unit
from practicum.traces.datasets.dataset_writing import write_dataset
from practicum.traces.datasets.sources import DatasetSource
from practicum.traces.importers import import_toolbox
from practicum.traces.importers.recognise import files_in
from practicum.traces.importers.records import Imported
from practicum.traces.recording import DEFAULT_STORE, Recorder, Recording, current_recording


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallTrace:
    """One call of a tool."""

    tool_name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""
    success: bool = True
    duration_ms: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningStep:
    """What the agent thought before it acted."""

    content: str
    step_type: str = "reasoning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionTrace:
    """One run of an agent, flat; `episode` is what rewards and datasets here take."""

    user_query: str
    final_response: str = ""
    tool_calls: tuple[ToolCallTrace, ...] = ()
    reasoning_steps: tuple[ReasoningStep, ...] = ()
    tasks_completed: int = 0
    tasks_failed: int = 0
    trace_id: str = ""
    agent_name: str = ""
    session_id: str = ""
    reward_score: float | None = None
    label: bool | None = None

    @property
    def episode(self) -> Episode:
        """The same as an episode."""
        row = {key: as_json(value) for key, value in asdict(self).items() if value is not None}
        [found] = import_toolbox.convert(row)
        return found.episode

    @classmethod
    def of(cls, episode: Episode, query: str = "") -> "ExecutionTrace":
        """An episode, flat; its question is what the user said first unless it is given."""
        messages = list(episode.trace.messages())
        said = [m for m in messages if m.role == "assistant"]
        evidence = episode.outcome.evidence if episode.outcome else {}
        return cls(
            trace_id=episode.trace.id,
            agent_name=episode.trace.env,
            user_query=query or next((m.content for m in messages if m.role == "user"), ""),
            final_response=said[-1].content if said else "",
            tool_calls=tuple(_calls(messages)),
            reasoning_steps=tuple(ReasoningStep(content=m.reasoning) for m in said if m.reasoning),
            tasks_completed=_number(evidence.get("tasks_completed")),
            tasks_failed=_number(evidence.get("tasks_failed")),
            reward_score=episode.score.value,
        )


def _calls(messages: Sequence[Message]) -> Iterator[ToolCallTrace]:
    answers = {m.tool_call_id: m for m in messages if m.role == "tool"}
    for message in messages:
        for call in message.tool_calls:
            answer = answers.get(call.id)
            failed = answer is not None and answer.is_error
            told = answer.content if answer else ""
            yield ToolCallTrace(
                tool_name=call.name,
                arguments=dict(call.arguments),
                result=told,
                success=not failed,
                error=told if failed else "",
            )


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


class TraceCollector(Recorder):
    """`practicum.Recorder` under another name: what an agent does goes into a store.

    Example:
        ```
        collector = TraceCollector("traces.sqlite", env="isaa")
        hook_into_agent(agent, collector)
        ```
    """

    @contextmanager
    def start_trace(self, user_query: str, session_id: str = "") -> Iterator[Recording]:
        """Record the block as one run of the agent."""
        with self.episode(user_query) as recording:
            if session_id:
                recording.evidence["session_id"] = session_id
            yield recording


def hook_into_agent(agent: Any, collector: Recorder | None = None) -> Recorder:
    """Record every run of an agent, and its calls of functions by the functions' own names.

    The agent has `a_run(query, ...)`, and may have `arun_function(name, ...)`; both are awaited.

    Args:
        agent: The object; its two methods are replaced by recorded ones.
        collector: Where to; a new `TraceCollector` on `traces.sqlite` unless given.
    """
    recorder = collector or TraceCollector(DEFAULT_STORE)
    if not callable(getattr(agent, "a_run", None)):
        raise UserError(
            f"{type(agent).__name__} has no method a_run to hook into; wrap the function that runs "
            "it with practicum.record"
        )
    agent.a_run = recorder.agent(agent.a_run)
    if callable(call := getattr(agent, "arun_function", None)):
        agent.arun_function = _recorded_call(call)
    return recorder


def _recorded_call(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    async def recorded(name: str, *given: Any, **named: Any) -> Any:
        recording = current_recording()
        if recording is None:
            return await call(name, *given, **named)
        positions = {f"argument_{n}": value for n, value in enumerate(given, 1)}
        with recording.call(name, **positions, **named) as made:
            made.result = await call(name, *given, **named)
            return made.result

    return recorded


class CheckpointLoader:
    """The runs in an agent's checkpoints; what several checkpoints have in common is there once.

    Args:
        path: A checkpoint (JSON or pickle), or a folder of them.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def load_episodes(self) -> list[Episode]:
        """All of them, as episodes."""
        return [one.episode for one in self._load()]

    def load_traces(self) -> list[ExecutionTrace]:
        """All of them, flat."""
        return [ExecutionTrace.of(one.episode, one.task.instruction) for one in self._load()]

    def _load(self) -> list[Imported]:
        found: dict[str, Imported] = {}
        for file in files_in(self.path):
            for part in import_toolbox.read(file, 0):
                if part.problem:
                    raise UserError(f"{file} cannot be read as a checkpoint: {part.problem}")
                for one in part.found or ():
                    found.setdefault(one.episode.trace.id, one)
        return list(found.values())


Scored = ExecutionTrace | Episode


def _episode(trace: Scored) -> Episode:
    return trace.episode if isinstance(trace, ExecutionTrace) else trace


class BaseReward:
    """Something that scores one run from 0 to 1. Write your own by `compute`.

    Example:
        ```
        class Short(BaseReward):
            name = "short"
            def compute(self, trace):
                return 1.0 if len(trace.final_response) < 200 else 0.0
        ```
    """

    name: ClassVar[str] = "reward"
    weight: float = 1.0

    def compute(self, trace: ExecutionTrace) -> float | None:
        """The score; None where it cannot be said."""
        raise UserError(f"{type(self).__name__} has no compute(trace); write it, giving 0 to 1")


class ComponentReward(BaseReward):
    """A component of docs/rewards.md, with its options."""

    usual: ClassVar[Mapping[str, Any]] = {}
    usual_weight: ClassVar[float] = 1.0

    def __init__(self, weight: float | None = None, **options: Any) -> None:
        self.weight = self.usual_weight if weight is None else weight
        part = {"name": self.name, **self.usual, **options}
        config = build_config({"reward": {"components": [part]}}, type(self).__name__)
        self._config = config.reward
        self._reward: Reward | None = None

    def is_here(self) -> bool:
        """Whether what it needs is on this machine."""
        return True

    def compute(self, trace: ExecutionTrace) -> float | None:
        """The component's score."""
        return self.score(trace.episode)

    def score(self, episode: Episode) -> float | None:
        """The same of an episode, which has more than a flat trace."""
        # Built here: opening sandboxes and reading a labeler take a moment.
        self._reward = self._reward or REWARDS.for_traces(self._config)
        told = episode.trace
        task = Task(id=told.task_id, env=told.env, split="train")
        outcome = episode.outcome or Outcome(success=None)
        return run_to_end(self._reward.score(task, told, outcome)).value


FENCE = "```"
"""What code of an answer begins with."""

UNSAID = {"without": None}
"""What is not there, such as code, is not scored."""


class CodeExecutionReward(ComponentReward):
    """Code that was written runs, in a sandbox."""

    name, usual_weight, usual = "code_execution", 2.0, UNSAID

    def is_here(self) -> bool:
        """Whether a sandbox can be had."""
        try:
            REWARDS.open_sandboxes("auto")
        except UserError:
            return False
        return True

    def score(self, episode: Episode) -> float | None:
        """The component's score; without code no sandbox is looked for."""
        said = (m.content for m in episode.trace.messages() if m.role == "assistant")
        return super().score(episode) if any(FENCE in text for text in said) else self._without()

    def _without(self) -> float | None:
        [part] = self._config.components
        return getattr(part, "without", None)


class SyntaxValidationReward(ComponentReward):
    """Code that was written can be parsed."""

    name, usual = "syntax", UNSAID


class ToolSuccessReward(ComponentReward):
    """The share of tool calls that did not fail."""

    name, usual_weight = "tool_success", 2.0


class TaskCompletionReward(ComponentReward):
    """The share of tasks that were completed."""

    name, usual_weight = "task_completion", 1.5


class EfficiencyReward(ComponentReward):
    """What is left of a budget of calls and one of tokens, four characters each where not known."""

    name, usual_weight = "efficiency", 0.5
    usual: ClassVar[Mapping[str, Any]] = {
        "calls": 10,
        "tokens": 2000,
        "characters_per_token": 4,
        "only_successful": False,
    }


class FormatComplianceReward(ComponentReward):
    """Turns without XML."""

    name = "format"


class LearnedReward(ComponentReward):
    """What people's labels have taught: `LearnedReward(labeler="labeler")`.

    Without a name it takes the folder `labeler`, and says nothing where there is none yet.
    """

    name = "learned"
    usual: ClassVar[Mapping[str, Any]] = {"labeler": "labeler"}

    def __init__(self, weight: float | None = None, **options: Any) -> None:
        super().__init__(weight, **options)
        self._is_named = "labeler" in options

    def is_here(self) -> bool:
        """Whether there is a labeler, or one was named."""
        return self._is_named or Path(self.usual["labeler"]).exists()

    def score(self, episode: Episode) -> float | None:
        """What the labeler says."""
        return super().score(episode) if self.is_here() else None


class RewardEngine:
    """Several rewards as one number: their mean by weight, over those that can say something.

    Args:
        rewards: `BaseReward`s; all seven unless given. Code that an answer holds is then run, for
            which there has to be a sandbox.
    """

    def __init__(self, rewards: Sequence[BaseReward] | None = None) -> None:
        self.rewards: list[BaseReward] = [*(_usual_rewards() if rewards is None else rewards)]
        if not self.rewards:
            raise UserError("RewardEngine has no rewards; give some, such as ToolSuccessReward()")

    def compute_all(self, trace: Scored) -> dict[str, float]:
        """Each reward that can say something, by its name."""
        episode = _episode(trace)
        flat = trace if isinstance(trace, ExecutionTrace) else ExecutionTrace.of(trace)
        found: dict[str, float] = {}
        for reward in self.rewards:
            own = isinstance(reward, ComponentReward)
            value = reward.score(episode) if own else reward.compute(flat)  # type: ignore[attr-defined]
            if value is not None:
                found[reward.name] = float(value)
        return found

    def compute_combined(self, trace: Scored) -> float | None:
        """The mean by weight; None where no reward can say anything."""
        found = self.compute_all(trace)
        weights = {reward.name: reward.weight for reward in self.rewards if reward.name in found}
        total = sum(weights.values())
        return sum(found[name] * w for name, w in weights.items()) / total if total else None

    def compute_for_group(self, traces: Sequence[Scored]) -> list[float]:
        """Advantages of a group, as GRPO takes them: less the mean, over the deviation."""
        values = [self.compute_combined(trace) for trace in traces]
        known = [value for value in values if value is not None]
        middle, spread = (fmean(known), pstdev(known)) if known else (0.0, 0.0)
        return [0.0 if v is None or not spread else (v - middle) / spread for v in values]

    def get_binary_label(self, trace: Scored, threshold: float = 0.6) -> bool | None:
        """Whether it is a good one, for KTO; None where no reward can say anything."""
        value = self.compute_combined(trace)
        return None if value is None else value >= threshold


def usual_reward() -> dict[str, Any]:
    """What an engine takes unless told, as a config has it; without what is not here."""
    parts = [
        {"name": reward.name, "weight": reward.weight, **reward.usual}
        for reward in _usual_rewards()
        if reward.is_here()
    ]
    return {"components": parts, "combine": "mean"}


def _usual_rewards() -> list[ComponentReward]:
    return [
        CodeExecutionReward(),
        SyntaxValidationReward(),
        ToolSuccessReward(),
        TaskCompletionReward(),
        EfficiencyReward(),
        FormatComplianceReward(),
        LearnedReward(),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class KTOExample:
    """One answer, good or bad; a row of `AgenticTrainer.prepare_training_data`."""

    prompt: str
    completion: str
    label: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPOExample:
    """The answers to one question and what each earned."""

    prompt: str
    completions: tuple[str, ...]
    rewards: tuple[float, ...]


def _kto_example(unit: Unit) -> KTOExample:
    [one] = unit
    return KTOExample(
        prompt=_said(one.prompt), completion=_said(one.completion), label=bool(one.label)
    )


def _grpo_example(unit: Unit) -> GRPOExample:
    return GRPOExample(
        prompt=_said(unit[0].prompt),
        completions=tuple(_said(one.completion) for one in unit),
        rewards=tuple(one.reward or 0.0 for one in unit),
    )


def _said(messages: Sequence[Message]) -> str:
    return "\n\n".join(message.content for message in messages if message.content)


class DatasetPipeline:
    """`practicum dataset build` from Python.

    Args:
        source: A store of traces, a run, or a file of rows.
        kind: `kto`, `grpo`, `sft` or `dpo`.
        options: As `--balance`, `--heldout`, `--min-score` and others of the command.
    """

    kind: Kind = "kto"

    def __init__(
        self, source: str | Path = DEFAULT_STORE, kind: Kind | None = None, **options: Any
    ) -> None:
        self.source = Path(source)
        try:
            self._options = BuildOptions(kind=kind or self.kind, **options)
        except TypeError as error:
            raise UserError(
                f"{type(self).__name__}: {error}; see practicum dataset build"
            ) from None
        self._built: Built | None = None

    def build(self) -> Built:
        """Read, filter, pair, split and balance."""
        found = DatasetSource(name=str(self.source))
        self._built = run_to_end(build_dataset(found, self._options))
        return self._built

    def export(self, folder: str | Path, form: str = "jsonl") -> Path:
        """Write it: `jsonl`, `json` or `parquet`; `datasets.load_dataset(FOLDER)` reads it."""
        question = {"kind": self._options.kind, "from": str(self.source)}
        write_dataset(self._built or self.build(), Path(folder), form=form, question=question)
        return Path(folder)

    def get_statistics(self) -> dict[str, Any]:
        """Rows, and what was left out with the reasons."""
        built = self._built or self.build()
        reasons = dict(built.left_out.counts)
        return {"train": len(built.train), "heldout": len(built.heldout), "left_out": reasons}


class KTODatasetBuilder(DatasetPipeline):
    """Good and bad ones, balanced by weights."""

    kind: Kind = "kto"

    def examples(self) -> list[KTOExample]:
        """What is trained on, as text."""
        return [_kto_example(unit) for unit in (self._built or self.build()).train]


class GRPODatasetBuilder(DatasetPipeline):
    """Groups of scored answers to the same question; for `offline_grpo` and for other trainers."""

    kind: Kind = "grpo"

    def examples(self) -> list[GRPOExample]:
        """What is trained on, as text."""
        return [_grpo_example(unit) for unit in (self._built or self.build()).train]
