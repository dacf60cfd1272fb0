"""What every test gets: no network, quiet terminals, few threads, a place for runs."""

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Set before any test can import what reads them.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Triton looks when a kernel is defined: without a GPU the kernels are interpreted.
if not Path("/proc/driver/nvidia").exists():
    os.environ["TRITON_INTERPRET"] = "1"
# What tests write, and what lies in this repository, is the tester's own code.
_OWN = (tempfile.gettempdir(), str(Path(__file__).parent))
os.environ["PRACTICUM_TRUST"] = os.pathsep.join(_OWN)
os.environ["PRACTICUM_TRUST_FILE"] = str(Path(tempfile.gettempdir(), f"trusted-{os.getuid()}"))
# These make rich and typer draw for a terminal that is not there.
for _name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
    os.environ.pop(_name, None)

# Whoever is started in the background of a script ignores Ctrl-C, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ROOMY = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("few", max_examples=100, derandomize=True, **_ROOMY)
settings.register_profile("many", max_examples=10_000, **_ROOMY)
settings.load_profile("few")

TORCH_THREADS = 1
"""The test models are too small to share out, and one thread gives the same bits everywhere."""


@pytest.fixture(autouse=True)
def _few_threads() -> None:
    """Pin torch's threads where a test has loaded torch; never load it for that."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != TORCH_THREADS:
        torch.set_num_threads(TORCH_THREADS)
    threads = sys.modules.get("practicum.engine.compute_thread")
    if threads is not None:
        threads.pin_threads(TORCH_THREADS)


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    """An empty folder for runs."""
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


IN_SANDBOXES = ("tests/sandboxes", "tests/unit/sandboxes", "tests/integration/test_shell")
"""Tests that look at what the whole machine holds: processes, mounts, control groups."""

PAGES = "tests/integration/test_readme.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine has no device or weights for, and say so."""
    for marker, why_not in (("gpu", _why_no_gpu), ("smollm2", _why_no_smollm2)):
        marked = [item for item in items if item.get_closest_marker(marker)]
        reason = why_not() if marked else None
        for item in marked if reason else ():
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Tests of one file share a process and what it set up; `--dist loadgroup` loses groups.

    pytest-xdist 3.8 writes a group into a private field of tests that pytest 9.2 does not read.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _together(nodeid)

    config.option.loadscopereorder = False  # long integration tests first, as they are collected
    return ByFile(config, log)


def _together(test: str) -> str:
    """What a test must share a process with: its file, or all that looks at the machine."""
    file = test.partition("::")[0]
    if file.endswith(PAGES):
        return test  # pages share nothing, and some take minutes
    return "sandboxes" if file.startswith(IN_SANDBOXES) else file


def _why_no_gpu() -> str | None:
    import torch

    return None if torch.cuda.is_available() else "needs a CUDA device, and there is none here"


def _why_no_smollm2() -> str | None:
    from practicum.engine.models.catalog import find_known
    from practicum.engine.models.loading import cached_folder

    model = find_known("smollm2-135m")
    if model is not None and cached_folder(model) is not None:
        return None
    return "needs weights that are not cached here; type: practicum models pull smollm2-135m"
