"""`HardwareConfig` and `detect_hardware`: what the machine has and what suits it, flat."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from practicum.config_files import profile_here


class HardwareProfile(StrEnum):
    """Names of the profiles of `practicum doctor --profile`."""

    AUTO_DETECT = "auto"
    CPU_ONLY = "cpu"
    GPU_ENABLED = "gpu"
    RYZEN_OPTIMIZED = "ryzen"


def _detected(name: str) -> Any:
    """A field that is as `detect_hardware` finds it, unless it is given."""
    return field(default_factory=lambda: getattr(_here(), name))


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareConfig:
    """This machine, and the settings that a profile suggests for it; what is given is taken."""

    cpu_name: str = _detected("cpu_name")
    cpu_cores: int = _detected("cpu_cores")
    cpu_threads: int = _detected("cpu_threads")
    ram_gb: float = _detected("ram_gb")
    has_avx2: bool = _detected("has_avx2")
    has_avx512: bool = _detected("has_avx512")
    gpu_name: str = _detected("gpu_name")
    """Empty without an accelerator that torch can use."""
    gpu_vram_gb: float = _detected("gpu_vram_gb")
    base_model: str = _detected("base_model")
    recommended_batch_size: int = _detected("recommended_batch_size")
    """Groups of a step."""
    lora_r: int = _detected("lora_r")
    lora_alpha: int = _detected("lora_alpha")
    num_generations: int = _detected("num_generations")
    """Episodes of a group."""
    use_bf16: bool = _detected("use_bf16")
    profile: str = _detected("profile")

    def get_lora_config(self) -> dict[str, Any]:
        """As the key `lora` takes it."""
        return {"preset": "full", "r": self.lora_r, "alpha": self.lora_alpha}

    def get_grpo_config(self) -> dict[str, Any]:
        """As the key `rollouts` takes it."""
        return {
            "tasks_per_step": self.recommended_batch_size,
            "group_size": self.num_generations,
        }

    def get_training_args(self) -> dict[str, Any]:
        """Keys for `practicum.train`: `train("math", **config.get_training_args())`."""
        dtype = "bfloat16" if self.use_bf16 else "float32"
        return {
            "model": {"name": self.base_model, "dtype": dtype},
            "lora": self.get_lora_config(),
            "rollouts": self.get_grpo_config(),
        }


def detect_hardware(profile: str = HardwareProfile.AUTO_DETECT) -> HardwareConfig:
    """Look at the machine, as its container allows it, and take a profile's settings."""
    machine, suggested = profile_here(str(profile))
    usable = [device for device in machine.devices if device.is_usable]
    values = {one.key: one.value for one in suggested.suggestions}
    return HardwareConfig(
        cpu_name=machine.cpu,
        cpu_cores=machine.physical_cores,
        cpu_threads=machine.logical_cores,
        ram_gb=round(machine.memory_bytes / 2**30, 1),
        has_avx2=machine.has_avx2,
        has_avx512=machine.has_avx512,
        gpu_name=usable[0].name if usable else "",
        gpu_vram_gb=round(usable[0].memory_bytes / 2**30, 1) if usable else 0.0,
        base_model=str(values["model"]),
        recommended_batch_size=int(values["rollouts.tasks_per_step"]),
        lora_r=int(values["lora.r"]),
        lora_alpha=int(values["lora.alpha"]),
        num_generations=int(values["rollouts.group_size"]),
        use_bf16=values["model.dtype"] == "bfloat16",
        profile=suggested.name,
    )


@cache
def _here() -> HardwareConfig:
    return detect_hardware()


def get_ryzen_optimized_config() -> HardwareConfig:
    """The settings for a Ryzen 9 5950X with 40 GB, whatever is here."""
    return detect_hardware(HardwareProfile.RYZEN_OPTIMIZED)
