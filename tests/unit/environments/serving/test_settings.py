import pytest

from practicum.core.errors import UserError
from practicum.environments.serving.served_episodes import ServerSettings


def test_routes_without_a_key_are_only_for_loopback() -> None:
    with pytest.raises(UserError, match="--lifelong"):
        ServerSettings(key="k", host="0.0.0.0", lifelong=True)
    assert ServerSettings(key="k", lifelong=True).lifelong
