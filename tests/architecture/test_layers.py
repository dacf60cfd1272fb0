"""Which folder may import which, and where each outside package belongs.

Everything may import `core`. Imports inside functions and under TYPE_CHECKING count too, and so
does a text that names a module (`"practicum.engine.policy"`).
"""

import ast
import functools
import graphlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ROOT = REPOSITORY / "src" / "practicum"
SOURCES = sorted(ROOT.rglob("*.py"))
ENVIRONMENTS = REPOSITORY / "src" / "practicum_envs"
WORK = sorted(
    path
    for path in ENVIRONMENTS.rglob("*.py")
    if "tests" not in path.parts and path.parent != ENVIRONMENTS
)
"""What environments are made of; the framework knows none of them."""

MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "stats": set(),
    "store": set(),
    "engine": set(),
    "samplers": set(),
    "cluster": {"samplers"},
    "sandboxes": set(),
    "delivery": set(),
    "gateway": set(),
    "agents": set(),
    "rewards": set(),
    "environments": {"gateway"},
    "evaluation": {"agents", "stats"},
    "analysis": {"evaluation", "stats", "store"},
    "traces": {"rewards", "store"},
    "training": {"agents", "analysis", "stats", "store", "traces"},
    "assemble": {
        *("agents", "analysis", "cluster", "engine", "environments", "evaluation", "gateway"),
        "rewards",
        *("samplers", "sandboxes", "store", "traces", "training"),
    },
    "shipped_configs": set(),
    "config_files": {"engine", "shipped_configs", "store"},
    "api": {
        *("analysis", "assemble", "config_files", "engine", "environments", "evaluation", "store"),
    },
    "workflows": {
        *("agents", "analysis", "api", "assemble", "delivery", "engine", "environments"),
        *("evaluation", "gateway", "store", "traces", "training"),
    },
    "reports": {"analysis", "engine", "evaluation", "store", "workflows"},
    "compat": {"api", "assemble", "config_files", "delivery", "traces", "workflows"},
    "monitor": {"analysis", "evaluation", "gateway", "stats", "store", "traces"},
    "cli": {
        *("agents", "analysis", "api", "assemble", "cluster", "config_files", "delivery"),
        *("engine", "environments", "evaluation", "monitor", "reports", "sandboxes", "stats"),
        *("store", "traces", "workflows"),
    },
    "art": {"compat"},
    "__main__": {"cli"},
    "__init__": {
        *("api", "compat", "environments", "evaluation", "traces", "training", "workflows"),
    },
}
"""Folder or file of `practicum`, and what it may import besides itself and `core`."""

MAY_BUILD_ON: dict[str, set[str]] = {
    "business": set(),
    "code": set(),
    "harbor": {"shell"},
    "math": set(),
    "shell": set(),
    "office": {"shell"},
    "agent_company": {"office", "shell"},
    "science": set(),
    "writing": set(),
}
"""Folder of `practicum_envs`, and the other environments whose parts it takes."""

OFFERED = {"core", "environments"}
"""Rooms of the framework that an environment may import, ours like a user's."""

ANYWHERE = {"numpy", "typing_extensions"}

QUARANTINE: dict[str, set[str]] = {
    "cyllama": {"engine/models"},
    "fastapi": {"environments/serving"},
    "gguf": {"engine/models"},
    "jinja2": {"engine/chat", "monitor"},
    "httpx": {"environments/remote", "engine/learning", "rewards/judge", "samplers"},
    "huggingface_hub": {"engine/models"},
    "llguidance": {"engine/sampling"},
    "matplotlib": {"api.py", "reports", "workflows/studies.py"},
    "openai": {"agents", "compat/art"},
    "pandas": {"api.py"},
    "peft": {"engine"},
    "pyarrow": {"store", "traces"},
    "pydantic": {"core/config", "store", "traces", "environments", "cli", "compat/art"},
    "pydantic_core": {"core/config", "store", "environments", "cli"},
    "ray": {"cluster"},
    "re2": {"traces"},
    "rich": {"api.py", "cli", "evaluation", "workflows/studies.py"},
    "safetensors": {"engine"},
    "sentencepiece": {"engine/models"},
    "starlette": {"environments/serving", "gateway", "monitor"},
    "tokenizers": {"engine/models", "monitor"},
    "torch": {"engine", "training/algorithms"},
    "transformers": {"engine"},
    "triton": {"engine/kernels"},
    "typer": {"cli"},
    "uvicorn": {"environments/serving", "gateway"},
    "weasyprint": {"reports"},
    "websockets": {"environments/remote"},
    "xllamacpp": {"engine/models"},
    "yaml": {"core/config", "store", "cli"},
}
"""Outside package, and the places it belongs in. What is not named here belongs nowhere."""

OF_ENVIRONMENTS: dict[str, set[str]] = {
    "harper": {"writing"},
    "pyarrow": {"shell"},
    "pydantic": {"agent_company", "code", "harbor", "office", "shell"},
    "pydantic_core": {"agent_company", "code", "office", "shell"},
    "pyphen": {"writing"},
}
"""The same for the folders of `practicum_envs`."""

