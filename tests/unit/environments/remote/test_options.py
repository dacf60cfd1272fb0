from typing import Any

import pytest

from practicum.core.errors import ConfigError
from practicum.environments.registry import build_environment


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "say where the episodes live"),
        ({"url": "http://127.0.0.1:1", "serve": "math"}, "not both"),
        ({"url": "127.0.0.1:8000"}, "begins with http"),
        ({"url": "ftp://127.0.0.1"}, "begins with http"),
        ({"url": "http://127.0.0.1:99999"}, "begins with http"),
        ({"url": "http://me:secret@127.0.0.1:8000"}, "key_file"),
        ({"serve": "remote"}, "cannot be remote itself"),
        ({"serve": "mathe"}, "did you mean 'math'"),
        ({"serve": "math", "options": {"levle": 2}}, "did you mean 'env.level'"),
        ({"serve": "math", "call_timeout_s": 0}, "greater than 0"),
    ],
)
def test_a_config_that_cannot_be_used_is_one_sentence(
    options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        build_environment("remote", options)


def test_nothing_is_started_before_the_first_episode() -> None:
    environment: Any = build_environment("remote", {"serve": "math", "options": {"level": 2}})
    task = next(environment.tasks("train", 0))
    assert (task.env, task.level) == ("remote", 2)
    assert environment.find("3x + 7 = 16").env == "remote"
    assert len(environment.reference(task)) > 1
    assert (environment.session_kind, environment.default_reward) == ("discrete", "turns")
    assert environment.server_pid is None
