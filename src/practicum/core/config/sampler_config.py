"""Where turns are sampled: in the process that learns, or by replicas elsewhere."""

from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.config_sections import ConfigModel

VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The `--max-lora-rank` that vLLM takes; an adapter's own may be smaller."""

VLLM_HOTTEST = 2.0
"""The highest temperature that vLLM takes."""


class SamplerConfig(ConfigModel):
    """Where turns are sampled, by whom, and how many replicas there are."""

    kind: Literal["engine", "practicum", "vllm"] = "engine"
    """`engine` samples in the process that learns; `practicum` is the same engine in processes of
    its own (`practicum serve MODEL --sampler`); `vllm` is vLLM's server."""
    replicas: int = Field(default=0, ge=0)
    """Replicas that the run starts on this machine, watches, starts again and stops."""
    urls: tuple[str, ...] = ()
    """Replicas that run already, such as http://10.0.0.7:8000; in place of `replicas`."""
    folder: str = ""
    """Where adapters are published, a folder that every replica can read; one of this machine's
    temporary folders unless given."""
    python: str = ""
    """The Python that vLLM is installed for, such as vllm-venv/bin/python: it is started there and
    never imported here."""
    args: tuple[str, ...] = ()
    """More words for the command line of replicas that the run starts, such as
    `--tensor-parallel-size=2` for vLLM."""
    key_file: str = ""
    """File with the key of given replicas; else the variable PRACTICUM_SAMPLER_KEY."""
    at_once: int = Field(default=64, ge=1)
    """Requests that a replica has at the same time; more wait here."""
    timeout_s: float = Field(default=600.0, gt=0.0)
    """What one completion may take; the run then stops and names the replica."""
    startup_timeout_s: float = Field(default=600.0, gt=0.0)
    """What a replica may take to start, and a lost one to come back."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether other processes sample."""
        return self.kind != "engine"

    @property
    def where(self) -> str:
        """Where sampling happens, in words."""
        if not self.is_elsewhere:
            return "in the process that learns"
        if self.urls:
            return f"by {self.kind} at {', '.join(self.urls)}"
        ones = "a process" if self.replicas == 1 else f"{self.replicas} processes"
        return f"by {self.kind} in {ones} that the run starts here"

    @field_validator("urls", "args", mode="before")
    @classmethod
    def _one_as_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("urls")
    @classmethod
    def _usable_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for url in value:
            try:
                parts = urlsplit(url)
                usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
            except ValueError:
                usable = False
            if not usable:
                raise PydanticCustomError(
                    "url",
                    "{url} is no address; it begins with http:// or https://, as in "
                    "http://127.0.0.1:8000",
                    {"url": repr(url)},
                )
            if parts.username or parts.password:
                raise PydanticCustomError(
                    "url",
                    "a key in the address would be kept in the run's folder; put it into a file "
                    "and name that with sampler.key_file",
                )
        found = tuple(url.rstrip("/") for url in value)
        if len(set(found)) < len(found):
            raise PydanticCustomError("url", "sampler.urls names a replica twice; name it once")
        return found

    @model_validator(mode="before")
    @classmethod
    def _one_replica_unless_given(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("kind", "engine") == "engine":
            return value
        return value if value.get("urls") else {"replicas": 1, **value}

    @model_validator(mode="after")
    def _as_its_kind_has_it(self) -> "SamplerConfig":
        if self.kind == "engine":
            defaults = SamplerConfig.model_construct()
            for key in ("replicas", "urls", "folder", "python", "args", "key_file"):
                if getattr(self, key) != getattr(defaults, key):
                    raise PydanticCustomError(
                        "sampler",
                        "sampler.{key} is for replicas, and sampler.kind is engine; write kind: "
                        "practicum or kind: vllm, or take it out",
                        {"key": key},
                    )
        elif bool(self.urls) == bool(self.replicas):
            raise PydanticCustomError(
                "sampler",
                "say where the replicas are: replicas for the number to start here, or urls of "
                "those that run, and not both",
            )
        if self.kind != "vllm" and self.python:
            raise PydanticCustomError(
                "sampler", "sampler.python is for kind: vllm; take it out, or write kind: vllm"
            )
        return self
