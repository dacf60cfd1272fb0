"""`practicum cluster up|status|down`: this machine as a part of a cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from practicum.cluster.nodes import ClusterView

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

ADDRESS = typer.Option(
    metavar="HOST:PORT|auto", help="The cluster's head; auto looks on this machine."
)


@app.callback()
def cluster() -> None:
    """Make machines into a cluster that runs act and sample on.

    practicum cluster up --host 10.0.0.7           this machine is the head

    practicum cluster up --join 10.0.0.7:6379      and this one, too, is in it

    practicum cluster status                       which nodes there are, and what is free

    practicum cluster down                         this machine leaves it
    """


def _check_extra() -> None:
    from practicum.core.errors import MissingExtra

    MissingExtra.unless("ray", "ray", "practicum cluster")


@app.command()
def up(
    join: Annotated[str, typer.Option(metavar="HOST:PORT", help="Join the head there.")] = "",
    host: Annotated[
        str, typer.Option(help="Address that the other machines reach this one by.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Where the head listens.")] = 6379,
    cpus: Annotated[int | None, typer.Option(min=0, help="CPUs for it; all unless given.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, help="GPUs for it; all unless given.")] = None,
) -> None:
    """Start the head of a cluster here, or join one.

    Whoever reaches its ports runs code here.
    """
    _check_extra()
    from practicum.cluster.nodes import start_node

    node = start_node(join, host, port, cpus, gpus)
    if join:
        print(f"this machine is in the cluster {node.address}; leave it: practicum cluster down")
        return
    print(
        f"the head of a cluster is at {node.address}; next:\n"
        "  practicum train configs/tiny.yaml cluster=ray sampler=practicum\n"
        f"  practicum cluster up --join {node.address} --host ADDRESS    on other machines"
    )


@app.command()
def status(
    address: Annotated[str, ADDRESS] = "auto",
    nodes: Annotated[
        int, typer.Option(min=0, help="Exit with 1 unless so many are up; for scripts.")
    ] = 0,
    json_output: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say which nodes a cluster has, what is free, and which actors run."""
    import json
    from dataclasses import asdict

    _check_extra()
    from practicum.cluster.nodes import local_node, look_at_cluster

    here = local_node()
    found = look_at_cluster(here.address if address == "auto" and here else address)
    if json_output:
        print(json.dumps(asdict(found)))
    else:
        _show(found)
    if sum(node.is_up for node in found.nodes) < nodes:
        raise typer.Exit(1)


def _show(found: "ClusterView") -> None:
    print(
        f"cluster {found.address}: {found.free_cpus:g} CPUs and {found.free_gpus:g} GPUs are free"
    )
    for node in found.nodes:
        state = "up" if node.is_up else "gone"
        print(
            f"  {node.host} {node.id[:8]}: {state}, {node.cpus:g} CPUs, {node.gpus:g} GPUs, "
            f"{node.memory_gib:.1f} GiB for actors"
        )
    print("actors: " + (", ".join(found.actors) or "none"))


@app.command()
def down() -> None:
    """End what `practicum cluster up` has started here."""
    _check_extra()
    from practicum.cluster.nodes import end_node

    node = end_node()
    print(f"this machine has left {node.address}" if node else "nothing runs here")
