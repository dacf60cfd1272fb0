"""`RunConfig`, the whole config of a run; its training stages and their recorded data."""

from itertools import accumulate
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.agent_config import AgentConfig
from practicum.core.config.algorithm_config import (
    AnyAlgorithm,
    GrpoConfig,
    SftConfig,
)
from practicum.core.config.cluster_config import ClusterConfig
from practicum.core.config.config_sections import (
    CheckpointConfig,
    ConfigModel,
    EnvConfig,
    EvalConfig,
    HardwareConfig,
    LoraConfig,
    ModelConfig,
    RolloutConfig,
    WarmStartConfig,
    several,
)
from practicum.core.config.curriculum_config import AnyCurriculum, AutoCurriculumConfig
from practicum.core.config.reward_config import RewardConfig
from practicum.core.config.sampler_config import VLLM_HOTTEST, VLLM_RANKS, SamplerConfig

REFERENCE = "reference"
"""The `data.source` that stands for the environment's own solutions."""

IMITATION_UPDATES = 4
"""Updates of a step of imitation: so many as cost about what a step of practice does."""
MOST_SOLUTIONS = 1024
"""Solutions played for a warm start; where it takes longer, they are learned from again."""

SHORTHANDS = {
    "agent": "name",
    "algorithm": "name",
    "cluster": "kind",
    "curriculum": "name",
    "data": "source",
    "env": "name",
    "lora": "preset",
    "model": "name",
    "reward": "name",
    "sampler": "kind",
    "warm_start": "name",
}
"""Keys that may be given as one word, and the field that word stands for."""


def _word_as_mapping(value: Any, info: ValidationInfo) -> Any:
    return {SHORTHANDS[str(info.field_name)]: value} if isinstance(value, str) else value


class DataConfig(ConfigModel):
    """Recorded conversations to learn from."""

    source: str
    """`reference`: the environment's own solutions, played in it; or a store of traces, a run's
    folder, a dataset that `practicum dataset build` made, or FILE.py:FUNCTION that returns rows."""
    imports: tuple[str, ...] = ()
    """Files or folders that are brought into the store first; what is there already is left."""
    format: str = "auto"
    """Format of the imported files; `auto` recognises it by their content."""
    where: str = ""
    """Which traces, in the words of `practicum traces list --where`."""
    n: int = Field(default=0, ge=0)
    """At most so many examples; 0 takes all there are, and 500 of `reference`."""
    reward: RewardConfig | None = None
    """Scores the traces before anything is made of them; their store keeps the scores it has. What
    it says then decides what is good, before the outcome and after what people said."""
    good_at: float = 0.5
    """The score from which a trace is a good one, where nothing else says so."""
    heldout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of the tasks kept apart, on which the loss is reported."""
    seed: int | None = None
    """Which examples, where there are more than `n`, which are held out, and their order. Unless
    given it is 0 for recorded traces, so that seeds of a run share what is held out, and the run's
    own for `reference`."""

    def seed_in(self, run_seed: int) -> int:
        """The seed in a run that has one itself."""
        own = run_seed if self.source == REFERENCE else 0
        return own if self.seed is None else self.seed

    @field_validator("imports", mode="before")
    @classmethod
    def _path_as_tuple(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    _expand_word = field_validator("reward", mode="before")(_word_as_mapping)

    @model_validator(mode="after")
    def _solutions_are_not_traces(self) -> "DataConfig":
        asked = {"imports": self.imports, "where": self.where, "reward": self.reward}
        stray = [key for key, value in asked.items() if value]
        if self.source == REFERENCE and stray:
            raise PydanticCustomError(
                "data",
                "{key} is for recorded traces, and source: reference plays the environment's own "
                "solutions; take it out, or name a store as the source",
                {"key": stray[0]},
            )
        if self.reward is not None and self.reward.combine == "normalise":
            raise PydanticCustomError(
                "data",
                "combine: normalise compares the episodes of a group, and traces are scored one by "
                "one; take it out of data.reward",
            )
        return self


class TrainingStageConfig(ConfigModel):
    """One of several methods that a run goes through, each from where the last one ended."""

    steps: int = Field(ge=1)
    """Steps of this stage."""
    algorithm: AnyAlgorithm = GrpoConfig()
    data: DataConfig | None = None
    """What it learns from, where its method does not learn from episodes it makes."""
    rollouts: RolloutConfig | None = None
    """How its episodes are made; the run's own `rollouts` unless given."""

    _expand_word = field_validator("data", mode="before")(_word_as_mapping)


