import pytest

from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError
from practicum.engine.planning.machine import (
    available_memory,
    choose_device,
    choose_dtype,
    plan_threads,
    process_devices,
    total_memory,
)

GIB = 1 << 30


def test_auto_takes_the_device_and_without_one_the_cpu(make_machine, make_device) -> None:
    assert choose_device(make_machine()) == "cpu"
    assert choose_device(make_machine(devices=(make_device(80),))) == "cuda"
    assert choose_device(make_machine(devices=(make_device(80, kind="rocm"),))) == "cuda"
    assert choose_device(make_machine(devices=(make_device(16, kind="mps"),))) == "mps"


def test_the_cpu_can_be_asked_for_beside_a_device(make_machine, make_device) -> None:
    assert choose_device(make_machine(devices=(make_device(80),)), "cpu") == "cpu"


def test_a_device_torch_cannot_use_is_not_chosen(make_machine, make_device) -> None:
    machine = make_machine(devices=(make_device(80, name="H200", is_usable=False),))

    assert choose_device(machine) == "cpu"
    with pytest.raises(ConfigError, match="H200 is here but the installed torch cannot use it"):
        choose_device(machine, "cuda")


def test_a_device_that_is_not_here_is_a_sentence(make_machine) -> None:
    with pytest.raises(ConfigError, match=r"'mps' cannot be used: .* one of: auto, cpu"):
        choose_device(make_machine(), "mps")


@pytest.mark.parametrize(
    ("device", "wanted", "chosen"),
    [
        ("cpu", "auto", "float32"),
        ("cuda", "auto", "bfloat16"),
        ("mps", "auto", "bfloat16"),
        ("cpu", "bfloat16", "bfloat16"),
        ("cuda", "float32", "float32"),
    ],
)
def test_precision_follows_the_device_unless_told(device: str, wanted: str, chosen: str) -> None:
    assert choose_dtype(device, wanted) == chosen


def test_an_unknown_precision_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"'int8'.*auto, float32 or bfloat16"):
        choose_dtype("cpu", "int8")


@pytest.mark.parametrize(
    ("allowed", "physical", "threads"), [(8, 4, 4), (2, 4, 2), (1, 16, 1), (3, 2, 2)]
)
def test_one_thread_a_physical_core_that_may_be_used(
    make_machine, allowed: int, physical: int, threads: int
) -> None:
    machine = make_machine(allowed_cores=allowed, physical_cores=physical)

    assert plan_threads(machine) == threads


def test_memory_is_counted_where_the_model_runs(make_machine, make_device) -> None:
    machine = make_machine(8, devices=(make_device(80, free_bytes=70 * GIB),))

    assert available_memory(machine, "cpu") == 8 * GIB
    assert available_memory(machine, "cuda") == 70 * GIB
    assert (total_memory(machine, "cpu"), total_memory(machine, "cuda")) == (8 * GIB, 80 * GIB)


def test_an_apple_device_has_no_more_than_the_machine(make_machine, make_device) -> None:
    machine = make_machine(4, devices=(make_device(10, kind="mps"),))

    assert available_memory(machine, "mps") == total_memory(machine, "mps") == 4 * GIB


def test_a_gpu_is_chosen_by_its_number(make_machine, make_device) -> None:
    machine = make_machine(devices=(make_device(80), make_device(24, free_bytes=3 * GIB)))
    assert choose_device(machine, "cuda:1") == "cuda:1"
    assert available_memory(machine, "cuda:1") == 3 * GIB
    assert total_memory(machine, "cuda:1") == 24 * GIB
    assert total_memory(machine, "cuda") == 80 * GIB
    with pytest.raises(ConfigError, match=r"'cuda:2' cannot be used: .* cuda, cuda:0, cuda:1, cpu"):
        choose_device(machine, "cuda:2")


@pytest.mark.parametrize("name", ["cuda:", "cuda:x", "cpu:1", "gpu", "cuda:-1", "cuda:١"])
def test_what_is_no_device_is_a_sentence(name: str) -> None:
    with pytest.raises(ConfigError, match=r"model\.device.*such as cuda:1"):
        build_config({"env": "math", "model": {"device": name}})


def on(count: int, device: str = "auto") -> RunConfig:
    values = {"env": "math", "model": {"device": device}, "hardware": {"processes": count}}
    return build_config(values)


def test_each_process_has_a_gpu_unless_one_is_named(make_machine, make_device) -> None:
    machine = make_machine(devices=(make_device(80),) * 4)
    assert process_devices(on(1), machine) == ("cuda",)
    assert process_devices(on(3), machine) == ("cuda:0", "cuda:1", "cuda:2")
    assert process_devices(on(2, "cuda:3"), machine) == ("cuda:3", "cuda:3")
    assert process_devices(on(2, "cpu"), machine) == ("cpu", "cpu")
    with pytest.raises(ConfigError, match=r"processes = 5 .* and 4 can be used .*--processes 4"):
        process_devices(on(5), machine)
