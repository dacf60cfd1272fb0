import re

import pytest

from practicum.cli.plan_view import print_plan
from practicum.core.config.parse_config import apply_overrides, build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import NotEnoughMemory
from practicum.engine.planning.memory import FrozenModel, format_bytes, writes_freely
from practicum.engine.planning.memory_plan import check_fits, plan_allotment, plan_memory
from practicum.engine.planning.model_shapes import find_shape
from practicum.engine.planning.profiles import suggest_profile

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
    machine = make_machine(1.5)
    plan = plan_memory(make_config(), machine)
    assert plan is not None

    with pytest.raises(NotEnoughMemory) as refused:
        check_fits(plan, machine)

    sentence = str(refused.value)
    assert "1.5 GiB free" in sentence
    assert "try model.dtype=bfloat16" in sentence
    assert "\n" not in sentence


def test_a_control_group_is_named_when_it_is_the_limit(make_machine) -> None:
    machine = make_machine(1, is_memory_limited=True)
    plan = plan_memory(make_config(), machine)
    assert plan is not None

    with pytest.raises(NotEnoughMemory, match="as its control group allows"):
        check_fits(plan, machine)


def test_every_change_advised_saves_what_it_says(make_machine) -> None:
    machine = make_machine(16, available_bytes=int(1.7 * GIB))
    before = plan_memory(make_config("model=Qwen/Qwen2.5-0.5B-Instruct"), machine)
    assert before is not None
    assert len(before.advice) >= 4

    for advice in before.advice:
        words = ["model=Qwen/Qwen2.5-0.5B-Instruct", advice.setting]
        after = plan_memory(make_config(*words), machine)
        assert after is not None
        assert before.total_bytes - after.total_bytes == advice.saves_bytes
        assert after.fits == advice.fits


def test_a_change_goes_only_as_far_as_needed(make_machine) -> None:
    """The run is made for 16 GiB and most of it is taken by others."""
    words = ("model=Qwen/Qwen2.5-0.5B-Instruct", "env.actions=free", "eval.n=1")
    words = (*words, "rollouts.tasks_per_step=4")

    def advised(free_bytes: int) -> dict[str, str]:
        plan = plan_memory(make_config(*words), make_machine(16, available_bytes=free_bytes))
        assert plan is not None
        found = [a.setting.split("=") for a in plan.advice if a.fits]
        return dict(found)

    whole = plan_memory(make_config(*words), make_machine(16))
    assert whole is not None
    checkpointed = plan_memory(make_config(*words), make_machine(16, available_bytes=1))
    assert checkpointed is not None
    little = advised(checkpointed.total_bytes - (1 << 20))
    much = advised(checkpointed.total_bytes - (1 << 30))

    assert checkpointed.total_bytes < whole.total_bytes
    assert little["rollouts.group_size"] == "4"
    assert much["rollouts.group_size"] == "2"


def test_changes_that_are_enough_come_first(make_machine) -> None:
    plan = plan_memory(make_config(f"model={BIG}"), make_machine(12))
    assert plan is not None

    enough = [advice.fits for advice in plan.advice]

    assert enough == sorted(enough, reverse=True)
    assert plan.advice[0].setting == "model=Qwen/Qwen2.5-0.5B-Instruct"


def test_a_device_is_planned_in_its_own_memory_and_precision(make_machine, make_device) -> None:
    machine = make_machine(8, devices=(make_device(80),))

    plan = plan_memory(make_config(f"model={BIG}"), machine)

    assert plan is not None
    assert (plan.device, plan.dtype, plan.available_bytes) == ("cuda", "bfloat16", 80 * GIB)
    assert plan.fits


def test_a_model_of_7b_fits_a_card_of_24_gb(make_machine, make_device) -> None:
    machine = make_machine(64, devices=(make_device(24, free_bytes=int(23.5 * GIB)),))

    plan = plan_memory(make_config(f"model={BIG}"), machine)

    assert plan is not None
    print(*(f"{part.name:15}{format_bytes(part.bytes):>10}" for part in plan.parts), sep="\n")
    assert (plan.device, plan.dtype) == ("cuda", "bfloat16")
    assert plan.fits
    assert not plan.allotment.checkpointed
    assert plan.allotment.batch_tokens >= 1024
    assert plan.allotment.kv_slots >= 8704  # all tokens of a step
    by_name = {part.name: part.bytes for part in plan.parts}
    assert by_name["weights"] == 7_615_616_512 * 2
    assert by_name["KV cache"] == (plan.allotment.kv_slots + 1) * 2 * 28 * 4 * 128 * 2
    kept = 28 * (2 * 3584 + 2 * (3584 + 512) + 2 * 18_944 + 7 * 16 + 28 * 2) * 2
    assert 1.0 <= by_name["activations"] / (plan.allotment.batch_tokens * kept) <= 1.25


