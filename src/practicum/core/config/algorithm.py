"""How scores become an update."""

from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.stage import Stage

__all__ = ["OFFLINE", "AlgorithmConfig", "AlgorithmName"]

AlgorithmName = Literal[
    "grpo",
    "dr_grpo",
    "dapo",
    "gspo",
    "cispo",
    "rloo",
    "reinforce++",
    "ppo",
    "distill",
    "sft",
    "weighted_sft",
    "kto",
    "dpo",
]

_ONLINE: dict[str, Any] = {
    "discount": 1.0,
    "kl": 0.0,
    "kl_in": "loss",
    "reference": "base",
    "epochs": 1,
    "minibatches": 1,
    "max_ratio": None,
}
_GROUPED: dict[str, Any] = {"credit": "turn", "scale": "std", **_ONLINE}
_OFFLINE: dict[str, Any] = {"batch": 16}
_HELD: dict[str, Any] = {**_OFFLINE, "beta": 0.1, "reference": "base"}

TAKES: dict[str, dict[str, Any]] = {
    "grpo": {**_GROUPED, "clip": 0.2},
    "dr_grpo": {**_GROUPED, "scale": "none", "clip": 0.2},
    "dapo": {**_GROUPED, "clip": 0.2, "clip_high": 0.28, "filter_cut_off": False},
    "gspo": {**_GROUPED, "clip": 3e-4, "clip_high": 4e-4},
    "cispo": {**_GROUPED, "clip": 1.0, "clip_high": 4.0},
    "rloo": {key: v for key, v in _ONLINE.items() if key != "discount"} | {"clip": 0.2},
    "reinforce++": {**_ONLINE, "credit": "turn", "clip": 0.2, "baseline": True},
    "ppo": {
        **_ONLINE,
        "epochs": 4,
        "minibatches": 4,
        "clip": 0.2,
        "gae": "turn",
        "gae_lambda": 0.95,
        "entropy": 0.0,
        "value_coef": 0.5,
        "value_clip": 0.2,
        "value_lr": 1e-3,
    },
    "distill": {
        "teacher": None,
        "reward_coef": 0.0,
        "clip": 0.2,
        "epochs": 1,
        "minibatches": 1,
        "max_ratio": None,
    },
    "sft": _OFFLINE,
    "weighted_sft": {**_OFFLINE, "weigh": "exponential", "temperature": 1.0},
    "kto": {**_HELD, "desirable": 1.0, "undesirable": 1.0},
    "dpo": {**_HELD, "label_smoothing": 0.0, "loss": "sigmoid"},
}
"""The options of each method, with the values they have unless given."""

OFFLINE = frozenset({"sft", "weighted_sft", "kto", "dpo"})
"""Methods that learn from `data` rather than from the policy's own episodes."""


