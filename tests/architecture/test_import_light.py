"""What opens quickly stays quick: nothing heavy is loaded before it is used.

Modules are counted, not timed: a count is the same on every machine. `benchmarks/startup.py`
shows the seconds.
"""

import json
import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "peft", "pandas", "scipy", "trl", "huggingface_hub"}

LIGHT_PACKAGES = [
    "practicum",
    "practicum.api",
    "practicum.art",
    "practicum.core.config.run_config",
    "practicum.core.interfaces",
    "practicum.store.trace_store",
    "practicum.cli.views.run_screen",
    "practicum.engine.planning.memory_plan",
    "practicum.environments.registry",
    "practicum.evaluation.report",
    "practicum.cli.main",
]

IMPORT_BUDGET = 3
"""Modules that `import practicum` may add to a bare interpreter."""

HELP_BUDGET = 230
"""Modules that `practicum --help` may add; typer takes nearly all of them."""

PROBE = """
import json, sys
before = set(sys.modules)
try:
    exec(sys.argv.pop(1))
except SystemExit as leave:
    assert not leave.code, leave.code
print()
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def modules_loaded_by(code: str, *arguments: str) -> set[str]:
    """Names of the modules a fresh interpreter loads for `code`."""
    command = [sys.executable, "-c", PROBE, code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("package", LIGHT_PACKAGES)
def test_a_light_package_loads_nothing_heavy(package: str) -> None:
    assert not modules_loaded_by(f"import {package}") & HEAVY


def test_importing_practicum_adds_next_to_nothing() -> None:
    loaded = modules_loaded_by("import practicum")
    assert "practicum" in loaded
    assert len(loaded) <= IMPORT_BUDGET, sorted(loaded)


def test_help_loads_few_modules_and_nothing_that_only_verbs_need() -> None:
    loaded = modules_loaded_by("from practicum.cli.main import main; main()", "--help")
    assert not loaded & (HEAVY | {"numpy", "pydantic", "rich"})
    assert len(loaded) <= HELP_BUDGET, len(loaded)


def test_the_probe_sees_what_is_heavy() -> None:
    assert "numpy" in modules_loaded_by("import numpy")


def test_what_runs_beside_a_gpu_needs_no_pydantic() -> None:
    program = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import practicum.engine.policy, practicum.training.prefix_tree\n"
        "import practicum.training.algorithms.ppo"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
