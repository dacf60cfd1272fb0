"""What Ollama needs beside a .gguf file: a Modelfile, and how it is best hosted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from practicum.core.errors import UserError
from practicum.core.sample import Episode

MODELFILE = "Modelfile"
PROFILE = "hosting_profile.json"
ENVIRONMENT = "ollama.env"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingProfile:
    """How a machine hosts a model."""

    name: str
    threads: int
    context: int
    parallel: int
    """Requests that are answered at once."""
    gpu_layers: int
    """-1 puts as many on the GPU as fit, 0 none."""

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

    def write(self, folder: Path) -> None:
        """Keep it, and its variables once more as lines that a shell and systemd read."""
        kept = {**asdict(self), "environment": self.variables}
        (folder / PROFILE).write_text(json.dumps(kept, indent=2) + "\n")
        lines = [f"{name}={value}\n" for name, value in self.variables.items()]
        (folder / ENVIRONMENT).write_text("".join(lines))


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
        gpu_layers=-1 if has_gpu and name != "ryzen" else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Modelfile:
    """What Ollama is told of a .gguf file."""

    file: str
    """Its name, in the same folder."""
    template: str
    """In Go's language of templates."""
    stops: Sequence[str]
    """Texts that end a turn."""
    profile: HostingProfile
    parameters: Mapping[str, float]
    """Temperature and the like."""
    licence: str
    system: str = ""
    """The system message that the model was trained with, where it was the same for every task."""
    origin: str = ""
    """Where it comes from, in a line."""

    def write(self) -> str:
        """Its text."""
        lines = [f"# {self.origin}"] if self.origin else []
        lines += [f"FROM ./{self.file}", f"TEMPLATE {_quoted(self.template)}"]
        lines += [f"SYSTEM {_quoted(self.system)}"] if self.system else []
        lines += [f"PARAMETER stop {_quoted(stop)}" for stop in self.stops]
        lines += [f"PARAMETER {name} {value:g}" for name, value in self.parameters.items()]
        lines += [
            f"PARAMETER num_ctx {self.profile.context}",
            f"PARAMETER num_thread {self.profile.threads}",
            f"PARAMETER num_gpu {self.profile.gpu_layers}",
            f"LICENSE {_quoted(self.licence)}",
        ]
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text in the quotes of a Modelfile, inside which nothing is escaped."""
    if '"""' in text or text.endswith('"'):
        raise UserError(
            f"a Modelfile cannot hold the text {text[-40:]!r}; export the file alone: --to gguf"
        )
    return f'"""{text}"""'


def shared_system(episodes: Sequence[Episode]) -> str:
    """The system message of all episodes; empty where they have none or several."""
    first = [next(episode.trace.messages()) for episode in episodes]
    told = {message.content if message.role == "system" else "" for message in first}
    return told.pop() if len(told) == 1 else ""