class AlgorithmConfig(Stage):
    """How scores become an update. An option that the method does not take is refused."""

    name: AlgorithmName = "grpo"
    lr: float = Field(default=3e-4, gt=0.0)
    """Learning rate of AdamW."""
    max_grad_norm: float = Field(default=1.0, gt=0.0)
    weight_decay: float = Field(default=0.0, ge=0.0)
    micro_batch_tokens: int = Field(default=0, ge=0)
    """Unique tokens that go through the model at once while learning; 0 takes what suits the
    machine's memory, as `practicum train --dry-run` shows. Another number gives other bits."""

    credit: Literal["turn", "episode"] | None = None
    """`turn`: each turn is credited with what it and later turns earned, where a reward for the
    whole episode counts as earned at its end; `episode`: every turn with the whole episode's
    score."""
    discount: float | None = Field(default=None, gt=0.0, le=1.0)
    """What a reward one turn later counts."""
    scale: Literal["std", "none"] | None = None
    """Whether advantages are divided by the group's standard deviation."""
    clip: float | None = Field(default=None, gt=0.0)
    """The ratio to the sampling policy is clipped to 1 ± this."""
    clip_high: float | None = Field(default=None, gt=0.0)
    """The ratio's upper bound is 1 + this; `clip` is then the lower one."""
    max_ratio: float | None = Field(default=None, ge=1.0)
    """A token's ratio to the policy that sampled it counts at most this, also where nothing clips
    it; unless given, 2 where rollouts.staleness is above 0, and else without limit."""
    kl: float | None = Field(default=None, ge=0.0)
    """Weight of the distance to the reference."""
    kl_in: Literal["loss", "reward"] | None = None
    """Whether that distance is part of the loss, or taken off what each token earned."""
    reference: Literal["base", "start"] | None = None
    """What `kl` and `beta` hold the policy to: the base model, or the policy that the stage started
    from, such as what an earlier stage has made."""
    epochs: int | None = Field(default=None, ge=1)
    """How many times the same episodes are learned from."""
    minibatches: int | None = Field(default=None, ge=1)
    """Updates that each of those times is divided into."""
    filter_cut_off: bool | None = None
    """Leave episodes out that a limit cut off (`dapo`)."""
    baseline: bool | None = None
    """Take the group's mean off before advantages are scaled over the step (`reinforce++`)."""
    gae: Literal["turn", "token"] | None = None
    """Whether a turn or a token is a step of the generalised advantage estimate (`ppo`)."""
    gae_lambda: float | None = Field(default=None, ge=0.0, le=1.0)
    """1 waits for what was earned, 0 trusts the value head."""
    entropy: float | None = Field(default=None, ge=0.0)
    """Weight of the entropy bonus."""
    value_coef: float | None = Field(default=None, ge=0.0)
    """Weight of the value head's error in the loss."""
    value_clip: float | None = Field(default=None, gt=0.0)
    """How far a new value may move from the old one before the error stops counting."""
    value_lr: float | None = Field(default=None, gt=0.0)
    """Learning rate of the value head."""
    teacher: str | None = None
    """Who is learned from (`distill`): a model's name, or the address of an endpoint that returns
    log-probabilities."""
    reward_coef: float | None = Field(default=None, ge=0.0)
    """What the reward counts beside the teacher (`distill`)."""
    batch: int | None = Field(default=None, ge=1)
    """Examples of an update, where the method learns from `data`."""
    weigh: Literal["exponential", "positive"] | None = None
    """How an example's reward becomes its weight (`weighted_sft`)."""
    temperature: float | None = Field(default=None, gt=0.0)
    """With `weigh: exponential`: rewards this far apart differ by a factor of e."""
    beta: float | None = Field(default=None, gt=0.0)
    """How closely the policy is held to the reference (`kto`, `dpo`)."""
    desirable: float | None = Field(default=None, ge=0.0)
    """What good examples count, besides the balance of the classes (`kto`)."""
    undesirable: float | None = Field(default=None, ge=0.0)
    label_smoothing: float | None = Field(default=None, ge=0.0, lt=0.5)
    """Share of pairs taken to be the wrong way round (`dpo`)."""
    loss: Literal["sigmoid", "ipo", "hinge"] | None = None
    """The form of the loss (`dpo`)."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, value: Any) -> Any:
        """What the method has unless told."""
        if not isinstance(value, dict):
            return value
        own = TAKES.get(str(value.get("name", "grpo")), {})
        given = {key: v for key, v in value.items() if v is not None}
        return {**{k: v for k, v in own.items() if v is not None}, **given}

    @model_validator(mode="after")
    def _only_its_own(self) -> "AlgorithmConfig":
        takes = TAKES[self.name]
        stray = [
            key for key in METHOD_OPTIONS if getattr(self, key) is not None and key not in takes
        ]
        if stray:
            raise PydanticCustomError(
                "algorithm",
                "{key} is not an option of {name}, which takes: {takes}",
                {"key": stray[0], "name": self.name, "takes": ", ".join(sorted(takes))},
            )
        if self.name == "distill" and self.teacher is None:
            raise PydanticCustomError(
                "algorithm",
                "distill needs algorithm.teacher, a model's name or the address of an endpoint",
            )
        return self

    @model_validator(mode="after")
    def _changes_something(self) -> "AlgorithmConfig":
        """Refuse what would be taken and then not be used."""
        discounted = self.discount is not None and self.discount < 1.0
        warm = self.temperature is not None and self.temperature != 1.0
        wrong = [
            (
                self.kl_in == "reward" and not self.kl,
                "kl_in: reward changes nothing while kl is 0; give algorithm.kl too",
            ),
            (
                self.reference == "start" and self.kl == 0.0,
                "reference: start changes nothing while kl is 0; give algorithm.kl too",
            ),
            (
                discounted and self.credit == "episode" and self.scale is not None,
                "discount changes nothing with credit: episode; take one of them out",
            ),
            (
                warm and self.weigh == "positive",
                "temperature changes nothing with weigh: positive; take one of them out",
            ),
            (
                bool(self.label_smoothing) and self.loss != "sigmoid",
                "label_smoothing goes with loss: sigmoid; take it out, or choose that loss",
            ),
            (
                self.name == "kto" and self.batch == 1,
                "kto compares the examples of an update with each other, and batch is 1; give at "
                "least 2",
            ),
        ]
        for is_so, sentence in wrong:
            if is_so:
                raise PydanticCustomError("algorithm", sentence)
        return self

    @property
    def is_offline(self) -> bool:
        """Whether it learns from `data` rather than from episodes it makes."""
        return self.name in OFFLINE


METHOD_OPTIONS = frozenset(key for takes in TAKES.values() for key in takes)
"""Every option that some methods take and others do not."""