LAZY: dict[str, set[str]] = {
    "torch": {"engine/planning"},
    "matplotlib": {"api.py", "reports", "workflows/studies.py"},
    "pandas": {"api.py"},
    "weasyprint": {"reports"},
}
"""Packages that these places import inside functions only: they must load without them."""

OPTIONAL = {"matplotlib", "pandas"}
"""Packages of which a sentence says how to install them; no extra that runs need has them."""

DISTRIBUTION = {
    "harper": "harper-py",
    "pydantic_core": "pydantic",
    "re2": "google-re2",
    "yaml": "pyyaml",
}
"""Where the name to install differs from the name to import."""

MODULE_NAME = re.compile(
    rf"practicum\.({'|'.join(MAY_IMPORT)})(\.\w+)*(:\w+)?|practicum_envs\.\w[\w.]*(:\w+)?"
)


def part(path: Path, root: Path = ROOT) -> str:
    """A file's row in the table: `cli` for cli/train.py, `assemble` for assemble.py."""
    return path.relative_to(root).parts[0].removesuffix(".py")


def names_in(node: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """Modules that one piece of syntax names; relative imports start from `package`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        start = package[: len(package) - node.level + 1] if node.level else ()
        module = ".".join([*start, *([node.module] if node.module else [])])
        # The last word may be a module, as in `from practicum import store`, so it is kept.
        yield from (f"{module}.{alias.name}" for alias in node.names)
    elif (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and MODULE_NAME.fullmatch(node.value)
    ):
        yield node.value.partition(":")[0]


@functools.cache
def imports(path: Path, root: Path = ROOT, *, lazy: bool = True) -> frozenset[str]:
    """Every module the file names; without `lazy` only those outside functions."""
    top = "practicum_envs" if root == ENVIRONMENTS else "practicum"
    package = (top, *path.relative_to(root).parts[:-1])

    def walk(node: ast.AST) -> Iterator[str]:
        yield from names_in(node, package)
        for child in ast.iter_child_nodes(node):
            if lazy or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                yield from walk(child)

    return frozenset(walk(ast.parse(path.read_text(encoding="utf-8"))))


def outside_packages(names: Iterable[str]) -> set[str]:
    tops = {name.partition(".")[0] for name in names}
    return tops - set(sys.stdlib_module_names) - {"practicum", "practicum_envs"}


def layer_faults(path: Path, root: Path = ROOT) -> list[str]:
    here = part(path, root)
    allowed = {here, "core", "__version__"} | MAY_IMPORT.get(here, set())
    named = {name.split(".")[1] for name in imports(path, root) if name.startswith("practicum.")}
    return [f"{here} may not import {there}" for there in sorted(named - allowed)]


def package_faults(path: Path, root: Path = ROOT) -> list[str]:
    faults: list[str] = []
    place = path.relative_to(root)
    for package in sorted(outside_packages(imports(path, root)) - ANYWHERE):
        homes = QUARANTINE.get(package, set())
        if not any(place.is_relative_to(home) for home in homes):
            faults.append(f"{package} belongs in {sorted(homes) or 'no folder'}")
    for package in sorted(outside_packages(imports(path, root, lazy=False))):
        if any(place.is_relative_to(home) for home in LAZY.get(package, set())):
            faults.append(f"{package} must be imported inside a function here")
    return faults


def work_faults(path: Path, root: Path = ENVIRONMENTS) -> list[str]:
    """What a module of an environment imports that it should not."""
    named = [name.split(".") for name in imports(path, root)]
    here = path.relative_to(root).parts[0]
    rooms = {words[1] for words in named if words[0] == "practicum" and words[1:]}
    others = {words[1] for words in named if words[0] == "practicum_envs" and words[1:]}
    packages = outside_packages(imports(path, root)) - ANYWHERE
    return [
        *(f"{here} may not import practicum.{room}" for room in sorted(rooms - OFFERED)),
        *(f"{here} may not import {one}" for one in sorted(others - {here} - MAY_BUILD_ON[here])),
        *(f"{one} does not belong in {here}" for one in sorted(packages - allowed_in(here))),
    ]


def allowed_in(environment: str) -> set[str]:
    return {package for package, homes in OF_ENVIRONMENTS.items() if environment in homes}


def everywhere(faults_of: Callable[[Path], list[str]]) -> list[str]:
    return [f"{path.relative_to(ROOT)}: {fault}" for path in SOURCES for fault in faults_of(path)]


def test_files_import_only_what_their_folder_may() -> None:
    faults = everywhere(layer_faults)
    assert not faults, "\n".join(faults)


def test_outside_packages_stay_where_they_belong() -> None:
    faults = everywhere(package_faults)
    assert not faults, "\n".join(faults)


def test_the_framework_imports_no_environment() -> None:
    named = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        for name in imports(path)
        if name.startswith("practicum_envs")
    }
    assert named == set()


def test_environments_import_what_is_offered_to_anyones() -> None:
    faults = [f"{path.relative_to(ENVIRONMENTS)}: {f}" for path in WORK for f in work_faults(path)]
    assert not faults, "\n".join(faults)


def test_each_environment_has_a_row_a_guide_and_tests() -> None:
    assert {part(path, ENVIRONMENTS) for path in WORK} == set(MAY_BUILD_ON)
    for name in MAY_BUILD_ON:
        assert (ENVIRONMENTS / name / "README.md").is_file(), name
        assert list((ENVIRONMENTS / name / "tests").rglob("test_*.py")), name


def test_each_environment_is_found_by_an_entry_point() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert set(project["entry-points"]["practicum.environments"]) == set(MAY_BUILD_ON)


def test_the_tables_have_no_cycle() -> None:
    tuple(graphlib.TopologicalSorter(MAY_IMPORT).static_order())
    tuple(graphlib.TopologicalSorter(MAY_BUILD_ON).static_order())


def test_every_door_of_the_table_is_used() -> None:
    built_on: dict[str, set[str]] = {name: set() for name in MAY_BUILD_ON}
    for path in WORK:
        here = part(path, ENVIRONMENTS)
        named = imports(path, ENVIRONMENTS)
        built_on[here] |= {n.split(".")[1] for n in named if n.startswith("practicum_envs.")}
    assert {name: others - {name} for name, others in built_on.items()} == MAY_BUILD_ON
    used: dict[str, set[str]] = {name: set() for name in MAY_IMPORT}
    for path in SOURCES:
        named = {name.split(".")[1] for name in imports(path) if name.startswith("practicum.")}
        used[part(path)] |= named & set(MAY_IMPORT) - {part(path), "core"}
    assert used == MAY_IMPORT


def test_the_table_has_a_row_for_each_folder_and_no_other() -> None:
    assert {part(path) for path in SOURCES} == set(MAY_IMPORT)


def test_the_table_names_only_its_own_rows() -> None:
    assert set().union(*MAY_IMPORT.values()) <= set(MAY_IMPORT)


def test_each_package_the_source_imports_is_declared() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [
        *project["dependencies"],
        *extras["train"],
        *extras["gpu"],
        *extras["serve"],
        *extras["gateway"],
        *extras["export"],
        *extras["monitor"],
        *extras["parquet"],
        *extras["ray"],
        *extras["agents"],
        *extras["art"],
        *extras["report"],
        *extras["writing"],
    ]
    names = {re.split(r"[<>=!~\[ ;]", line)[0].lower() for line in declared}
    used = set().union(*(outside_packages(imports(path)) for path in SOURCES))
    used |= set().union(*(outside_packages(imports(path, ENVIRONMENTS)) for path in WORK))
    needed = {DISTRIBUTION.get(name, name).replace("_", "-") for name in used - OPTIONAL}
    assert needed <= names


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (
            "def f():\n    from practicum.training import loop\n",
            "evaluation may not import training",
        ),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import practicum.engine\n",
            "evaluation may not import engine",
        ),
        ("from practicum import cli\n", "evaluation may not import cli"),
        ("from ..engine import policy\n", "evaluation may not import engine"),
        ("load('practicum.engine.learning.learner:Learner')\n", "evaluation may not import engine"),
    ],
    ids=["lazy", "typing", "from-the-top", "relative", "by-name"],
)
def test_an_import_in_disguise_is_seen(source: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "evaluation" / "report.py"
    path.parent.mkdir()
    path.write_text(source)
    assert layer_faults(path, tmp_path) == [fault]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("from practicum.engine import policy\n", "math may not import practicum.engine"),
        ("def f():\n    import practicum_envs.office.evidence\n", "math may not import office"),
        ("load('practicum_envs.shell.machines:Machines')\n", "math may not import shell"),
        ("import torch\n", "torch does not belong in math"),
        ("from practicum.core.task import Task\n", None),
    ],
)
def test_what_an_environment_may_not_import_is_seen(
    source: str, fault: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "math" / "extra.py"
    path.parent.mkdir()
    path.write_text(source)
    assert work_faults(path, tmp_path) == ([fault] if fault else [])


@pytest.mark.parametrize(
    ("place", "source", "faults"),
    [
        ("gateway/capture.py", "import torch\n", ["torch belongs in ['engine', "]),
        (
            "core/task.py",
            "from pydantic import BaseModel\n",
            ["pydantic belongs in ['cli', "],
        ),
        ("core/config/run_config.py", "from pydantic import BaseModel\n", []),
        ("store/events.py", "import dask\n", ["dask belongs in no folder"]),
        (
            "engine/planning/machine.py",
            "import torch\n",
            ["torch must be imported inside a function"],
        ),
        ("engine/planning/machine.py", "def f():\n    import torch\n", []),
        ("engine/learning/learner.py", "import torch.nn as nn\n", []),
    ],
)
def test_a_package_in_the_wrong_place_is_seen(
    place: str, source: str, faults: list[str], tmp_path: Path
) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(source)
    found = package_faults(path, tmp_path)
    assert len(found) == len(faults)
    assert all(fault.startswith(start) for fault, start in zip(found, faults, strict=True))
