"""The `algorithm` section: one config model per algorithm, joined in a union by `name`."""

import math
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar, Literal, cast, get_args

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from practicum.core.config.config_sections import ConfigModel
from practicum.core.user_code import names_code

WARM_UP = 0.1
"""Share of a stage's steps over which `schedule: linear` lets the rate rise."""


ALONE = "compares the episodes of a group, and rollouts.group_size is 1; give at least 2"


class AlgorithmConfig(ConfigModel):
    """What every method takes."""

    name: str
    lr: float = Field(default=2e-4, gt=0.0)
    """Learning rate of AdamW."""
    schedule: Literal["constant", "linear"] = "constant"
    """`linear`: the rate rises over the first tenth of the stage's steps, then falls to 0 after the
    last. A run that is to be made longer later is better off with `constant`."""
    max_grad_norm: float = Field(default=1.0, gt=0.0)
    weight_decay: float = Field(default=0.0, ge=0.0)
    micro_batch_tokens: int = Field(default=0, ge=0)
    """Unique tokens that go through the model at once while learning; 0 takes what suits the
    machine's memory, as `practicum train --dry-run` shows. Another number gives other bits."""

    is_offline: ClassVar[bool] = False
    """Whether it learns from `data` rather than from episodes it makes."""

    @property
    def label(self) -> str:
        """Its name in tables: of the user's own the class alone."""
        return self.name.rpartition(":")[2]

    def for_episodes(self, episodes: int) -> "AlgorithmConfig":
        """The options with what depends on the number of a step's episodes worked out."""
        return self

    def why_not_in_groups_of(self, group_size: int) -> str:
        """What is wrong with groups of so many episodes; empty where nothing is."""
        return ""

    def rate_share(self, done: int, steps: int) -> float:
        """What the learning rate is multiplied by after so many of a stage's steps.

        >>> [SftConfig(schedule="linear").rate_share(done, 5) for done in range(5)]
        [0.5, 1.0, 0.75, 0.5, 0.25]
        """
        if self.schedule == "constant":
            return 1.0
        rising = math.ceil(steps * WARM_UP)  # the first updates of Adam are as large as it allows
        if done < rising:
            return (done + 1) / (rising + 1)
        return (steps - done) / (steps - rising)


class OnlineConfig(AlgorithmConfig):
    """Methods that learn from episodes the policy makes itself."""

    epochs: int = Field(default=1, ge=1)
    """How many times the same episodes are learned from."""
    minibatches: int = Field(default=1, ge=1)
    """Updates that each of those times is divided into."""
    batch_size: int = Field(default=0, ge=0)
    """Episodes of an update at the most, in place of `minibatches`; 0 leaves it to that."""
    max_ratio: float | None = Field(default=None, ge=1.0)
    """A token's ratio to the policy that sampled it counts at most this, also where nothing clips
    it; unless given, 2 where rollouts.staleness is above 0, and else without limit."""
    clip: float = Field(default=0.2, gt=0.0)
    """The ratio to the sampling policy is clipped to 1 ± this."""

    def for_episodes(self, episodes: int) -> "OnlineConfig":
        """With `batch_size`, as many minibatches as these episodes make.

        >>> PpoConfig(batch_size=4).for_episodes(50).minibatches
        13
        """
        if not self.batch_size:
            return self
        count = math.ceil(episodes / self.batch_size)
        return self.model_copy(update={"minibatches": count, "batch_size": 0})


class KlConfig(OnlineConfig):
    """Methods that may be kept near a reference."""

    kl: float = Field(default=0.0, ge=0.0)
    """Weight of the distance to the reference."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Whether that distance is part of the loss, or taken off what each token earned."""
    reference: Literal["base", "start"] = "base"
    """What `kl` holds the policy to: the base model, or the policy that the stage started from,
    such as what an earlier stage has made."""

    @model_validator(mode="after")
    def _kl_is_used(self) -> "KlConfig":
        for key, usual in (("kl_in", "loss"), ("reference", "base")):
            if not self.kl and (value := getattr(self, key)) != usual:
                raise _mistake(
                    f"{key}: {value} changes nothing while kl is 0; give algorithm.kl too"
                )
        return self


