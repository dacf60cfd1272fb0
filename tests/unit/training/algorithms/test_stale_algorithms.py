"""Where ratios are truncated: by a given limit, or by itself where episodes may be stale."""

import pytest

from practicum.core.config.parse_config import build_config
from practicum.core.errors import ConfigError
from practicum.training.algorithms.build_algorithms import STALE_MAX_RATIO, build_algorithm
from practicum.training.algorithms.credit import OnlineMethod


def limit(staleness: int, **algorithm: object) -> float | None:
    config = build_config(
        {"env": "math", "rollouts": {"staleness": staleness}, "algorithm": algorithm}
    )
    method = build_algorithm(config.algorithm, config.rollouts)
    assert isinstance(method, OnlineMethod)
    return method.config.max_ratio


def test_a_strict_run_has_the_method_itself() -> None:
    assert limit(0, name="grpo") is None


def test_a_stale_run_truncates_unless_told_how() -> None:
    assert limit(1, name="grpo") == STALE_MAX_RATIO
    assert limit(1, name="grpo", max_ratio=5.0) == 5.0
    assert limit(0, name="grpo", max_ratio=5.0) == 5.0


@pytest.mark.parametrize(
    "name", ["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "reinforce++", "ppo", "distill"]
)
def test_every_method_on_its_own_episodes_takes_a_limit(name: str) -> None:
    more = {"teacher": "tiny"} if name == "distill" else {}
    assert limit(2, name=name, max_ratio=3.0, **more) == 3.0


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"rollouts": {"staleness": -1}}, "staleness"),
        ({"algorithm": {"name": "grpo", "max_ratio": 0.5}}, "max_ratio"),
        ({"algorithm": {"name": "sft", "max_ratio": 2.0}, "data": "reference"}, "max_ratio"),
    ],
)
def test_what_makes_no_sense_is_refused(values: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build_config({"env": "math", **values})
