import pytest

from practicum.assemble.learner_processes import Launch, launched, learner_processes
from practicum.core.errors import ConfigError, PracticumError, UserError

TOLD = {"WORLD_SIZE": "4", "RANK": "2", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1"}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*TOLD, "PRACTICUM_MEETING"):
        monkeypatch.delenv(name, raising=False)


def tell(monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
    for name, value in {**TOLD, **changes}.items():
        monkeypatch.setenv(name, value)


def test_a_process_that_nobody_launched_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launched() is None
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    assert launched() is None
    with learner_processes(1) as group:
        assert group is None


def test_a_launcher_says_which_process_this_is_and_where_they_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tell(monkeypatch)
    assert launched() == Launch(2, 4, "env://")
    monkeypatch.setenv("PRACTICUM_MEETING", "/there")
    assert launched() == Launch(2, 4, "file:///there/meeting")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"RANK": ""}, r"one of 4 \(WORLD_SIZE\), and has not said which"),
        ({"MASTER_ADDR": ""}, "type practicum train --processes 4"),
        ({"LOCAL_WORLD_SIZE": "2"}, "several machines, 2 on each"),
    ],
)
def test_a_launcher_that_cannot_be_followed_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], said: str
) -> None:
    tell(monkeypatch, **changes)
    with pytest.raises(UserError, match=said):
        launched()


@pytest.mark.parametrize(
    ("rank", "count", "said"),
    [
        ("0", 1, "each would train a run of its own; .* hardware.processes=4"),
        ("2", 4, "each would train a run of its own"),
        ("0", 2, "hardware.processes = 2, and a launcher has started 4"),
    ],
)
def test_a_program_of_ones_own_is_not_trained_by_each_process_of_a_launcher(
    monkeypatch: pytest.MonkeyPatch, rank: str, count: int, said: str
) -> None:
    tell(monkeypatch, RANK=rank)
    with pytest.raises(UserError, match=said), learner_processes(count):
        pass


def test_a_process_that_ends_before_the_run_begins_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr("sys.executable", "/bin/false")
    told = r"learner process 1 \(pid \d+\) ended with exit code 1 before the run began"
    with pytest.raises(PracticumError, match=told), learner_processes(2):
        pass


def test_a_policy_that_is_no_runs_learns_in_one_process() -> None:
    from practicum.assemble.build_policy import build_policy
    from practicum.core.config.parse_config import build_config

    config = build_config({"env": "math", "model": "tiny", "hardware": {"processes": 2}})
    with pytest.raises(ConfigError, match=r"hardware.processes = 2 is for practicum train"):
        build_policy(config)