class GroupConfig(KlConfig):
    """Methods that compare the episodes of one task with each other."""

    credit: Literal["turn", "episode"] = "turn"
    """`turn`: each turn is credited with what it and later turns earned, where a reward for the
    whole episode counts as earned at its end; `episode`: every turn with the whole episode's
    score."""
    discount: float = Field(default=1.0, gt=0.0, le=1.0)
    """What a reward one turn later counts."""
    scale: Literal["std", "none"] = "std"
    """Whether advantages are divided by the group's standard deviation."""

    def why_not_in_groups_of(self, group_size: int) -> str:
        """See `AlgorithmConfig`."""
        return ALONE if group_size == 1 else ""

    @model_validator(mode="after")
    def _discount_is_used(self) -> "GroupConfig":
        if self.discount < 1.0 and self.credit == "episode":
            raise _mistake("discount changes nothing with credit: episode; take one of them out")
        return self


class GrpoConfig(GroupConfig):
    """GRPO."""

    name: Literal["grpo"] = "grpo"


class DrGrpoConfig(GroupConfig):
    """Dr. GRPO."""

    name: Literal["dr_grpo"] = "dr_grpo"
    scale: Literal["std", "none"] = "none"
    """Whether advantages are divided by the group's standard deviation."""


class DapoConfig(GroupConfig):
    """DAPO."""

    name: Literal["dapo"] = "dapo"
    clip: float = Field(default=0.2, gt=0.0)
    """The ratio's lower bound is 1 - this."""
    clip_high: float = Field(default=0.28, gt=0.0)
    """The ratio's upper bound is 1 + this."""
    filter_cut_off: bool = False
    """Leave episodes out that a limit cut off."""


class GspoConfig(GroupConfig):
    """GSPO; the bounds are the paper's, far narrower than those of a token."""

    name: Literal["gspo"] = "gspo"
    clip: float = Field(default=3e-4, gt=0.0)
    """The lower bound of a sequence's ratio is 1 - this."""
    clip_high: float = Field(default=4e-4, gt=0.0)
    """The upper bound of a sequence's ratio is 1 + this."""


class CispoConfig(GroupConfig):
    """CISPO."""

    name: Literal["cispo"] = "cispo"
    clip: float = Field(default=1.0, gt=0.0)
    """The ratio's lower bound is 1 - this; 1 is none, since a ratio is never negative."""
    clip_high: float = Field(default=4.0, gt=0.0)
    """The ratio's upper bound is 1 + this."""


class RlooConfig(KlConfig):
    """RLOO."""

    name: Literal["rloo"] = "rloo"

    def why_not_in_groups_of(self, group_size: int) -> str:
        """See `AlgorithmConfig`."""
        return ALONE if group_size == 1 else ""


class ReinforcePlusPlusConfig(KlConfig):
    """REINFORCE++."""

    name: Literal["reinforce++"] = "reinforce++"
    credit: Literal["turn", "episode"] = "turn"
    """`turn`: each turn is credited with what it and later turns earned; `episode`: every turn with
    the whole episode's score."""
    discount: float = Field(default=1.0, gt=0.0, le=1.0)
    """What a reward one turn later, and what a later turn pays for KL, counts."""
    baseline: bool = True
    """Take the group's mean off before advantages are scaled over the step."""

    def why_not_in_groups_of(self, group_size: int) -> str:
        """See `AlgorithmConfig`."""
        if group_size > 1 or not self.baseline:
            return ""
        return (
            "takes a group's mean off, and rollouts.group_size is 1; give at least 2, or baseline: "
            "false"
        )