class RunConfig(ConfigModel):
    """Everything a run is told. Every field has a default."""

    env: EnvConfig | None = None
    """An environment's name, or its name and options; or a list of several, each with a `weight` if
    need be, which one run practises together. Without one, or with `none`, a run learns from
    recorded traces alone, and has no held-out tasks to evaluate on."""
    model: ModelConfig = ModelConfig()
    """A model's name, or its name and options."""
    steps: int = Field(default=80, ge=1)
    """Updates of the weights; with `stages`, the sum of theirs."""
    seed: int = 0
    runs_dir: str = "runs"
    """Folder that holds the run's folder."""
    lora: LoraConfig = LoraConfig(preset="full")
    """light, attention or full, or the fields spelled out."""
    curriculum: AnyCurriculum = AutoCurriculumConfig()
    """auto, none, phases or adaptive, or its name and options: which tasks, given how earlier ones
    went. `auto` is adaptive by family where tasks name several, and none elsewhere; see
    docs/curriculum.md."""
    rollouts: RolloutConfig = RolloutConfig()
    sampler: SamplerConfig = SamplerConfig()
    """engine, practicum or vllm, or its kind and options: where turns are sampled; see
    docs/samplers.md."""
    cluster: ClusterConfig = ClusterConfig()
    """none or ray, or its kind and options: whether episodes and replicas are on the machines of a
    cluster; see docs/scaling.md."""
    agent: AgentConfig = AgentConfig()
    """Who does the work: a loop over the environment's actions or tools, or a program of your own;
    see docs/agents.md."""
    reward: RewardConfig = RewardConfig()
    """turns or os, or its name and values; what the environment is made for unless given."""
    algorithm: AnyAlgorithm = GrpoConfig()
    data: DataConfig | None = None
    """What is learned from, where the method does not learn from episodes it makes."""
    warm_start: WarmStartConfig = WarmStartConfig()
    """auto, reference or none: whether the first steps imitate the environment's own solutions.
    Not used with `stages`, nor by methods that learn from `data`."""
    stages: tuple[TrainingStageConfig, ...] = ()
    """Several methods one after the other, such as `sft` and then `grpo`, in place of `steps`,
    `algorithm` and `data`."""
    eval: EvalConfig = EvalConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    on_collapse: Literal["warn", "stop", "recover"] = "warn"
    """What an alarm does (a policy that collapses, a reward that is gamed): `warn` says so and goes
    on; `stop` saves and ends the run; `recover` goes back to the last good checkpoint with a lower
    rate and a higher temperature, three times at most. See docs/collapse.md."""
    hardware: HardwareConfig = HardwareConfig()

    @model_validator(mode="before")
    @classmethod
    def _count_steps(cls, value: Any) -> Any:
        """The steps of all stages, where there are any."""
        stages = value.get("stages") if isinstance(value, dict) else None
        if not isinstance(stages, list | tuple) or not stages:
            return value
        counts = [s.get("steps") if isinstance(s, dict) else getattr(s, "steps", 0) for s in stages]
        if not all(isinstance(count, int) and count > 0 for count in counts):
            return value  # what is wrong with a stage is said where it is read
        total = sum(int(count) for count in counts if count)
        if value.get("steps", total) != total:
            raise PydanticCustomError(
                "stages",
                "steps = {steps} and stages exclude each other, whose steps add up to {sum}; take "
                "it out, and change the steps of a stage instead",
                {"steps": repr(value["steps"]), "sum": total},
            )
        return {**value, "steps": total}

    @model_validator(mode="after")
    def _stages_or_one_method(self) -> "RunConfig":
        if self.stages and (self.data is not None or self.algorithm != GrpoConfig()):
            key = "data" if self.data is not None else "algorithm"
            raise PydanticCustomError(
                "stages", "{key} and stages exclude each other; move it into a stage", {"key": key}
            )
        for number, stage in enumerate(self.all_stages, start=1):
            name, where = stage.algorithm.name, f"stages[{number}]" if self.stages else "the run"
            if stage.algorithm.is_offline and stage.data is None:
                example = "data: reference" if self.env else "data=FILE.jsonl or data=traces.sqlite"
                raise PydanticCustomError(
                    "stages",
                    "{name} learns from recorded examples and {where} has no data; write, for "
                    "instance, {example}",
                    {"name": name, "where": where, "example": example},
                )
            if not stage.algorithm.is_offline and stage.data is not None:
                raise PydanticCustomError(
                    "stages",
                    "{name} learns from episodes it makes, so the data of {where} would not be "
                    "used; take it out, or choose sft, weighted_sft, kto, dpo or offline_grpo",
                    {"name": name, "where": where},
                )
            if why := stage.algorithm.why_not_in_groups_of(self.rollouts_of(stage).group_size):
                raise PydanticCustomError("stages", "{name} {why}", {"name": name, "why": why})
        return self

    @model_validator(mode="after")
    def _as_a_cluster_can(self) -> "RunConfig":
        sampler, cluster = self.sampler, self.cluster
        if not cluster.is_there:
            return self
        if sampler.kind == "vllm" and sampler.replicas:
            raise PydanticCustomError(
                "cluster",
                "vLLM is not started as an actor; start it on the machines that have the GPUs and "
                "give sampler.urls, or write sampler=practicum",
            )
        for key in ("args", "folder") if sampler.replicas else ():
            if getattr(sampler, key):
                raise PydanticCustomError(
                    "cluster",
                    "sampler.{key} is for replicas that are processes, and cluster.kind is ray; "
                    "take it out",
                    {"key": key},
                )
        if cluster.most_samplers and not 0 < sampler.replicas <= cluster.most_samplers:
            raise PydanticCustomError(
                "cluster",
                "cluster.most_samplers is {most} and sampler.replicas {fewest}; give sampler: "
                "{{kind: practicum, replicas: N}} with at least one and at most that many",
                {"most": cluster.most_samplers, "fewest": sampler.replicas},
            )
        return self

    @model_validator(mode="after")
    def _as_vllm_can(self) -> "RunConfig":
        if self.sampler.kind != "vllm":
            return self
        for stage in self.all_stages:
            rollouts = self.rollouts_of(stage)
            if rollouts.top_p < 1.0 or rollouts.top_k:
                raise PydanticCustomError(
                    "sampler",
                    "vLLM does not say how much probability top_p and top_k have cut off, which "
                    "learning needs; set rollouts.top_p=1 and rollouts.top_k=0, or "
                    "sampler=practicum",
                )
            if rollouts.temperature > VLLM_HOTTEST:
                raise PydanticCustomError(
                    "sampler",
                    "vLLM takes temperatures up to {most}, and rollouts.temperature is {asked}; "
                    "lower it, or write sampler=practicum",
                    {"most": VLLM_HOTTEST, "asked": rollouts.temperature},
                )
        if self.lora.r > VLLM_RANKS[-1]:
            raise PydanticCustomError(
                "sampler",
                "lora.r is {r} and vLLM takes adapters of rank {most} at most; lower it",
                {"r": self.lora.r, "most": VLLM_RANKS[-1]},
            )
        return self

    @property
    def needs_env(self) -> str:
        """Why the run needs an environment, in a sentence; empty if it does not."""
        for stage in self.all_stages:
            if not stage.algorithm.is_offline:
                return (
                    f"{stage.algorithm.name} learns from episodes it makes, and env is none; name "
                    "an environment, such as env: math, or choose sft, weighted_sft, kto, dpo or "
                    "offline_grpo"
                )
            if stage.data is not None and stage.data.source == REFERENCE:
                return (
                    "data: reference plays an environment's solutions, and env is none; name an "
                    "environment, such as env: math, or a store of traces"
                )
        return ""

    @property
    def acts(self) -> bool:
        """Whether there is an environment to act in."""
        return self.env is not None

    @property
    def env_name(self) -> str:
        """The environment's name; `none` without one."""
        return self.env.name if self.env else "none"

    @property
    def may_warm_start(self) -> bool:
        """Whether imitation could come first: the run acts, by one method, for several steps."""
        return self.acts and not self.stages and not self.algorithm.is_offline and self.steps > 1

    @property
    def all_stages(self) -> tuple[TrainingStageConfig, ...]:
        """The stages: those spelled out, or the run's own method, after a warm start if decided."""
        if self.stages:
            return self.stages
        warm = 0
        if self.may_warm_start and self.warm_start.name == REFERENCE:
            warm = self.warm_start.steps_of(self.steps)
        practice = TrainingStageConfig(
            steps=self.steps - warm, algorithm=self.algorithm, data=self.data
        )
        if not warm:
            return (practice,)
        imitation = SftConfig(updates=IMITATION_UPDATES)
        n = min(imitation.batch * imitation.updates * warm, MOST_SOLUTIONS)
        data = DataConfig(source=REFERENCE, n=n)
        return (TrainingStageConfig(steps=warm, algorithm=imitation, data=data), practice)

    def stage_at(self, step: int) -> TrainingStageConfig:
        """The stage that a step belongs to, counted over the whole run from 1."""
        ends = accumulate(stage.steps for stage in self.all_stages)
        found = (stage for stage, last in zip(self.all_stages, ends, strict=True) if step <= last)
        return next(found, self.all_stages[-1])

    def of_stage(self, stage: TrainingStageConfig) -> "RunConfig":
        """The config of a run with only this stage."""
        rollouts = self.rollouts_of(stage)
        episodes = rollouts.tasks_per_step * rollouts.group_size
        return self.model_copy(
            update={
                "algorithm": stage.algorithm.for_episodes(episodes),
                "rollouts": rollouts,
                "data": stage.data,
                "stages": (),
                "steps": stage.steps,
                "warm_start": WarmStartConfig(name="none"),
            }
        )

    def rollouts_of(self, stage: TrainingStageConfig) -> RolloutConfig:
        """How a stage's episodes are made."""
        return stage.rollouts or self.rollouts

    @field_validator("env", mode="before")
    @classmethod
    def _none_is_no_environment(cls, value: Any) -> Any:
        if isinstance(value, list):
            value = several(value)
        if not isinstance(value, dict) or value.get("name") != "none":
            return value
        if len(value) > 1:
            raise PydanticCustomError(
                "env",
                "env: none takes no options, and has {key}; name an environment, or take it out",
                {"key": next(key for key in value if key != "name")},
            )
        return None

    # Of two "before" validators pydantic runs the last one first: `env: none` must have become
    # `{name: none}` before `_none_is_no_environment` sees it.
    _expand_word = field_validator(*SHORTHANDS, mode="before")(_word_as_mapping)
