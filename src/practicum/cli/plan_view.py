"""A memory plan as a person reads it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from practicum.core.config.run_config import RunConfig
    from practicum.core.interfaces import Environment
    from practicum.engine.planning.machine import Machine
    from practicum.engine.planning.memory_plan import MemoryPlan

SHOWN_BYTES = 1 << 19
"""Parts under this would read as 0 MiB."""


def print_plan(
    config: "RunConfig",
    plan: "MemoryPlan | None",
    machine: "Machine",
    environment: "Environment | None",
) -> None:
    """The config as YAML, what `auto` stands for in it, and what it needs of this machine."""
    import yaml
    from rich.console import Console

    from practicum.engine.models.catalog import NO_GGUF, find_known
    from practicum.engine.planning.config_checks import odd_settings
    from practicum.engine.planning.machine import thread_count

    console = Console(highlight=False)
    values = config.model_dump(mode="json", exclude_none=True)
    console.print(yaml.safe_dump(values, sort_keys=False).rstrip(), markup=False, soft_wrap=True)
    resolved = {**_resolved(config, environment), "threads": thread_count(config)}
    told = ", ".join(f"{key} {value}" for key, value in resolved.items())
    console.print(f"\nresolved: {told}", markup=False, soft_wrap=True)
    print_sampling(console, config)
    for sentence in odd_settings(config, machine):
        console.print(f"warning: {sentence}", style="yellow", markup=False, soft_wrap=True)
    known = find_known(config.model.name)
    if known is not None and known.hub_id is None:
        console.print(f"{known.name} {NO_GGUF}", markup=False, soft_wrap=True)
    print_memory(console, plan, config.model.name)


def print_sampling(console: "Console", config: "RunConfig") -> None:
    """Where turns are sampled, and what a plan of this process does not count."""
    console.print(f"sampling: {config.sampler.where}", markup=False, soft_wrap=True)
    if config.sampler.is_elsewhere and not config.sampler.urls:
        console.print("not counted: the memory of the replicas", style="yellow", markup=False)


def _resolved(config: "RunConfig", environment: "Environment | None") -> dict[str, str]:
    """What `auto` stands for, on this machine and in this environment."""
    from practicum.core.capabilities import default_reward, session_kind
    from practicum.engine.planning.machine import placement

    dtype, device = placement(config.model)
    found = {"device": device, "dtype": dtype}
    if environment is not None:
        loop = "tools" if session_kind(environment) == "tools" else "actions"
        reward = default_reward(environment) if config.reward.name == "auto" else config.reward.name
        parts = "+".join(part.logged_as for part in config.reward.components)
        found |= {"agent": loop if config.agent.name == "auto" else config.agent.name}
        found |= {"reward": parts or reward}
    return found


def print_memory(console: "Console", plan: "MemoryPlan | None", model: str) -> None:
    """What a plan chose, its parts, whether it fits, and advice if it does not."""
    from practicum.engine.planning.memory import format_bytes

    if plan is None:
        console.print(
            f"memory: the shape of {model} is not known here, so nothing can be planned; "
            f"get it with: practicum models pull {model}",
            markup=False,
        )
        return
    console.print(_choices_table(plan))
    console.print(_parts_table(plan))
    for missing in plan.uncounted:
        console.print(f"not counted: {missing}", style="yellow", markup=False)
    for replica in plan.replicas:
        console.print(replica.told, style="" if replica.fits else "red", markup=False)
    whole = plan.trainable + plan.parameters
    share = f"{plan.trainable:,} of {whole:,} parameters ({plan.trainable / whole:.2%})"
    console.print(f"training {share}", markup=False)
    total, free = format_bytes(plan.total_bytes), format_bytes(plan.available_bytes)
    if plan.fits:
        console.print(f"[green]fits[/]: needs about {total}, {free} free")
        if plan.least is not None:
            least = f"{format_bytes(plan.least.bytes)} with {' '.join(plan.least.settings)}"
            console.print(f"slower, about {least}", markup=False)
        return
    console.print(f"[red]does not fit[/]: needs about {total}, {free} free")
    if plan.advice:
        console.print(_advice_table(plan))


def _choices_table(plan: "MemoryPlan") -> "Table":
    from rich.table import Table

    table = Table(title="chosen for this machine's memory", title_justify="left")
    table.add_column("what", no_wrap=True)
    table.add_column("value", no_wrap=True)
    table.add_column("why")
    for choice in plan.choices:
        table.add_row(choice.name, choice.value, choice.reason)
    return table


def _advice_table(plan: "MemoryPlan") -> "Table":
    from rich.table import Table

    from practicum.engine.planning.memory import format_bytes

    table = Table(title="what would help", title_justify="left")
    table.add_column("setting", no_wrap=True)
    table.add_column("saves", justify="right", no_wrap=True)
    table.add_column("enough", no_wrap=True)
    table.add_column("how")
    for advice in plan.advice:
        enough = "yes" if advice.fits else "no"
        table.add_row(advice.setting, format_bytes(advice.saves_bytes), enough, advice.note)
    return table


def _parts_table(plan: "MemoryPlan") -> "Table":
    from rich.table import Table

    from practicum.engine.planning.memory import format_bytes

    table = Table(
        title=f"memory to train {plan.model} ({plan.dtype} on {plan.device})",
        title_justify="left",
    )
    table.add_column("part")
    table.add_column("about", justify="right", no_wrap=True)
    table.add_column("set by")
    for part in plan.parts:
        if part.bytes >= SHOWN_BYTES:
            table.add_row(part.name, format_bytes(part.bytes), part.depends_on)
    table.add_section()
    table.add_row("total", format_bytes(plan.total_bytes), "")
    return table