def test_a_dry_run_shows_what_was_chosen_for_the_card_and_why(
    make_machine, make_device, capsys, monkeypatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    machine = make_machine(64, devices=(make_device(24),))
    config = make_config(f"model={BIG}", "rollouts.tasks_per_step=4")

    print_plan(config, plan_memory(config, machine), machine, None)

    page = capsys.readouterr().out
    assert "1,536 tokens" in page
    assert "4,096 would need 30." in page
    assert "16,384 slots" in page
    assert "fits: needs about 21." in page
    assert "captured steps" not in page  # a part that takes nothing is not shown


@pytest.mark.parametrize("actions", ["choose", "free"])
@pytest.mark.parametrize("gib", [8, 16, 24])
def test_what_a_profile_suggests_fits_the_card_it_is_for(
    make_machine, make_device, gib: int, actions: str
) -> None:
    machine = make_machine(64, devices=(make_device(gib),))
    words = [s.setting for s in suggest_profile("gpu", machine).suggestions]
    more = ["env.actions=free"] if actions == "free" else []

    plan = plan_memory(make_config(*words, *more), machine)

    assert plan is not None
    assert plan.fits, plan.choices


@pytest.mark.parametrize("model", ["smollm2-135m", "Qwen/Qwen2.5-0.5B-Instruct", BIG])
@pytest.mark.parametrize("more", [(), ("env.actions=free",), ("algorithm=ppo",), ("lora=light",)])
def test_the_least_that_is_named_is_what_those_words_plan(
    make_machine, make_device, model: str, more: tuple[str, ...]
) -> None:
    for machine in (make_machine(96), make_machine(96, devices=(make_device(80),))):
        words = (f"model={model}", *more)
        plan = plan_memory(make_config(*words), machine)
        assert plan is not None
        assert plan.least is not None
        typed = plan_memory(make_config(*words, *plan.least.settings), machine)
        assert typed is not None
        assert typed.total_bytes == plan.least.bytes < plan.total_bytes


def test_two_gib_are_enough_for_half_a_billion_parameters_and_it_says_how(
    make_machine, capsys
) -> None:
    config = make_config("model=Qwen/Qwen2.5-0.5B-Instruct", "lora=light")
    print_plan(config, plan_memory(config, make_machine(24)), make_machine(24), None)
    page = capsys.readouterr().out
    assert re.search(r"slower, about 2\.\d GiB with model.dtype=bfloat16", page)


def test_a_model_of_unknown_shape_is_allotted_what_is_usual(make_machine, make_device) -> None:
    config = make_config("model=someone/never-heard-of")

    on_cpu = plan_allotment(config, make_machine())
    on_card = plan_allotment(config, make_machine(devices=(make_device(24),)))

    assert (on_cpu.batch_tokens, on_card.batch_tokens) == (2048, 4096)
    assert not on_cpu.checkpointed
    assert on_cpu.kv_slots >= 8192


def test_the_trainable_share_is_in_the_plan(make_machine) -> None:
    plan = plan_memory(
        make_config("model=Qwen/Qwen2.5-0.5B-Instruct", "lora=light"), make_machine()
    )

    assert plan is not None
    assert (plan.trainable, plan.parameters) == (540_672, 494_032_768)


def test_a_model_of_unknown_shape_has_no_plan(make_machine) -> None:
    assert plan_memory(make_config("model=someone/never-heard-of"), make_machine()) is None


def frozen(role: str, name: str = BIG, device: str = "cuda") -> FrozenModel:
    shape = find_shape(name)
    return FrozenModel(role=role, name=name, shape=shape, device=device, dtype="bfloat16")  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["teacher", "judge", "embedder"])
def test_a_frozen_model_is_a_part_of_the_plan(make_machine, make_device, role: str) -> None:
    machine = make_machine(64, devices=(make_device(24),))
    config = make_config("model=Qwen/Qwen2.5-0.5B-Instruct")
    alone, beside = plan_memory(config, machine), plan_memory(config, machine, [frozen(role)])
    assert alone is not None
    assert beside is not None
    (part,) = [part for part in beside.parts if part.name == role]
    weights = 7_615_616_512 * 2
    assert weights <= part.bytes < weights + 5 * GIB
    assert BIG in part.depends_on
    assert role not in {part.name for part in alone.parts}


def test_a_judge_on_a_card_has_a_cache_of_its_own(make_machine, make_device) -> None:
    machine = make_machine(64, devices=(make_device(80),))
    plan = plan_memory(make_config(), machine, [frozen("judge")])
    assert plan is not None
    by_name = {part.name: part.bytes for part in plan.parts}
    cache = 65_537 * 2 * 28 * 4 * 128 * 2  # as `TorchEngine` makes it unless told
    assert by_name["judge"] >= 7_615_616_512 * 2 + cache


def test_a_frozen_model_that_leaves_no_room_is_planned_for_or_refused(
    make_machine, make_device
) -> None:
    machine = make_machine(64, devices=(make_device(24),))
    config = make_config("model=Qwen/Qwen2.5-1.5B-Instruct", "env.actions=free")
    alone, beside = plan_memory(config, machine), plan_memory(config, machine, [frozen("teacher")])
    assert alone is not None
    assert beside is not None
    assert beside.allotment.batch_tokens < alone.allotment.batch_tokens
    assert beside.fits
    both = plan_memory(config, machine, [frozen("teacher"), frozen("judge")])
    assert both is not None
    with pytest.raises(NotEnoughMemory):
        check_fits(both, machine)