class PpoConfig(KlConfig):
    """PPO with a value head."""

    name: Literal["ppo"] = "ppo"
    epochs: int = Field(default=4, ge=1)
    """How many times the same episodes are learned from."""
    minibatches: int = Field(default=4, ge=1)
    """Updates that each of those times is divided into."""
    discount: float = Field(default=1.0, gt=0.0, le=1.0)
    """What a reward one step later counts."""
    gae: Literal["turn", "token"] = "turn"
    """Whether a turn or a token is a step of the generalised advantage estimate."""
    gae_lambda: float = Field(default=0.95, ge=0.0, le=1.0)
    """1 waits for what was earned, 0 trusts the value head."""
    entropy: float = Field(default=0.0, ge=0.0)
    """Weight of the entropy bonus."""
    value_coef: float = Field(default=0.5, ge=0.0)
    """Weight of the value head's error in the loss."""
    value_clip: float = Field(default=0.2, ge=0.0)
    """How far a new value may move from the old one before the error stops counting; 0 does not
    limit it."""
    value_lr: float = Field(default=1e-3, gt=0.0)
    """Learning rate of the value head."""


class DistillConfig(OnlineConfig):
    """On-policy distillation."""

    name: Literal["distill"] = "distill"
    teacher: str
    """Who is learned from: a model's name, or the address of an endpoint that returns
    log-probabilities."""
    reward_coef: float = Field(default=0.0, ge=0.0)
    """What the comparison of scores within the group counts beside the teacher."""


class OwnAlgorithmConfig(OnlineConfig):
    """An algorithm of the user's or of another package; its class checks its own options."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    @property
    def given(self) -> dict[str, Any]:
        """What was given besides its name, and not left to the class's own defaults."""
        return self.model_dump(exclude_unset=True, exclude={"name"})


class OfflineConfig(AlgorithmConfig):
    """Methods that learn from `data`."""

    batch: int = Field(default=16, ge=1)
    """Examples of an update; pairs with `dpo`, groups with `offline_grpo`."""
    updates: int = Field(default=1, ge=1)
    """Updates of a step."""

    is_offline: ClassVar[bool] = True


class SftConfig(OfflineConfig):
    """Supervised fine-tuning."""

    name: Literal["sft"] = "sft"
    lr: float = Field(default=3e-4, gt=0.0)
    """Learning rate of AdamW."""


class WeightedSftConfig(OfflineConfig):
    """Supervised fine-tuning, weighted by reward."""

    name: Literal["weighted_sft"] = "weighted_sft"
    weigh: Literal["exponential", "positive"] = "exponential"
    """How an example's reward becomes its weight."""
    temperature: float = Field(default=1.0, gt=0.0)
    """With `weigh: exponential`: rewards this far apart differ by a factor of e."""

    @model_validator(mode="after")
    def _temperature_is_used(self) -> "WeightedSftConfig":
        if self.temperature != 1.0 and self.weigh == "positive":
            raise _mistake("temperature changes nothing with weigh: positive; take one of them out")
        return self


class OfflineGrpoConfig(OfflineConfig):
    """GRPO on recorded groups."""

    name: Literal["offline_grpo"] = "offline_grpo"
    clip: float = Field(default=0.2, gt=0.0)
    """The ratio to the policy that answered is clipped to 1 ± this."""
    max_ratio: float | None = Field(default=2.0, ge=1.0)
    """A token's ratio counts at most this, also where nothing clips it; null is no limit."""
    scale: Literal["std", "none"] = "std"
    """Whether advantages are divided by the group's standard deviation."""
    reference: Literal["base", "start"] = "start"
    """Which policy is taken to have given the answers whose log-probabilities were not recorded:
    the base model, or the policy that the stage started from."""


class PreferenceConfig(OfflineConfig):
    """Methods that learn what is preferred, held to a reference."""

    beta: float = Field(default=0.1, gt=0.0)
    """How closely the policy is held to the reference."""
    reference: Literal["base", "start"] = "base"
    """What `beta` holds the policy to: the base model, or the policy that the stage started from,
    such as what an earlier stage has made."""


