"""Fake machines: trees of `/proc` and `/sys` files, and `Machine` records."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from practicum.engine.planning.machine import Device, Machine

GIB = 1 << 30


@pytest.fixture
def make_root(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Writes files under a folder that stands for `/`."""

    def make(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return make


@pytest.fixture
def make_machine() -> Callable[..., Machine]:
    """A machine with so much free memory, in GiB, and what else is given."""

    def make(free_gib: float = 16, **changes: object) -> Machine:
        values: dict[str, object] = {
            "system": "Linux x86_64",
            "python": "3.12.1",
            "cpu": "A CPU",
            "physical_cores": 4,
            "logical_cores": 8,
            "allowed_cores": 8,
            "memory_bytes": int(free_gib * GIB),
            "available_bytes": int(free_gib * GIB),
            "is_memory_limited": False,
            "has_avx2": True,
            "has_avx512": False,
            "folder": ".",
            "disk_free_bytes": 100 * GIB,
            "packages": {"practicum": "0.1.0"},
        }
        return Machine(**{**values, **changes})  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_device() -> Callable[..., Device]:
    """A device with so much memory, in GiB, all of it free."""

    def make(gib: float, **changes: object) -> Device:
        values: dict[str, object] = {
            "kind": "cuda",
            "name": "A card",
            "memory_bytes": int(gib * GIB),
            "free_bytes": int(gib * GIB),
            "capability": "9.0",
        }
        return Device(**{**values, **changes})  # type: ignore[arg-type]

    return make
