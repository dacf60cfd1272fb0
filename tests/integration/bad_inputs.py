"""What users get wrong, and what they are told; run as a program, it tries it all in one process.

It runs in a folder that `prepare` has filled, and prints one JSON object: by the name of each
input its exit code, what was printed, what was left behind and which heavy packages were loaded.
"""

import contextlib
import io
import json
import os
import sys
from pathlib import Path

HEAVY = ("torch", "transformers", "peft")

TINY = ("math", "model=tiny", "steps=2", "eval.n=4", "rollouts.group_size=3")
ROWS = ("tasks", "env.data=rows.jsonl", "model=tiny", "steps=2", "eval.n=2")

CODE = """\
import practicum as pr
from pydantic import BaseModel


def one_argument(task):
    return 1.0


class NoOptions:
    name = "bare"


class Ignores:
    name, all_levels = "ignores", (1,)

    class Options(BaseModel):
        level: int = 1

    def tasks(self, split, seed):
        return iter(())

    def open(self, task):
        pass


class Raises(Ignores):
    class Options(pr.ConfigModel):
        pass

    def __init__(self, options):
        self.lamps = [].first


def no_rows():
    return 1 / 0
"""

FILES = {
    "mine.py": CODE,
    "broken.py": "def f():\n    pass\n\nimport nowhere_at_all\n",
    "syntax.py": "def f(task, trace outcome):\n    return 1.0\n",
    "rows.jsonl": "".join(
        f'{{"id": "t{n}", "prompt": "Say {n}.", "answer": "{n}"}}\n' for n in range(40)
    ),
    "torn.jsonl": '{"id": "a", "prompt": "x"}\n{"id": \n',
    "twice.jsonl": '{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}\n',
    "twice.yaml": "env: math\nsteps: 3\nsteps: 4\n",
    "list.yaml": "- env\n- math\n",
    "torn.yaml": "env: {name: math\n",
    "empty/readme.txt": "no model\n",
    "table.csv": "question,answer\n1,2\n",
    "other.jsonl": '{"question": "x", "good": true}\n',
}

