import pytest

from practicum.assemble.policies import sampling_params
from practicum.core.config.config_sections import RolloutConfig


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0, 1.2])
def test_nothing_but_the_temperature_of_an_evaluation_is_its_own(temperature: float) -> None:
    rollouts = RolloutConfig(temperature=1.0, top_p=0.9, top_k=5, max_tokens=7)
    found = sampling_params(rollouts, temperature)
    assert found.temperature == temperature
    assert (found.top_p, found.top_k, found.max_tokens) == (0.9, 5, 7)
