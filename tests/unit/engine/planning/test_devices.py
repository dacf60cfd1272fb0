import stat
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from practicum.engine.planning import machine
from practicum.engine.planning.machine import find_devices

MIB = 1 << 20

without_device = pytest.mark.skipif(
    not metadata.version("torch").endswith("+cpu"), reason="this torch may find a device"
)


def program(folder: Path, script: str) -> str:
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


@without_device
def test_cards_the_driver_lists_are_shown_as_unusable_when_torch_cannot_use_them(tmp_path) -> None:
    rows = "NVIDIA H200, 143771, 140000, 9.0\\nTesla T4, 15360, 15000, 7.5"

    first, second = find_devices(program(tmp_path, f"printf '{rows}\\n'"))

    assert (first.name, first.capability, first.is_usable) == ("NVIDIA H200", "9.0", False)
    assert (first.memory_bytes, first.free_bytes) == (143771 * MIB, 140000 * MIB)
    assert (second.kind, second.name) == ("cuda", "Tesla T4")


@without_device
def test_a_name_with_a_comma_and_a_card_without_memory_of_its_own_are_read(tmp_path) -> None:
    (card,) = find_devices(program(tmp_path, "echo 'GB10, shared, [N/A], [N/A], 12.1'"))

    assert (card.name, card.memory_bytes, card.capability) == ("GB10, shared", 0, "12.1")


@without_device
@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'"])
def test_a_driver_without_cards_means_no_devices(tmp_path, script: str) -> None:
    assert find_devices(program(tmp_path, script)) == ()


@without_device
def test_no_driver_means_no_devices(tmp_path) -> None:
    assert find_devices(str(tmp_path / "absent")) == ()


@pytest.mark.gpu
def test_torchs_device_is_usable_and_has_memory() -> None:
    device = find_devices()[0]

    assert device.is_usable
    assert 0 < device.free_bytes <= device.memory_bytes


@pytest.mark.gpu
def test_what_torch_keeps_for_its_next_tensors_counts_as_free() -> None:
    import torch

    taken = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    during = find_devices()[0].free_bytes
    del taken
    assert find_devices()[0].free_bytes >= during + (1 << 30)


@pytest.mark.parametrize("told", ["CUDA error: out of memory", "CUDA error: no such device"])
def test_a_gpu_that_others_have_filled_has_no_free_memory(told: str) -> None:
    def ask(index: int) -> tuple[int, int]:
        raise RuntimeError(told)

    cuda = SimpleNamespace(
        get_device_properties=lambda index: SimpleNamespace(
            name="H200", total_memory=140 << 30, major=9, minor=0
        ),
        mem_get_info=ask,
        memory_reserved=lambda index: 0,
        memory_allocated=lambda index: 0,
    )
    torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=None))
    if "out of memory" not in told:
        with pytest.raises(RuntimeError, match="no such device"):
            machine._cuda_device(torch, 0)
        return
    found = machine._cuda_device(torch, 0)
    assert (found.free_bytes, found.memory_bytes) == (0, 140 << 30)