BAD: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # What is to be done.
    "no verb of that name": (("trian", "math"), ("train",)),
    "nothing to train": (("train",), ("nothing to train", "practicum train math")),
    "environment misspelt": (("train", "maths"), ("'maths'", "did you mean 'math'")),
    "no config file": (("train", "no.yaml"), ("'no.yaml'", "math")),
    "config with a key twice": (("train", "twice.yaml"), ("line 3", "twice")),
    "config that is a list": (("train", "list.yaml"), ("key: value",)),
    "config that is torn": (("train", "torn.yaml"), ("not valid YAML",)),
    "no run to resume": (("train", "--resume", "nope"), ("'nope'",)),
    "resume with a name": (("train", "--resume", "nope", "--name", "x"), ("--name",)),
    "resume with seeds": (("train", "--resume", "nope", "--seeds", "2"), ("--seeds",)),
    "Python file without its class": (("train", "mine.py"), ("mine.py:NoOptions or mine.py:Ig",)),
    "tasks of a Python file": (("tasks", "mine.py"), ("mine.py:NoOptions",)),
    "data for a config": (
        ("train", "rows.jsonl"),
        ("practicum train algorithm=sft data=rows.jsonl",),
    ),
    "verb of no system": (("check", "math"), ("practicum tasks math --check 20",)),
    # Options and keys.
    "option that is a key": (("train", "math", "--steps", "3"), ("type steps=3",)),
    "option that is none": (("train", "math", "--fast"), ("--fast",)),
    "word without =": (("train", "math", "steps"), ("key=value", "steps=12")),
    "value that is no number": (("train", *TINY, "steps=three"), ("steps = 'three'", "steps=80")),
    "no steps": (("train", *TINY, "steps=0"), ("steps = 0", "greater than")),
    "key misspelt": (("train", *TINY, "rollout.group_size=4"), ("did you mean 'rollouts'",)),
    "key of a section": (("train", *TINY, "heldout=0.2"), ("did you mean 'data.heldout'",)),
    "key of two sections": (
        ("train", *TINY, "temperature=1"),
        ("'eval.temperature' or 'rollouts.temperature'",),
    ),
    "key of another method": (("train", *TINY, "algorithm.value_lr=1"), ("not an option of grpo",)),
    "method misspelt": (("train", *TINY, "algorithm=grop"), ("did you mean 'grpo'",)),
    "negative rate": (("train", *TINY, "algorithm.lr=-1"), ("algorithm.lr = -1",)),
    "option of the environment misspelt": (("train", *TINY, "env.levle=2"), ("env.level",)),
    "level that is not there": (("train", *TINY, "env.level=99"), ("env.level = 99",)),
    "adapter that is none": (("train", *TINY, "lora=huge"), ("'huge'", "'full'")),
    "key in a stage that has none such": (
        ("train", "math", "model=tiny", "stages=[{steps: 1, env: shell}]"),
        ("stages.0.env", "algorithm"),
    ),
    "stages beside a method": (
        ("train", "math", "algorithm=ppo", "stages=[{steps: 1}]"),
        ("exclude each other",),
    ),
    "curriculum that is none": (("train", *TINY, "curriculum=hard"), ("adaptive",)),
    # Models.
    "model misspelt": (("train", *TINY, "model=tinny"), ("did you mean 'tiny'",)),
    "model's file that is not there": (("train", *TINY, "model=./no.gguf"), ("./no.gguf",)),
    "folder that is no model": (("train", *TINY, "model=empty"), ("not a whole model",)),
    "device that is not there": (("train", *TINY, "model.device=cuda"), ("cuda",)),
    "profile for a GPU that is not there": (
        ("train", *TINY, "hardware.profile=gpu"),
        ("hardware.profile", "cpu"),
    ),
    "model to pull that is none": (("models", "pull", "nothing"), ("nothing",)),
    # Sizes.
    "group of one": (("train", *TINY, "rollouts.group_size=1"), ("at least 2",)),
    "groups that cannot fit": (
        ("train", *TINY, "rollouts.group_size=100000000"),
        ("rollouts.group_size=100000000", "give rollouts.group_size="),
    ),
    "evaluation that cannot fit": (("train", *TINY, "eval.n=1000000000"), ("eval.n=1000000000",)),
    "evaluation of fewer than none": (("train", *TINY, "eval.n=-1"), ("eval.n = -1", "eval.n=1")),
    "more held-out tasks than there are": (
        ("train", *ROWS, "eval.n=30"),
        ("held-out tasks", "30 were asked for"),
    ),
    "model too large": (
        ("train", *TINY, "model=Qwen/Qwen2.5-32B-Instruct", "model.dtype=float32"),
        ("GiB", "try"),
    ),
    # Names and folders.
    "path with a bad name": (("train", *TINY, "--name", "a/b c"), ("'b c'", "--name my-run")),
    "name with a meaning": (("train", *TINY, "--name", "latest"), ("'latest'",)),
    "name that is taken": (("train", *TINY, "runs_dir=.", "--name", "empty"), ("--resume",)),
    "runs in a file": (("train", *TINY, "runs_dir=rows.jsonl"), ("rows.jsonl is a file",)),
    "runs where no folder can be": (("train", *TINY, "runs_dir=/proc/runs"), ("runs_dir=DIR",)),
    # Code of one's own.
    "reward that is none": (
        ("train", *TINY, "reward=nice"),
        ("'nice'", "reward=FILE.py:NAME"),
    ),
    "agent without its function": (
        ("train", *TINY, "agent=mine.py"),
        ("mine.py:one_argument or mine.py:no_rows",),
    ),
    "agent misspelt": (("train", *TINY, "agent=tolls"), ("did you mean 'tools'",)),
    "reward without a file": (("train", *TINY, "reward=no.py:f"), ("there is no file no.py",)),
    "reward that its file has not": (
        ("train", *TINY, "reward=mine.py:nope"),
        ("no function 'nope'", "one_argument"),
    ),
    "reward of a module that is not there": (
        ("train", *TINY, "reward=no_such_module:f"),
        ("no_such_module", "FILE.py:NAME"),
    ),
    "reward whose file fails": (
        ("train", *TINY, "reward=broken.py:f"),
        ("nowhere_at_all", "(broken.py, line 4"),
    ),
    "reward whose file cannot be read": (
        ("train", *TINY, "reward=syntax.py:f"),
        ("SyntaxError", "syntax.py, line 1"),
    ),
    "reward with another signature": (
        ("train", *TINY, "reward=mine.py:one_argument"),
        ("takes (task)", "(task, trace, outcome)", "(mine.py, line 5)"),
    ),
    "agent with another signature": (
        ("train", *ROWS, "agent=mine.py:one_argument"),
        ("takes (task)", "(task, client)", "(mine.py, line 5)"),
    ),
    "judge with another signature": (
        ("train", *TINY, "reward={components: [{name: judge, model: 'mine.py:no_rows'}]}"),
        ("takes ()", "(messages)", "(mine.py, line"),
    ),
    "agent that the environment has no use for": (
        ("train", *TINY, "agent=tools"),
        ("agent: actions",),
    ),
    "agent's option elsewhere": (("train", *TINY, "agent.style=react"), ("agent.style",)),
    "environment without a file": (("train", "mnie.py:Raises"), ("did you mean 'mine.py'",)),
    "environment that its file has not": (
        ("train", "mine.py:Rises", "model=tiny"),
        ("has no class 'Rises'", "did you mean 'Raises'"),
    ),
    "environment without options": (
        ("train", "mine.py:NoOptions", "model=tiny"),
        ("no Options", "(mine.py, line 9)", "docs/environments.md"),
    ),
    "environment that ignores unknown options": (
        ("train", "mine.py:Ignores", "model=tiny", "env.levle=2"),
        ("would ignore unknown keys", "(mine.py, line 13)", "practicum.ConfigModel"),
    ),
    "environment that fails": (
        ("train", "mine.py:Raises", "model=tiny"),
        ("AttributeError", "(mine.py, line 31, in __init__)"),
    ),
    "environment of a module that is not there": (
        ("train", "no_such_module:Env"),
        ("no_such_module",),
    ),
    # Data.
    "imitation without data": (("train", *TINY, "algorithm=sft"), ("data: reference",)),
    "imitation of nothing": (("train", "algorithm=kto", "model=tiny"), ("data=FILE.jsonl",)),
    "data that is none": (
        ("train", "model=tiny", "algorithm=kto", "data=nothing"),
        ("data: 'nothing' is no store",),
    ),
    "import of no file": (("traces", "import", "no.jsonl"), ("no.jsonl does not exist",)),
    "import of a table": (("traces", "import", "table.csv"), ('{"messages": [',)),
    "import of other keys": (
        ("traces", "import", "other.jsonl"),
        ("(its first object has the keys good, question)", '{"messages": ['),
    ),
    "data for a method that acts": (("train", *TINY, "data=reference"), ("take it out",)),
    "store that is not there": (
        ("train", "env=none", "model=tiny", "algorithm=sft", "data=no.sqlite"),
        ("no.sqlite",),
    ),
    "rows that fail": (
        ("train", "env=none", "model=tiny", "algorithm=sft", "data=mine.py:one_argument"),
        ("takes (task)", "(mine.py, line 5)"),
    ),
    "tasks without a file": (("train", "tasks", "env.data=no.jsonl"), ("no.jsonl",)),
    "tasks of a function that fails": (
        ("train", "tasks", "env.data=mine.py:no_rows"),
        ("ZeroDivisionError", "(mine.py, line 35, in no_rows)"),
    ),
    "tasks in a torn file": (("train", "tasks", "env.data=torn.jsonl"), ("torn.jsonl, line 2",)),
    "two tasks of one id": (("train", "tasks", "env.data=twice.jsonl"), ("'a'", "rename")),
    # Other verbs.
    "no run to watch": (("watch", "nope"), ("'nope'",)),
    "no run to look at": (("runs", "nope"), ("'nope'",)),
    "model without a place": (("eval", "tiny"), ("--env math",)),
    "override that changes nothing": (
        ("eval", "tiny", "--env", "math", "steps=3"),
        ("steps changes nothing",),
    ),
    "no such run to evaluate": (("eval", "runs/nope"), ("nope",)),
    "nobody to play": (("play", "math", "--policy", "human"), ("nobody to type",)),
    "task that is none": (("play", "math", "--task", "hello"), ("hello",)),
    "tasks of no environment": (("tasks", "maths"), ("'maths'",)),
    "tasks of a level that is not there": (("tasks", "math", "--level", "99"), ("99",)),
    "no store": (("traces", "list", "--store", "no.sqlite"), ("no.sqlite",)),
    "condition that is none": (
        ("traces", "list", "--store", "no.sqlite", "--where", "colour = red"),
        ("no.sqlite",),
    ),
    "kind of dataset that is none": (
        ("dataset", "build", "--kind", "ppo", "--from", "rows.jsonl", "--out", "out"),
        ("ppo",),
    ),
    "doctor without its config": (("doctor", "--config", "no.yaml"), ("no.yaml",)),
    "export of no run": (("export", "runs/nope", "out"), ("nope",)),
    "comparison of no study": (("compare", "nope"), ("nope",)),
    "environment to serve that is none": (("env", "serve", "maths"), ("'maths'",)),
    "reward without a key": (("gateway", "reward", "abc", "1"), ("PRACTICUM_GATEWAY_KEY",)),
}
"""By what is wrong: what is typed, and what must be in the one sentence that answers."""


def prepare(folder: Path) -> None:
    """Put the files that the inputs name into a folder."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def main() -> None:
    """Try every input in this process, and print what came of it."""
    from practicum.cli.main import main as practicum

    there, loaded = set(Path().rglob("*")), set()
    found = {}
    for name, (words, _) in BAD.items():
        sys.argv, sys.stdin = ["practicum", *words], io.StringIO("")
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                practicum()
            except SystemExit as leave:
                code = int(leave.code or 0)
            except BaseException as error:  # noqa: BLE001 - whatever it is, a test tells of it
                code = -1
                err.write(f"Traceback: {error!r}")
        left = {p for p in set(Path().rglob("*")) - there if "__pycache__" not in p.parts}
        found[name] = {
            "code": code,
            "err": err.getvalue(),
            "left": sorted(map(str, left)),
            "heavy": [p for p in HEAVY if p in sys.modules and p not in loaded],
        }
        loaded |= set(sys.modules)
        there |= left
    print(json.dumps(found), file=sys.__stdout__)


if __name__ == "__main__":
    os.environ["COLUMNS"] = "400"  # sentences are not wrapped
    main()