def test_where_there_is_room_a_frozen_model_changes_nothing_of_the_allotment(make_machine) -> None:
    config, machine = make_config("model=tiny"), make_machine(16)
    alone = plan_memory(config, machine)
    beside = plan_memory(config, machine, [frozen("judge", "smollm2-135m", "cpu")])
    assert alone is not None
    assert beside is not None
    assert beside.allotment == alone.allotment
    assert beside.total_bytes > alone.total_bytes


def test_a_frozen_model_that_cannot_be_counted_is_named(make_machine, capsys) -> None:
    machine, config = make_machine(16), make_config("model=tiny")
    models = [frozen("judge", "someone/never-heard-of", "cpu"), frozen("teacher")]
    plan = plan_memory(config, machine, models)
    assert plan is not None
    assert plan.total_bytes == plan_memory(config, machine).total_bytes  # type: ignore[union-attr]
    print_plan(config, plan, machine, None)
    page = capsys.readouterr().out
    assert "not counted: judge someone/never-heard-of: its shape is not known here" in page
    assert f"not counted: teacher {BIG}: it goes to cuda" in page


def staged(*rollouts: dict[str, int]) -> RunConfig:
    stages = [{"steps": 1, "algorithm": "grpo", "rollouts": one} for one in rollouts]
    env = {"name": "math", "actions": "free"}
    return build_config({"env": env, "model": {"name": BIG}, "stages": stages})


def test_a_run_of_stages_is_planned_for_the_one_that_needs_most(make_machine, make_device) -> None:
    machine = make_machine(64, devices=(make_device(40),))
    light, heavy = {"max_tokens": 16, "max_turns": 1}, {"max_tokens": 512, "max_turns": 8}
    easy, hard = plan_memory(staged(light), machine), plan_memory(staged(light, heavy), machine)
    assert easy is not None
    assert hard is not None
    assert hard.total_bytes > easy.total_bytes
    assert hard.stage_batch_tokens[0] == easy.stage_batch_tokens[0]
    assert hard.stage_batch_tokens[1] == hard.allotment.batch_tokens
    names = [choice.name for choice in hard.choices]
    assert names[:2] == ["micro-batch, stage 1", "micro-batch, stage 2"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 MiB"), (300 << 20, "300 MiB"), (GIB, "1.0 GiB"), (5 * GIB, "5.0 GiB")],
)
def test_bytes_are_written_in_the_unit_a_person_would_choose(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("env", "is_free"),
    [
        ("math", False),
        ({"name": "math", "actions": "free"}, True),
        ("shell", True),
        ("office", True),
        ({"name": "tasks", "data": "rows.jsonl"}, True),
        ("mine.py:Own", True),
    ],
)
def test_turns_that_may_be_free_text_are_planned_as_such(env: object, is_free: bool) -> None:
    assert writes_freely(build_config({"env": env})) == is_free


def test_processes_in_the_same_memory_are_a_part_of_the_plan(make_machine) -> None:
    alone = plan_memory(make_config(), make_machine(16))
    three = plan_memory(make_config("hardware.processes=3"), make_machine(16))
    assert alone is not None
    assert three is not None
    assert three.allotment == alone.allotment
    (replicas,) = [part for part in three.parts if part.name == "replicas"]
    learning = [p.bytes for p in alone.parts if p.name not in ("KV cache", "sampling")]
    assert replicas.bytes == 2 * sum(learning)
    assert three.total_bytes == alone.total_bytes + replicas.bytes
    assert three.replicas == ()


def test_each_process_on_a_gpu_of_its_own_must_fit_there(make_machine, make_device) -> None:
    config = make_config(f"model={BIG}", "hardware.processes=2")
    roomy = make_machine(8, devices=(make_device(80), make_device(80)))
    plan = plan_memory(config, roomy)
    assert plan is not None
    assert plan.fits
    (replica,) = plan.replicas
    assert replica.device == "cuda:1"
    assert 14 * GIB < replica.needed_bytes < plan.total_bytes
    full = make_machine(8, devices=(make_device(80), make_device(80, free_bytes=GIB)))
    crowded = plan_memory(config, full)
    assert crowded is not None
    assert crowded.total_bytes <= crowded.available_bytes
    assert not crowded.fits
    with pytest.raises(
        NotEnoughMemory, match=r"process on cuda:1 needs about .* and 1\.0 GiB are free"
    ):
        check_fits(crowded, full)


def test_the_plan_is_of_the_gpu_that_is_named(make_machine, make_device) -> None:
    machine = make_machine(8, devices=(make_device(80), make_device(24)))
    plan = plan_memory(make_config("model=tiny", "model.device=cuda:1"), machine)
    assert plan is not None
    assert (plan.device, plan.available_bytes) == ("cuda", 24 * GIB)
