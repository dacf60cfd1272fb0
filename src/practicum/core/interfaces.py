"""Every contract between the rooms: the whole design on one page, in the order data moves.

1. A `Curriculum` picks tasks of an `Environment`, which opens a `Session` for each; its untrusted
   commands run in a `Sandbox`.
2. An `Agent` drives the session through a `Conversation`; a `ChatCodec` turns messages into tokens
   and a `Sampler` draws the next turn. Tokens are recorded as they are sampled.
3. A `Reward` scores the episode from the evidence the session left; a `GroupReward` compares the
   episodes of one task. A `TraceStore` keeps them.
4. An `Algorithm` turns scores into credit and loss; an `OfflineMethod` does so for recorded
   examples.
5. The `Learner` updates the weights, which the sampler uses at once.

Rooms take each other as arguments typed by these Protocols; only `assemble` knows the concrete
classes. The records they exchange are in the other files of this room; optional methods of an
environment, codec or sampler are in `capabilities`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from practicum.core.command import CommandResult, SandboxSpec
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import (
    Averaging,
    Batch,
    Credit,
    Episode,
    Estimates,
    Floats,
    Group,
    Sample,
)
from practicum.core.sampling import ActionForm, Actions, Completion, SamplingRequest
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Split, Task, as_reward
from practicum.core.trace import Message, StopReason, ToolCall, Tools, ToolSpec, Trace

T = TypeVar("T")

# Which tasks, and where they are done.


class Curriculum(Protocol):
    """Chooses the tasks of a step, given how earlier ones went."""

    def next_tasks(self, count: int) -> list[Task]:
        """Tasks for the next `count` groups."""

    def observe(self, group: Group) -> None:
        """Take note of a finished group."""

    def state(self) -> dict[str, JSON]:
        """What a checkpoint must hold for `restore`."""

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Continue from a saved `state`."""


class Environment(Protocol):
    """A source of tasks; opens one session per episode. See `capabilities` for optional methods."""

    name: str

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Tasks of one split, in an order given by the seed; may be endless."""

    def open(self, task: Task) -> AbstractAsyncContextManager[Any]:
        """Start one episode: yields a `Session` or a `DiscreteSession`."""

    def reference(self, task: Task) -> Sequence[str]:
        """The assistant turns of a solution that earns the full reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the environment returns for one turn, like the result of Gymnasium's `step`."""

    message: Message
    """Shown to the policy next."""
    reward: float | None = None
    """Reward of the turn; None when the environment rewards whole episodes."""
    terminated: bool = False
    """The environment ended the episode. Turn limits (truncation) are the agent's business."""

    def __post_init__(self) -> None:
        if not isinstance(self.message, Message):
            raise TypeError(
                f"an observation's message is {self.message!r}, not a practicum.Message"
            )
        if self.reward is not None:
            object.__setattr__(self, "reward", as_reward(self.reward))


@runtime_checkable
class Session(Protocol):
    """One live episode with tools; single use, there is no reset."""

    def prompt(self) -> list[Message]:
        """The messages that open the conversation."""

    def tools(self) -> list[ToolSpec]:
        """Tools the policy may call."""

    async def call(self, call: ToolCall) -> Observation:
        """Execute one tool call."""

    async def outcome(self) -> Outcome:
        """The evidence for rewards, collected before the session closes."""


@runtime_checkable
class DiscreteSession(Protocol):
    """One live episode in which each turn is one action, written as text."""

    def prompt(self) -> list[Message]:
        """The messages that open the conversation."""

    def actions(self) -> tuple[ActionForm, ...]:
        """The actions allowed now; none when the policy writes freely and `act` parses the text."""

    async def act(self, text: str) -> Observation:
        """Execute the action written as `text`."""

    async def outcome(self) -> Outcome:
        """The evidence for rewards, collected before the session closes."""


