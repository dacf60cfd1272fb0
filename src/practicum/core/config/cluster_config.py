"""A cluster that a run has its samplers and its environments in."""

from typing import Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.config_sections import ConfigModel


class ClusterConfig(ConfigModel):
    """Several machines, and how many actors of which kind are on them."""

    kind: Literal["none", "ray"] = "none"
    """`none` has everything in processes of this machine; `ray` has environments, and the replicas
    of `sampler: {kind: practicum, replicas: N}`, as actors of a Ray cluster."""
    address: str = "auto"
    """`auto` for the cluster that runs on this machine (`practicum cluster up`), or HOST:PORT of a
    cluster's head."""
    workers: int = Field(default=1, ge=0)
    """Actors that episodes take place in, with their sandboxes; 0 has episodes where the run is."""
    most_workers: int = Field(default=0, ge=0)
    """As many as there may be while episodes wait for room; no more than `workers` unless given."""
    episodes: int = Field(default=16, ge=1)
    """Episodes that a worker has at once; more wait."""
    most_samplers: int = Field(default=0, ge=0)
    """As many replicas as there may be while requests wait for room; no more than
    `sampler.replicas` unless given."""
    worker_cpus: float = Field(default=1.0, ge=0.0)
    """CPUs that the cluster keeps for each worker."""
    sampler_cpus: float = Field(default=1.0, ge=0.0)
    """CPUs that the cluster keeps for each replica."""
    sampler_gpus: float | None = Field(default=None, ge=0.0)
    """GPUs of each replica, which sees no other ones; unless given 1 where the learner is on a GPU,
    and else none."""
    spread: Literal["spread", "pack", "apart"] = "spread"
    """`spread` puts actors on different nodes where it can, `apart` must, and `pack` fills a node
    first."""
    idle_s: float = Field(default=60.0, gt=0.0)
    """After so long without an episode a worker beyond `workers` is ended."""
    patience_s: float = Field(default=60.0, gt=0.0)
    """After so long without an answer an actor is asked for a sign of life; without one within 20
    seconds it is replaced."""
    startup_timeout_s: float = Field(default=600.0, gt=0.0)
    """What a worker may take to start, waiting for room included."""

    @property
    def is_there(self) -> bool:
        """Whether there is a cluster."""
        return self.kind != "none"

    @model_validator(mode="after")
    def _in_order(self) -> "ClusterConfig":
        usual = ClusterConfig.model_construct()
        stray = [
            key for key in type(self).model_fields if getattr(self, key) != getattr(usual, key)
        ]
        if not self.is_there and stray:
            raise PydanticCustomError(
                "cluster",
                "cluster.{key} is for a cluster, and cluster.kind is none; write kind: ray, or "
                "take it out",
                {"key": stray[0]},
            )
        if self.address == "local":
            raise PydanticCustomError(
                "cluster",
                "cluster.address is 'local', and a run starts no cluster itself; type practicum "
                "cluster up and leave the address out",
            )
        if self.most_workers and self.most_workers < self.workers:
            raise PydanticCustomError(
                "cluster",
                "cluster.most_workers is {most} and cluster.workers {fewest}; give most_workers at "
                "least that, or leave it out",
                {"most": self.most_workers, "fewest": self.workers},
            )
        return self
