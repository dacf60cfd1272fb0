"""Environments and replicas of a run as actors of a cluster, as the config's `cluster` has it."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from practicum.assemble.environments import open_environment
from practicum.core.config.config_sections import ModelConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import MissingExtra
from practicum.core.interfaces import Environment
from practicum.engine.planning.machine import placement

if TYPE_CHECKING:
    from practicum.gateway.serving.sampler_server import SampledVersions
    from practicum.samplers.replica_pool import PoolLimits, ReplicaPool


def act_in_workers(config: RunConfig, environment: Environment) -> None:
    """Have the episodes of an environment take place in actors."""
    MissingExtra.unless("ray", "ray", "cluster=ray")
    from practicum.cluster.actor_link import ActorLink
    from practicum.cluster.connection import Room, connect
    from practicum.cluster.elsewhere_environment import move_episodes
    from practicum.cluster.environment_actor import EnvironmentActor
    from practicum.cluster.worker_pool import WorkerLimits, WorkerPool

    section = config.cluster
    room = Room(section.workers, {"CPU": section.worker_cpus}, section.spread, "workers")
    words = (partial(open_environment, config.env),)

    def make(number: int) -> ActorLink:
        return ActorLink(EnvironmentActor, words, room, number, patience_s=section.patience_s)

    limits = WorkerLimits(
        fewest=section.workers,
        most=max(section.workers, section.most_workers),
        episodes=section.episodes,
        idle_s=section.idle_s,
        startup_timeout_s=section.startup_timeout_s,
    )
    move_episodes(environment, WorkerPool(make, room, partial(connect, section), limits))


def pool_of_actors(config: RunConfig, base: str, limits: "PoolLimits") -> "ReplicaPool":
    """The replicas of `sampler: {kind: practicum, replicas: N}` as actors."""
    MissingExtra.unless("ray", "ray", "cluster=ray")
    from practicum.cluster.actor_link import ActorLink
    from practicum.cluster.connection import Room, connect
    from practicum.cluster.engine_actor import EngineByActor, PoolOfActors, SamplerActor
    from practicum.samplers.practicum_replica import PracticumReplica
    from practicum.samplers.replica_pool import Member

    section, count = config.cluster, config.sampler.replicas
    dtype, device = placement(config.model)
    gpus = section.sampler_gpus
    if gpus is None:
        gpus = 0.0 if device == "cpu" else 1.0
    needs = {"CPU": section.sampler_cpus, "GPU": gpus}
    room = Room(count, {k: v for k, v in needs.items() if v}, section.spread, "replicas")
    # An actor sees the GPUs that it was given, and no others.
    place = {"device": "cuda" if gpus else "cpu", "dtype": dtype}
    model = config.model.model_copy(update=place)
    words = (partial(held_versions, model),)

    def make(number: int) -> Member:
        link = ActorLink(SamplerActor, words, room, number, patience_s=section.patience_s)
        engine = EngineByActor(link, config.sampler.startup_timeout_s)
        return Member(replica=PracticumReplica(engine, base), process=engine)

    most = max(count, section.most_samplers)
    return PoolOfActors(
        [make(number) for number in range(count)],
        replace(limits, most=most),
        make,
        room=room,
        connect=partial(connect, section),
    )


def held_versions(model: ModelConfig) -> "SampledVersions":
    """A base model in memory, to be sampled with adapters that come and go."""
    from practicum.assemble.sampled_base import sampled_base
    from practicum.gateway.serving.sampler_server import SampledVersions

    return SampledVersions(sampled_base(model))