class Sandboxes(Protocol):
    """Opens sandboxes of one kind, many at once."""

    @property
    def kind(self) -> str:
        """See `Sandbox.kind`; stored with the run."""

    async def open(self, spec: SandboxSpec) -> "Sandbox":
        """A new sandbox; raises `EnvironmentFailure` when none can be started."""

    async def close(self) -> None:
        """Close every open sandbox and the processes that serve them."""


class Sandbox(Protocol):
    """Runs untrusted commands; `close` removes every process and file of it."""

    @property
    def kind(self) -> str:
        """The isolation: `bubblewrap`, `landlock`, `docker`, `podman`, `process` or `fake`."""

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        """Run one command in a process of its own until it ends or reaches its limit."""

    async def judge(
        self, command: Sequence[str], *, timeout_s: float, stdin: bytes = b""
    ) -> CommandResult:
        """Run a checker over the state the policy left, safe from what the policy did to it.

        It runs in a fresh process with the system's original programs and libraries, whatever was
        changed inside, while every process that is still running is frozen.
        """

    async def inspect(self, program: bytes, *, timeout_s: float) -> CommandResult:
        """Run a checker in Python that reads the state and starts no program.

        `program` is the text of a module that runs its `main` when it is `__main__`. Where the
        sandbox can, it is loaded outside of what the policy could change, with all it imports, and
        only `main` runs inside. Otherwise it is judged like a command.
        """

    async def read(self, path: str, limit: int = 1_048_576) -> bytes:
        """The content of a regular file inside.

        Raises `FileNotFoundError` if there is none, `ValueError` if it has more than `limit` bytes
        or is not a regular file.
        """

    async def write(self, path: str, content: bytes) -> None:
        """Write a file inside, creating its parent folders."""

    async def close(self) -> None:
        """Kill every process and remove every file. Idempotent."""


# One episode: an agent drives the session, the model writes its turns.


class Agent(Protocol):
    """Drives one session from its prompt to its end."""

    async def run(self, session: Any, conversation: "Conversation") -> StopReason:
        """Run the session turn by turn; returns why it ended."""


class Conversation(Protocol):
    """One episode's access to the model; records the tokens of every turn for training."""

    async def complete(
        self, messages: Sequence[Message], actions: Actions = (), tools: Tools = ()
    ) -> Completion:
        """Append messages and sample the assistant's next turn.

        `actions` restrict the turn to one of them. `tools` go into the first prompt.
        """


class ChatCodec(Protocol):
    """Turns messages into tokens, append only: tokens already sampled are never encoded again."""

    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> tuple[int, ...]:
        """Tokens of the opening messages, generation prompt included.

        `tools` are rendered by the chat template, or as text if it has no place for tools.
        """

    def extend(self, messages: Sequence[Message], ended_turn: bool) -> tuple[int, ...]:
        """Tokens to append after a completion so that `messages` follow it.

        `ended_turn` says whether the completion itself ended with the end-of-turn token.
        """

    def write(self, message: Message) -> tuple[int, ...]:
        """Tokens of an assistant's turn as the model would have sampled it, its end included."""


class Sampler(Protocol):
    """Draws completions."""

    async def sample(self, request: SamplingRequest) -> Completion:
        """One completion; concurrent calls are batched."""

    def fingerprint(self) -> str:
        """Identifies the weights the next token will be drawn from."""

    def forget(self) -> None:
        """Clear the prefix cache, so that later completions do not depend on earlier ones."""


# What the episode was worth, and where it is kept.


@runtime_checkable
class Reward(Protocol):
    """Scores an episode from its stored evidence alone, so that it can be scored again later."""

    async def score(self, task: Task, trace: Trace, outcome: Outcome) -> Score:
        """The score, with its components."""


class GroupReward(Protocol):
    """Scores that depend on the other episodes of the group."""

    async def rescore(self, group: Group) -> Group:
        """The group with new scores for its episodes."""


