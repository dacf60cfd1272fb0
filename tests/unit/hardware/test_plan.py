import pytest

from practicum.core.config import RunConfig, apply_overrides, build_config
from practicum.core.errors import NotEnoughMemory
from practicum.hardware.plan import check_fits, format_bytes, plan_memory

GIB = 1 << 30
BIG = "Qwen/Qwen2.5-7B-Instruct"


@pytest.fixture(autouse=True)
def ordinary_heap(monkeypatch) -> None:
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)


def make_config(*words: str) -> RunConfig:
    return build_config(apply_overrides({"env": "math"}, words))


def test_the_parts_add_up_and_a_run_that_fits_needs_no_advice(make_machine) -> None:
    plan = plan_memory(make_config(), make_machine(16))

    assert plan is not None
    assert plan.total_bytes == sum(part.bytes for part in plan.parts)
    assert plan.fits
    assert plan.advice == ()
    check_fits(plan, make_machine(16))


def test_a_run_that_does_not_fit_is_refused_with_one_sentence(make_machine) -> None:
    machine = make_machine(2)
    plan = plan_memory(make_config(), machine)
    assert plan is not None

    with pytest.raises(NotEnoughMemory) as refused:
        check_fits(plan, machine)

    sentence = str(refused.value)
    assert "2.0 GiB free" in sentence
    assert "try algorithm.micro_batch_tokens=" in sentence
    assert "\n" not in sentence


def test_a_control_group_is_named_when_it_is_the_limit(make_machine) -> None:
    machine = make_machine(1, is_memory_limited=True)
    plan = plan_memory(make_config(), machine)
    assert plan is not None

    with pytest.raises(NotEnoughMemory, match="as its control group allows"):
        check_fits(plan, machine)


def typed(setting: str) -> RunConfig:
    """The config with what the advice says typed behind it."""
    return make_config(setting)


def test_every_change_advised_saves_what_it_says(make_machine) -> None:
    machine = make_machine(2)
    before = plan_memory(make_config(), machine)
    assert before is not None
    settings = [advice for advice in before.advice if "MALLOC" not in advice.setting]
    assert len(settings) >= 4

    for advice in settings:
        after = plan_memory(typed(advice.setting), machine)
        assert after is not None
        assert before.total_bytes - after.total_bytes == advice.saves_bytes
        assert after.fits == advice.fits


def test_a_change_goes_only_as_far_as_needed(make_machine) -> None:
    plenty, less = make_machine(3.5), make_machine(2.0)
    first, second = plan_memory(make_config(), plenty), plan_memory(make_config(), less)
    assert first is not None
    assert second is not None

    assert first.advice[0].setting == "algorithm.micro_batch_tokens=512"
    assert second.advice[0].setting == "algorithm.micro_batch_tokens=128"


def test_changes_that_are_enough_come_first(make_machine) -> None:
    plan = plan_memory(make_config(f"model={BIG}"), make_machine(20))
    assert plan is not None

    enough = [advice.fits for advice in plan.advice]

    assert enough == sorted(enough, reverse=True)
    assert plan.advice[0].setting == "model=Qwen/Qwen2.5-1.5B-Instruct"


def test_a_variable_that_tightens_the_heap_is_advised_only_once(make_machine, monkeypatch) -> None:
    loose = plan_memory(make_config(), make_machine(2))
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    tight = plan_memory(make_config(), make_machine(2))
    assert loose is not None
    assert tight is not None
    name = "MALLOC_MMAP_THRESHOLD_=65536"

    (advice,) = [a for a in loose.advice if a.setting == name]

    assert name not in [a.setting for a in tight.advice]
    assert loose.total_bytes - tight.total_bytes == advice.saves_bytes


def test_a_device_is_planned_in_its_own_memory_and_precision(make_machine, make_device) -> None:
    machine = make_machine(8, devices=(make_device(80),))

    plan = plan_memory(make_config(f"model={BIG}"), machine)

    assert plan is not None
    assert (plan.device, plan.dtype, plan.available_bytes) == ("cuda", "bfloat16", 80 * GIB)
    assert plan.fits


def test_the_trainable_share_is_in_the_plan(make_machine) -> None:
    plan = plan_memory(
        make_config("model=Qwen/Qwen2.5-0.5B-Instruct", "lora=light"), make_machine()
    )

    assert plan is not None
    assert (plan.trainable, plan.parameters) == (540_672, 494_032_768)


def test_a_model_of_unknown_shape_has_no_plan(make_machine) -> None:
    assert plan_memory(make_config("model=someone/never-heard-of"), make_machine()) is None


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 MiB"), (300 << 20, "300 MiB"), (GIB, "1.0 GiB"), (5 * GIB, "5.0 GiB")],
)
def test_bytes_are_written_in_the_unit_a_person_would_choose(count: int, text: str) -> None:
    assert format_bytes(count) == text