class KtoConfig(PreferenceConfig):
    """KTO."""

    name: Literal["kto"] = "kto"
    desirable: float = Field(default=1.0, ge=0.0)
    """What good examples count, besides the balance of the classes."""
    undesirable: float = Field(default=1.0, ge=0.0)
    """What bad examples count, besides the balance of the classes."""

    @model_validator(mode="after")
    def _has_others(self) -> "KtoConfig":
        if self.batch == 1:
            raise _mistake(
                "kto compares the examples of an update with each other, and batch is 1; give at "
                "least 2"
            )
        return self


class DpoConfig(PreferenceConfig):
    """DPO and two relatives."""

    name: Literal["dpo"] = "dpo"
    label_smoothing: float = Field(default=0.0, ge=0.0, lt=0.5)
    """Share of pairs taken to be the wrong way round."""
    loss: Literal["sigmoid", "ipo", "hinge"] = "sigmoid"
    """The form of the loss."""

    @model_validator(mode="after")
    def _smoothing_is_used(self) -> "DpoConfig":
        if self.label_smoothing and self.loss != "sigmoid":
            raise _mistake(
                "label_smoothing goes with loss: sigmoid; take it out, or choose that loss"
            )
        return self


def _mistake(sentence: str) -> PydanticCustomError:
    return PydanticCustomError("algorithm", "{sentence}", {"sentence": sentence})


def _by_name(value: Any) -> Any:
    """Accept a bare name; default to GRPO; drop empty values, as if they were not given."""
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict):
        return {"name": "grpo", **{key: v for key, v in value.items() if v is not None}}
    return value


_Models = (
    GrpoConfig
    | DrGrpoConfig
    | DapoConfig
    | GspoConfig
    | CispoConfig
    | RlooConfig
    | ReinforcePlusPlusConfig
    | PpoConfig
    | DistillConfig
    | SftConfig
    | WeightedSftConfig
    | KtoConfig
    | DpoConfig
    | OfflineGrpoConfig
)
ALGORITHM_PLUGINS = "practicum.algorithms"
"""The group of entry points by which a package brings algorithms."""


def algorithm_plugins() -> list[str]:
    """The names of the algorithms that installed packages bring."""
    return sorted(point.name for point in entry_points(group=ALGORITHM_PLUGINS))


def _own_or_built_in(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """The options of an algorithm by its name: whoever names code brings options of their own."""
    name = value.get("name") if isinstance(value, dict) else getattr(value, "name", None)
    if not isinstance(name, str) or name in ALGORITHMS:
        return check(value)
    if isinstance(value, OnlineConfig):  # its class has checked it already
        return value
    if names_code(name) or name in algorithm_plugins():
        return OwnAlgorithmConfig.model_validate(value)
    return check(value)


AnyAlgorithm = Annotated[
    SerializeAsAny[_Models],
    Field(discriminator="name"),
    WrapValidator(_own_or_built_in),
    BeforeValidator(_by_name),
]
"""The options of any method by its `name`; `OwnAlgorithmConfig` where it is none of ours."""

ALGORITHMS: dict[str, type[AlgorithmConfig]] = {
    model.model_fields["name"].default: model for model in get_args(_Models)
}
"""Each method's options by its name."""


OF_BASES: dict[str, type[AlgorithmConfig]] = {
    "GroupMethod": GroupConfig,
    "KlMethod": KlConfig,
    "OnlineMethod": OnlineConfig,
}
"""The options that the bases of methods read, by the names of these classes."""


def options_class(method: type) -> type[AlgorithmConfig]:
    """The model of a method's options: its class's own `Options`, or those of its name.

    A class that derives from a method of ours and says nothing else takes the options of that one.
    """
    for one in method.__mro__:
        of_ours = ALGORITHMS.get(str(vars(one).get("name", ""))) or OF_BASES.get(one.__name__)
        own = vars(one).get("Options") or of_ours
        if own is not None:
            return cast(type[AlgorithmConfig], own)
    return OnlineConfig