class TraceStore(Protocol):
    """Keeps episodes and their tasks."""

    def begin_attempt(self, attempt: int, from_step: int) -> None:
        """A run starts or resumes: hide what earlier attempts recorded after `from_step`."""

    def add(
        self, episode: Episode, *, attempt: int, step: int, purpose: str, task: Task | None = None
    ) -> None:
        """Store one episode, and its task if given; survives a kill of this process."""

    def add_many(
        self,
        episodes: Iterable[Episode],
        *,
        attempt: int,
        step: int,
        purpose: str,
        tasks: Iterable[Task] = (),
    ) -> None:
        """Store all episodes and tasks in one transaction."""

    def episodes(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> Iterator[Episode]:
        """Stored episodes, oldest first; of a repeated step only its newest attempt.

        `limit` keeps the newest so many.
        """


# How scores, or recorded examples, become a loss.


Need = Literal["base", "values", "entropy", "teacher"]
"""What a loss or credit reads besides the policy's log-probabilities: those of the base model (the
adapter switched off), the value head's values, entropies with gradient, those of a teacher."""


class Objective(Protocol):
    """A loss over per-token terms: all that the learner knows of an algorithm."""

    @property
    def epochs(self) -> int:
        """How many times an update goes through its samples."""

    @property
    def loss_needs(self) -> frozenset[Need]:
        """What the loss reads besides the policy's log-probabilities."""

    @property
    def by_sequence(self) -> bool:
        """Whether the loss is per sequence (GSPO), so that a sample's terms must not be split."""

    @property
    def from_policy(self) -> bool:
        """Whether the policy sampled the tokens itself, so that sampler and learner must agree."""

    def loss(self, terms: LossTerms) -> LossReport:
        """The loss to minimise, a sum over the terms."""


class Algorithm(Objective, Protocol):
    """An online method: credit assignment and loss, both pure functions."""

    @property
    def minibatches(self) -> int:
        """Optimizer steps per epoch."""

    @property
    def averaging(self) -> Averaging:
        """How the loss is averaged over tokens and episodes."""

    @property
    def credit_needs(self) -> frozenset[Need]:
        """What `credit` reads besides the scores."""

    def is_informative(self, group: Group) -> bool:
        """Whether a group gives any gradient; other groups may be replaced by new ones."""

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """For each group, the credit of each of its usable episodes.

        Args:
            groups: The step's informative groups.
            estimates: What `credit_needs` asks for, by the id of the trace.
        """


class LabelledExample(Protocol):
    """What an offline method may read of one recorded conversation."""

    @property
    def id(self) -> str:
        """Named in error messages."""

    @property
    def label(self) -> bool | None:
        """Desirable or not (KTO)."""

    @property
    def pair(self) -> str:
        """Id that the two sides of a preference pair share (DPO)."""

    @property
    def chosen(self) -> bool | None:
        """Whether it is the chosen side of its pair (DPO)."""

    @property
    def weight(self) -> float:
        """Factor of its loss (SFT)."""

    @property
    def reward(self) -> float | None:
        """Score of its episode (weighted SFT)."""


Examples = Sequence[LabelledExample]
Sums = Floats | None
"""A summed log-probability of each example's completion, (N,); None unless the method needs it."""
SumPair = tuple[Floats, Floats] | None
Advantages = tuple[Floats, float | None, Mapping[str, float]]
"""Each example's advantage, the method's loss if it has one, and metrics."""


class OfflineMethod(Protocol):
    """SFT, KTO, DPO or recorded GRPO as a pure function: what each example's tokens count.

    The first three have gradients of the form sum(advantage * grad log p(example)), so the learner
    can train them with one plain likelihood loss; recorded GRPO is an `Objective` of its own.
    """

    @property
    def kind(self) -> Literal["sft", "kto", "dpo", "grpo"]:
        """What its examples must have.

        `dpo` examples come in pairs, the chosen one first, `grpo` examples in groups; both share
        their `pair`.
        """

    @property
    def needs_measure(self) -> bool:
        """Whether it reads `policy_sums` and `base_sums`."""

    @property
    def needs_mismatched(self) -> bool:
        """Whether it reads `mismatched`: each prompt with another example's completion (KTO)."""

    def advantages(
        self, rows: Examples, policy_sums: Sums, base_sums: Sums, mismatched: SumPair
    ) -> Advantages:
        """Each example's advantage, the method's loss if it has one, and metrics.

        Args:
            rows: The N examples of an update.
            policy_sums: The policy's summed log-probability of each completion, (N,).
            base_sums: The reference model's, (N,).
            mismatched: The policy's and the reference's of the mismatched examples, (N,) each.
        """


# The weights.


class Teacher(Protocol):
    """A model whose log-probabilities of the sampled tokens the policy is trained towards."""

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """For each sample, the log-probabilities of its loss tokens, in token order."""


class Learner(Protocol):
    """Updates weights and publishes them to the sampler, by a version that each token names."""

    def update(self, batches: Sequence[Batch], objective: Objective) -> "UpdateReport":
        """One optimizer step for each minibatch of each of the objective's epochs; published."""

    def publish(self) -> str:
        """Let the sampler draw from the weights as they are now; their version."""

    async def beside_loop(self, work: Callable[[], T]) -> T:
        """Do work that updates where updates are computed, while the event loop goes on."""

    def measure(self, batches: Sequence[Batch], needs: frozenset[Need]) -> "list[Measured]":
        """Forward passes only: log-probabilities of the terms, and what `needs` asks for."""

    def retune(self, settings: Any) -> None:
        """Start the next training stage: new settings, a fresh optimizer, the same weights."""

    def scale_rate(self, share: float) -> None:
        """Take the next updates at this share of the settings' learning rate."""

    def fingerprint(self) -> str:
        """Identifies the weights, computed from the tensors themselves."""

    def save(self, folder: Path) -> None:
        """Write adapter, optimizer state and random state into an existing folder."""

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote, bit for bit."""


class LivePolicy(Protocol):
    """A policy in training: one end samples, the other updates and publishes to it."""

    @property
    def name(self) -> str:
        """Of its base model."""

    @property
    def sampler(self) -> Sampler:
        """The end that acts."""

    @property
    def learner(self) -> Learner:
        """The end that is updated."""

    @property
    def codec(self) -> Any:
        """The `ChatCodec` of its base model."""

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of its base model."""

    @property
    def max_positions(self) -> int:
        """How many tokens the model can tell the places of."""

    @property
    def trainable_share(self) -> tuple[int, int]:
        """Trainable parameters, and the base model's."""

    def spell(self, text: str, actions: Actions) -> Completion:
        """A turn as if it had been sampled: with the tokens it takes and what they were among."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Forward-pass results for one batch's M terms; None where not asked for."""

    logprobs: Floats  # (M,)
    base_logprobs: Floats | None = None  # (M,)
    values: Floats | None = None  # (M,)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """What one update did; every number is over the whole update."""

    applied: bool
    """False when a loss or gradient was not finite: then none of its optimizer steps is kept."""
    loss: float
    grad_norm: float
    entropy: float
    clip_share: float
    value_loss: float | None
    """None where there is no value head."""
    kl_to_base: float | None
    """The k3 estimate: mean of exp(d) - d - 1 over the compared tokens, d the base model's
    log-probability minus the policy's. Never negative, unbiased for the KL divergence. None where
    the update was not compared with the base model."""
    logprob_gap: float
    """Root mean square difference of the sampler's and the learner's log-probabilities."""
    largest_gap: float
    """The largest absolute difference of one token."""
    tokens: int
    row_tokens: int
    fingerprint: str
    """Of the weights after the update."""
    truncated_share: float | None = None
    """Share of the terms, by weight, whose importance ratio was truncated; None if never done."""
    out_of_memory: int = 0
    """How often a micro-batch ran out of memory."""
    micro_batch_splits: int = 0
    """Micro-batches split in two because they did not fit, or were known not to."""
    gradient_checkpointing: bool = False
    """Whether activations were recomputed in the backward pass when the update ended."""
    memory_notice: str = ""
    """One sentence on what running out of memory changed; empty where it did not happen."""
