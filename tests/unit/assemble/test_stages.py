from typing import Any

import pytest
from tests.unit.engine.reference import build_fresh_policy

from practicum.assemble.build_policy import frozen_models, learner_settings, plan_run, stage_view
from practicum.assemble.build_stages import _teacher
from practicum.core.config.parse_config import build_config
from practicum.engine.learning.teachers import RemoteTeacher, TorchTeacher
from practicum.engine.planning.machine import detect_machine

STAGED = build_config(
    {
        "env": "math",
        "model": {"name": "tiny", "device": "cpu"},
        "stages": [
            {"steps": 3, "algorithm": {"name": "sft", "lr": 1e-3}, "data": "reference"},
            {"steps": 2, "algorithm": {"name": "ppo", "value_lr": 0.05, "weight_decay": 0.1}},
        ],
    }
)


def test_a_step_belongs_to_the_stage_that_it_lies_in() -> None:
    names = [STAGED.stage_at(step).algorithm.name for step in (1, 3, 4, 5, 9)]
    assert names == ["sft", "sft", "ppo", "ppo", "ppo"]


def test_each_stage_tunes_the_learner_and_the_value_head_is_there_from_the_start() -> None:
    warm, rest = (learner_settings(STAGED, stage) for stage in STAGED.stages)
    assert (warm.lr, warm.weight_decay, warm.value_lr) == (1e-3, 0.0, 0.05)
    assert (rest.lr, rest.weight_decay, rest.value_lr) == (2e-4, 0.1, 0.05)
    plain = build_config({"env": "math", "model": "tiny"})
    assert learner_settings(plain, plain.all_stages[0]).value_lr is None


def test_a_stage_is_seen_as_a_run_of_its_own() -> None:
    view = stage_view(STAGED, STAGED.stages[0])
    assert (view.algorithm.name, view.steps, view.stages) == ("sft", 3, ())
    assert view.data == STAGED.stages[0].data
    assert view.algorithm.micro_batch_tokens > 0


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("grpo", type(None)),
        ({"name": "distill", "teacher": "http://localhost:1/v1"}, RemoteTeacher),
        ({"name": "distill", "teacher": "tiny"}, TorchTeacher),
    ],
)
def test_the_teacher_is_whom_the_config_names(algorithm: Any, kind: type) -> None:
    config = build_config(
        {"env": "math", "model": {"name": "tiny", "device": "cpu"}, "algorithm": algorithm}
    )
    view = stage_view(config, config.all_stages[0])
    assert isinstance(_teacher(view, build_fresh_policy()), kind)


def test_the_plan_says_each_stages_micro_batch() -> None:
    plan = plan_run(STAGED, detect_machine())
    assert plan is not None
    views = [stage_view(STAGED, stage) for stage in STAGED.stages]
    assert list(plan.stage_batch_tokens) == [v.algorithm.micro_batch_tokens for v in views]


def test_a_local_teacher_and_a_local_judge_are_in_the_plan_and_served_ones_are_not() -> None:
    here, there = {"name": "judge", "model": "tiny"}, "http://localhost:1/v1"
    judges = [
        here,
        {**here, "label": "again", "weight": 0.5},  # the same model, loaded once
        {**here, "label": "served", "endpoint": there},
    ]
    names = []
    for teacher in ("tiny", there):
        config = build_config(
            {
                "env": "math",
                "model": {"name": "tiny", "device": "cpu"},
                "algorithm": {"name": "distill", "teacher": teacher, "reward_coef": 1.0},
                "reward": {"components": ["outcome", *judges]},
            }
        )
        names.append([model.role for model in frozen_models(config)])
        plan = plan_run(config, detect_machine())
        assert plan is not None
        assert [p.name for p in plan.parts[-len(names[-1]) :]] == names[-1]
    assert names == [["teacher", "judge"], ["judge"]]
