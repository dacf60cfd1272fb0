"""Config models of the small sections of a run. The docstring of a field is its help text."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from practicum.core.model_names import model_name


class ConfigModel(BaseModel):
    """Base of every config model: frozen, unknown keys refused, help from field docstrings."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


MIXTURE = "mixed"
"""The name of an environment that is several."""


class EnvConfig(ConfigModel):
    """Which environment, and its own options (`practicum tasks ENV --help` lists them)."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    name: str
    """Name of a registered environment, such as `math`."""

    @property
    def options(self) -> dict[str, Any]:
        """The environment's own options; its options model checks them."""
        return dict(self.model_extra or {})


def several(parts: Sequence[Any]) -> dict[str, Any]:
    """The values of an environment that a list of them stands for.

    >>> several(["math", {"name": "shell", "weight": 2}])["name"]
    'mixed'
    """
    return {"name": MIXTURE, "parts": list(parts)}


DEVICES = ("auto", "cpu", "cuda", "mps")


def device_name(name: str) -> str:
    """The name of a device, as torch names it.

    >>> device_name("cuda:1")
    'cuda:1'
    """
    kind, colon, number = name.partition(":")
    if name in DEVICES or (kind == "cuda" and colon and number.isdecimal() and number.isascii()):
        return f"{kind}{colon}{int(number)}" if colon else name
    raise ValueError(f"should be {', '.join(DEVICES)} or a GPU by its number, such as cuda:1")


class ModelConfig(ConfigModel):
    """Which model acts and learns."""

    name: Annotated[str, AfterValidator(model_name)] = "smollm2-135m"
    """A known name (`practicum models`), `tiny`, a hub id, a folder or a .gguf file."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the weights; `auto` is float32 on a CPU and bfloat16 on a GPU."""
    device: Annotated[str, AfterValidator(device_name)] = "auto"
    """Where it runs: `cpu`, `cuda`, a GPU by its number such as `cuda:1`, `mps`; `auto` is the best
    device present."""
    runtime: Literal["torch", "llama.cpp"] = "torch"
    """What computes it: `llama.cpp` runs a .gguf file as it is, which can act but not learn."""
    chat_template: str = ""
    """For a model that has none, or in place of its own: `chatml`, or a file with a Jinja template
    (`.jinja`). The template that a model comes with unless given."""


PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

LORA_PRESETS: dict[str, dict[str, Any]] = {
    "light": {"r": 8, "alpha": 16, "dropout": 0.0, "targets": PROJECTIONS[0:3:2]},
    "attention": {"r": 16, "alpha": 32, "dropout": 0.1, "targets": PROJECTIONS[:4]},
    "full": {"r": 16, "alpha": 32, "dropout": 0.0, "targets": PROJECTIONS},
}
"""Adapters by name: q and v; all of attention; all seven projections."""


class LoraConfig(ConfigModel):
    """The adapter that is trained: a preset's name, or the fields spelled out."""

    preset: Literal["light", "attention", "full"] | None = None
    """Start from a preset; other fields given beside it win over it."""
    r: int = Field(default=16, ge=1)
    """Rank."""
    alpha: int = Field(default=32, ge=1)
    """Scale: the adapter's output counts alpha / r."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of the adapter's inputs dropped while learning."""
    targets: tuple[str, ...] = PROJECTIONS
    """Names of the linear layers that get an adapter. Where a family calls them otherwise (GPT-2,
    Phi), a preset means that family's own."""
    start: str = ""
    """Folder of an adapter to go on from, such as a checkpoint or a served version; a fresh adapter
    unless given. Its rank, alpha and targets must be those above."""

    @model_validator(mode="before")
    @classmethod
    def _expand_preset(cls, value: Any) -> Any:
        preset = value.get("preset") if isinstance(value, dict) else None
        if isinstance(preset, str) and preset in LORA_PRESETS:
            return {**LORA_PRESETS[preset], **value}
        return value


