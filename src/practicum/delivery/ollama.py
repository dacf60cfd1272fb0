"""What Ollama needs beside a .gguf file: a Modelfile, and how it is best hosted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from practicum.delivery.turn_form import TurnForm

MODELFILE = "Modelfile"
PROFILE = "hosting_profile.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingProfile:
    """How a machine hosts a model."""

    name: str
    threads: int
    context: int
    parallel: int
    """Requests that are answered at once."""
    gpu_layers: int
    """999 puts all of them on the GPU, 0 none."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment of `ollama serve`."""
        return {
            "OLLAMA_NUM_PARALLEL": str(self.parallel),
            "OLLAMA_CONTEXT_LENGTH": str(self.context),
            "OLLAMA_MAX_LOADED_MODELS": "1",
            "OLLAMA_FLASH_ATTENTION": "1",
            "OLLAMA_KEEP_ALIVE": "30m",
        }

    def to_json(self) -> str:
        """As it is kept."""
        return json.dumps({**asdict(self), "environment": self.variables}, indent=2) + "\n"


def choose_profile(
    name: str, *, cores: int, memory_bytes: int, has_gpu: bool, longest: int
) -> HostingProfile:
    """The profile that fits a machine, or one of a kind that is named.

    Args:
        name: `auto`, or `ryzen` for a processor of many cores without a GPU of its own.
        cores: Physical ones.
        memory_bytes: Of the machine.
        has_gpu: Whether there is a GPU.
        longest: Tokens that the model's context has at most.
    """
    roomy = memory_bytes >= 16 << 30
    return HostingProfile(
        name=name,
        # One core is left for the server itself where there are several.
        threads=max(1, cores - 1) if name == "ryzen" and cores > 2 else cores,
        context=min(longest, 8192 if roomy else 4096),
        parallel=4 if roomy and cores >= 8 else 1,
        gpu_layers=999 if has_gpu and name != "ryzen" else 0,
    )


def write_modelfile(
    file: str,
    form: TurnForm,
    stops: Sequence[str],
    profile: HostingProfile,
    parameters: Mapping[str, float],
    licence: str,
) -> str:
    """The Modelfile of one .gguf file.

    Args:
        file: Its name, in the same folder.
        form: What the chat template does.
        stops: Texts that end a turn.
        profile: How it is hosted.
        parameters: Temperature and the like.
        licence: Of the weights.
    """
    lines = [f"FROM ./{file}", f'TEMPLATE """{form.as_go()}"""']
    lines += [f"PARAMETER stop {json.dumps(stop)}" for stop in stops]
    lines += [f"PARAMETER {name} {value:g}" for name, value in parameters.items()]
    lines += [
        f"PARAMETER num_ctx {profile.context}",
        f"PARAMETER num_thread {profile.threads}",
        f"PARAMETER num_gpu {profile.gpu_layers}",
        f'LICENSE """{licence}"""',
    ]
    return "\n".join(lines) + "\n"
