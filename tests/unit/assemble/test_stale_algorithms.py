"""Where ratios are truncated: by a given limit, or by itself where episodes may be stale."""

import pytest

from practicum.algorithms import Grpo, Truncated
from practicum.assemble.algorithms import STALE_MAX_RATIO, build_algorithm
from practicum.core.config import build_config
from practicum.core.errors import ConfigError
from practicum.core.interfaces import Algorithm


def built(staleness: int, **algorithm: object) -> Algorithm:
    config = build_config(
        {"env": "math", "rollouts": {"staleness": staleness}, "algorithm": algorithm}
    )
    return build_algorithm(config.algorithm, config.rollouts)


def test_a_strict_run_has_the_method_itself() -> None:
    assert built(0, name="grpo") == Grpo()


def test_a_stale_run_truncates_unless_told_how() -> None:
    assert built(1, name="grpo") == Truncated(method=Grpo(), max_ratio=STALE_MAX_RATIO)
    assert built(1, name="grpo", max_ratio=5.0) == Truncated(method=Grpo(), max_ratio=5.0)
    assert built(0, name="grpo", max_ratio=5.0) == Truncated(method=Grpo(), max_ratio=5.0)


@pytest.mark.parametrize(
    "name", ["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "reinforce++", "ppo", "distill"]
)
def test_every_method_on_its_own_episodes_takes_a_limit(name: str) -> None:
    more = {"teacher": "tiny"} if name == "distill" else {}
    found = built(2, name=name, max_ratio=3.0, **more)
    assert isinstance(found, Truncated)
    assert found.max_ratio == 3.0


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