class RolloutConfig(ConfigModel):
    """How episodes are made."""

    tasks_per_step: int = Field(default=8, ge=1)
    """Groups trained on in each step."""
    group_size: int = Field(default=8, ge=1)
    """Episodes of the same task that are compared with each other; 1 where nothing is compared."""
    max_turns: int = Field(default=8, ge=1)
    """Turns after which an episode is cut off."""
    max_tokens: int = Field(default=64, ge=1)
    """Tokens a turn may have."""
    temperature: float = Field(default=1.0, ge=0.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)
    """0 keeps every token."""
    replace_flat_groups: float = Field(default=1.0, ge=0.0)
    """Extra groups a step may try in place of groups whose scores are all equal, as a share of
    `tasks_per_step`; 0 never replaces. A task that a whole group failed is tried again at a higher
    temperature."""
    jump_start: bool = False
    """Episodes of tasks that keep failing begin after the first turns of their reference, which are
    played for them and not learned from: as many as it takes to succeed now and then, and fewer as
    they do. See docs/curriculum.md."""
    staleness: int = Field(default=0, ge=0)
    """Updates that the weights may be ahead of an episode's oldest tokens when it is learned from.
    With 0 acting and learning take turns; with more, episodes of later steps go on meanwhile."""
    answer_timeout_s: float = Field(default=900.0, gt=0.0)
    """Seconds an environment or a reward has for one answer: an opening, a turn, a check, a score.
    An episode that waits longer has failed and is masked."""

    def too_long(self, turns: Sequence[int]) -> str:
        """How many reference solutions have more turns than an episode, and what to type."""
        longer = [n for n in turns if n > self.max_turns]
        told = f"{len(longer)} of {len(turns)} references have more than {self.max_turns} turns"
        return f"{told}; type rollouts.max_turns={max(longer)}" if longer else ""


SHORTEST_WITH_WARM_START = 8
"""Steps of a run from which imitation is worth its time, unless it is asked for."""


class WarmStartConfig(ConfigModel):
    """Imitation of the environment's own solutions before practice."""

    name: Literal["auto", "reference", "none"] = "auto"
    """`reference`: imitate first; `none`: do not; `auto`: imitate where the environment has
    solutions and the model solves next to none of its tasks. A run keeps what was decided."""
    steps: int = Field(default=0, ge=0)
    """Steps of imitation, four updates each, out of the run's `steps`; 0 takes as many as it needs,
    at most three quarters of them, and none in a run of less than 8."""
    until: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of some training tasks whose solving ends imitation early; 0 ends it after `steps`, or
    with `steps: 0` at a half."""

    def steps_of(self, total: int) -> int:
        """Most steps of imitation in a run of so many steps, at least one of which is practice."""
        most = total * 3 // 4 if total >= SHORTEST_WITH_WARM_START else 0
        return min(self.steps or most, total - 1)


class EvalConfig(ConfigModel):
    """Evaluation on held-out tasks."""

    n: int = Field(default=100, ge=0)
    """Held-out tasks; 0 does not evaluate."""
    k: int = Field(default=1, ge=1)
    """Attempts at each."""
    every: int = Field(default=0, ge=0)
    """Evaluate every this many steps; 0 only before the first step and after the last."""
    temperature: float = Field(default=0.0, ge=0.0)
    """0 takes the most likely action. All else about sampling (`top_p`, `top_k`, `max_tokens`) is
    as in `rollouts`, whatever the temperature."""
    before: bool = True
    """Evaluate the untrained policy first."""
    seed: int = 0
    """Which held-out tasks; the same seed gives every policy the same ones."""


class CheckpointConfig(ConfigModel):
    """What is saved."""

    every: int = Field(default=5, ge=1)
    """Save every this many steps, and at the end."""
    keep: int = Field(default=3, ge=1)
    """Newest checkpoints kept; the best one is kept besides."""
    layout: Literal["step", "epoch"] = "step"
    """What their folders are called: `step_10`, or `epoch_10` where a step is an epoch; those are
    linked to in the run's own folder."""
    adapter_bin: bool = False
    """Write `adapter_model.bin` beside `adapter_model.safetensors`, for programs that read no
    other; it is never read here."""


class HardwareConfig(ConfigModel):
    """What the run may use."""

    profile: Literal["none", "auto", "cpu", "gpu", "ryzen"] = "none"
    """`none` leaves the defaults as they are; `auto` and the others fill in what the config does
    not say (the model, the adapter's rank, group sizes), as `practicum doctor` shows."""
    threads: int = Field(default=0, ge=0)
    """CPU threads of a process; 0 takes `OMP_NUM_THREADS`, or else its part of the cores that the
    machine or its container allows. Recorded in the run: another number gives other bits."""
    processes: int = Field(default=1, ge=1)
    """Processes that learn together, one for each GPU (`--processes`): each holds the whole policy
    and has a share of every update. The first also samples. See docs/scaling.md."""
    max_logprob_gap: float = Field(default=0.0, ge=0.0)
    """Sampler/learner distance that stops the run: root mean square over a step's tokens, in
    float32 also ten times as much for one of them; 0 takes 1e-4 in float32, 0.5 in bfloat16, where
    a token counts at most twice the limit."""

    def gap_limit(self, dtype: str) -> float:
        """The limit on the sampler/learner distance for weights of this precision."""
        # bfloat16 keeps 8 bits: sampler and learner round the same sums in another order, and
        # log-probabilities then differ by hundredths, those of actions that are seldom chosen by
        # two tenths. The learner goes by its own, and other weights differ by more.
        return self.max_logprob_gap or (1e-4 if dtype == "float32" else 0.5)
