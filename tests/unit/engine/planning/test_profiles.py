import pytest

from practicum.core.config.parse_config import apply_overrides, build_config
from practicum.core.errors import ConfigError
from practicum.engine.planning.profiles import PROFILE_NAMES, Profile, suggest_profile


def settings(profile: Profile) -> dict[str, str | int]:
    return {suggestion.key: suggestion.value for suggestion in profile.suggestions}


@pytest.mark.parametrize(
    ("gib", "model", "rank", "group", "tasks"),
    [
        (8, "0.5B", 4, 2, 1),
        (16, "0.5B", 8, 4, 1),
        (31, "1.5B", 16, 6, 2),
        (32, "1.5B", 16, 6, 2),
        (64, "3B", 16, 8, 4),
    ],
)
def test_memory_decides_on_a_cpu(make_machine, gib, model, rank, group, tasks) -> None:
    found = settings(suggest_profile("cpu", make_machine(gib)))

    assert found["model"] == f"Qwen/Qwen2.5-{model}-Instruct"
    assert (found["lora.r"], found["lora.alpha"]) == (rank, 2 * rank)
    assert (found["rollouts.group_size"], found["rollouts.tasks_per_step"]) == (group, tasks)
    assert (found["model.device"], found["model.dtype"]) == ("cpu", "float32")


@pytest.mark.parametrize(
    ("gib", "model"), [(4, "0.5B"), (8, "1.5B"), (15.5, "3B"), (24, "7B"), (140, "7B")]
)
def test_the_devices_memory_decides_on_a_gpu(make_machine, make_device, gib, model) -> None:
    machine = make_machine(8, devices=(make_device(gib),))

    found = settings(suggest_profile("gpu", machine))

    assert found["model"] == f"Qwen/Qwen2.5-{model}-Instruct"
    assert (found["model.device"], found["model.dtype"]) == ("cuda", "bfloat16")


def test_ryzen_has_the_numbers_of_a_5950x_with_40_gb(make_machine) -> None:
    found = settings(suggest_profile("ryzen", make_machine(40)))

    assert found["rollouts.tasks_per_step"] == 2
    assert (found["lora.r"], found["lora.alpha"]) == (16, 32)
    assert found["rollouts.group_size"] == 6
    assert found["model.dtype"] == "bfloat16"


def test_auto_goes_by_the_machine(make_machine, make_device) -> None:
    ryzen = make_machine(40, cpu="AMD Ryzen 9 5950X 16-Core Processor")
    unusable = make_machine(devices=(make_device(80, is_usable=False),))

    assert suggest_profile("auto", make_machine()).name == "cpu"
    assert suggest_profile("auto", unusable).name == "cpu"
    assert suggest_profile("auto", ryzen).name == "ryzen"
    assert suggest_profile("auto", make_machine(devices=(make_device(80),))).name == "gpu"


def test_gpu_without_a_device_is_a_sentence(make_machine) -> None:
    with pytest.raises(ConfigError, match=r"'gpu' needs a device .* auto, cpu or ryzen"):
        suggest_profile("gpu", make_machine())


def test_an_unknown_profile_is_a_sentence(make_machine) -> None:
    with pytest.raises(ConfigError, match="'tpu' is not known; choose one of: auto, cpu, gpu"):
        suggest_profile("tpu", make_machine())


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_every_suggestion_can_be_typed_and_has_a_reason(make_machine, make_device, name) -> None:
    machine = make_machine(64, devices=(make_device(24),))
    profile = suggest_profile(name, machine)

    words = [suggestion.setting for suggestion in profile.suggestions]
    config = build_config(apply_overrides({"env": "math"}, words))

    assert config.lora.alpha == 2 * config.lora.r
    assert all(suggestion.reason for suggestion in profile.suggestions)
