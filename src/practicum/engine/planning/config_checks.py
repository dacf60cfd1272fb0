"""What is wrong or odd about a config's numbers on a machine, before anything is loaded."""

from practicum.core.config.algorithm_config import GroupConfig, OwnAlgorithmConfig, RlooConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError, NotEnoughMemory
from practicum.core.user_code import names_code
from practicum.engine.planning.machine import Machine
from practicum.engine.planning.memory import format_bytes
from practicum.engine.planning.model_shapes import find_shape

EPISODE_BYTES = 16 << 10
"""Memory of one episode beside the model's, at the least: its messages, tokens and bookkeeping."""

HIGHEST_LR = 1e-2
"""Above this no adapter is known to learn anything."""


def check_sizes(config: RunConfig, machine: Machine) -> None:
    """Raise `NotEnoughMemory` where the episodes of a step or an evaluation alone cannot fit."""
    most = machine.memory_bytes // EPISODE_BYTES
    asked = [
        ("rollouts.tasks_per_step", r.tasks_per_step, "rollouts.group_size", r.group_size)
        for r in map(config.rollouts_of, config.all_stages)
    ]
    asked.append(("eval.n", config.eval.n, "eval.k", config.eval.k))
    for first, a, second, b in asked:
        if a * b > most:
            larger, other = (first, b) if a > b else (second, a)
            raise NotEnoughMemory(
                f"{first}={a} and {second}={b} are {a * b:,} episodes at once, which take "
                f"{format_bytes(a * b * EPISODE_BYTES)} beside the model, and this machine has "
                f"{format_bytes(machine.memory_bytes)}; give {larger}={max(1, most // other)} or "
                "less"
            )


def check_processes(config: RunConfig) -> None:
    """Raise `ConfigError` where what is learned by is known in this process alone."""
    count = config.hardware.processes
    own = [
        s.algorithm.name for s in config.all_stages if isinstance(s.algorithm, OwnAlgorithmConfig)
    ]
    if count > 1 and own:
        raise ConfigError(
            f"algorithm = {own[0]!r} is not one of ours, and those learn in one process; leave out "
            f"hardware.processes={count}"
        )


def odd_settings(config: RunConfig, machine: Machine) -> list[str]:
    """Sentences about settings that can be used and will not do what one hopes for."""
    told = []
    for stage in config.all_stages:
        algorithm, rollouts = stage.algorithm, config.rollouts_of(stage)
        if isinstance(algorithm, GroupConfig | RlooConfig) and rollouts.temperature == 0.0:
            told.append(
                f"rollouts.temperature=0 makes all episodes of a group the same, and "
                f"{algorithm.name} learns from their differences: nothing will be learned; give "
                "rollouts.temperature=1"
            )
        if algorithm.lr > HIGHEST_LR:
            told.append(
                f"algorithm.lr={algorithm.lr:g} is far above the 1e-5 to 1e-3 that adapters learn "
                "with: the first update may throw away all that the model can do; give "
                "algorithm.lr=1e-4"
            )
    if config.model.name == "tiny" and names_code(config.env_name) and not config.stages:
        told.append(
            "tiny has random weights: it shows that all runs, and is unlikely to learn a task of "
            "your own; leave model= out to train smollm2-135m, which can"
        )
    shape = find_shape(config.model.name)
    if shape is not None and not shape.is_fused:
        told.append(
            f"{config.model.name} is of a family that runs through transformers' own layers, which "
            "is several times slower than Qwen2.5, Qwen3, Llama or Mistral of its size"
        )
    cores, threads = machine.allowed_cores, config.hardware.threads
    if threads > cores:
        told.append(
            f"hardware.threads={threads} is more than the {cores} cores there are: they wait for "
            f"each other, and all is slower; give hardware.threads={cores} or leave it out"
        )
    return told
