"""What may come from a stranger, each with a file in it that leaves a mark where it runs."""

import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from practicum.store.run_dir import RunDir
from practicum.store.study_dir import StudyDir

PLANTED = """
from pathlib import Path
Path({mark!r}).touch()
import practicum as pr

class Env:
    name, all_levels = "planted", (1,)
    class Options(pr.ConfigModel):
        pass
    def __init__(self, options): pass
    def tasks(self, split, seed):
        yield pr.Task(id="a", env="planted", split=split, instruction="?")
    def open(self, task): raise NotImplementedError

def rows():
    return [{{"id": "a", "prompt": "?", "answer": "b"}}]

def act(task, client): return 1.0
def score(task, trace, outcome): return 1.0
def judge(messages): return "1"
"""


class Stranger:
    """A folder that came from somewhere, with a file that leaves a mark when it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = folder / "mark"
        self.code = folder / "planted.py"
        self.code.write_text(PLANTED.format(mark=str(self.mark)))

    def config(self, values: dict[str, Any]) -> str:
        path = self.folder / "downloaded.yaml"
        path.write_text(yaml.safe_dump({"model": "tiny", "steps": 1, **values}))
        return str(path)

    def run(self, trained: Path, name: str = "theirs") -> Path:
        """A run whose environment is the planted one."""
        run = self.folder / name
        shutil.copytree(trained, run)
        config = yaml.safe_load((run / "config.yaml").read_text())
        config["env"] = {"name": f"{self.code}:Env"}
        (run / "config.yaml").write_text(yaml.safe_dump(config))
        return run

    def study(self, trained: Path) -> Path:
        """A study of two such runs."""
        config = RunDir(self.run(trained)).config()
        study = StudyDir.create(
            config.model_copy(update={"runs_dir": str(self.folder)}), [0, 1], name="study"
        )
        for seed in (0, 1):
            self.run(trained, f"study/seed_{seed}")
        return study.path

    def store(self, trained: Path) -> Path:
        """The episodes of such a run."""
        return self.run(trained) / "traces.sqlite"

    def file(self, trained: Path) -> Path:
        """A config that names the planted environment."""
        return Path(self.config({"env": "planted.py:Env", "eval": {"n": 0}}))

    def adapter(self, trained: Path) -> Path:
        """An adapter whose settings name a module to import, and a base of the stranger's."""
        found = next(self.run(trained).rglob("adapter_config.json"))
        settings = json.loads(found.read_text())
        settings["auto_mapping"] = {"base_model_class": "Env", "parent_library": "planted"}
        settings["base_model_name_or_path"] = str(self.model(trained))
        found.write_text(json.dumps(settings))
        return found.parent

    def model(self, trained: Path) -> Path:
        """A model folder with code of its own, and weights that run when they are unpickled."""
        folder = self.folder / "model"
        folder.mkdir()
        shutil.copy(self.code, folder / "planted.py")
        own = {"AutoConfig": "planted.Env", "AutoModelForCausalLM": "planted.Env"}
        shape = {"vocab_size": 64, "hidden_size": 8, "num_hidden_layers": 1}
        config = {"model_type": "planted", "architectures": ["Env"], "auto_map": own, **shape}
        (folder / "config.json").write_text(json.dumps(config))
        tokenizer = {"auto_map": {"AutoTokenizer": ["planted.Env", None]}}
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Marking(str(self.mark))))
        return folder


class _Marking:
    """Touches a file where it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (Path(self.mark),)


THINGS: dict[str, Callable[[Stranger, Path], Path]] = {
    "run": Stranger.run,
    "study": Stranger.study,
    "store": Stranger.store,
    "config": Stranger.file,
    "adapter": Stranger.adapter,
    "model": Stranger.model,
}
"""What a stranger may send, and how it is made of a run."""


def verbs(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every verb of the command line, with its words."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name, one in (inner or {}).items():
        yield from verbs(one, *path, name)


def takes_text(option: Any) -> bool:
    """Whether a name or a place may be given; numbers, switches and choices are none."""
    return option.type_descriptor.annotation in (str, Path, list[str], list[Path])
