import asyncio

import pytest

from practicum.core.errors import (
    AgentFailure,
    CheckpointError,
    ConfigError,
    EnvironmentFailure,
    MissingExtra,
    NotEnoughMemory,
    PolicyMismatch,
    PracticumError,
    RolloutFailure,
    RunBusy,
    UserError,
    boundary,
)


def test_a_foreign_error_becomes_the_kind_of_the_boundary_it_crossed() -> None:
    with (
        pytest.raises(EnvironmentFailure) as caught,
        boundary(EnvironmentFailure, "environment 'math'"),
    ):
        raise KeyError("x")
    told = "environment 'math': KeyError: 'x' (test_errors.py, line 26, in test_a_foreign_error"
    assert str(caught.value).startswith(told)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    "error", [AgentFailure("a"), ConfigError("b"), PolicyMismatch("c")], ids=lambda e: str(e)
)
def test_an_error_that_has_a_kind_passes_the_boundary_unchanged(error: PracticumError) -> None:
    with pytest.raises(PracticumError) as caught, boundary(EnvironmentFailure, "environment"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_an_order_to_stop_is_not_an_episode_that_failed(error: type[BaseException]) -> None:
    with pytest.raises(error), boundary(AgentFailure, "agent"):
        raise error


def test_code_that_leaves_the_program_has_failed() -> None:
    with pytest.raises(AgentFailure, match="exit code 3"), boundary(AgentFailure, "agent"):
        raise SystemExit(3)


async def test_code_that_cancels_itself_has_failed() -> None:
    with pytest.raises(AgentFailure, match="CancelledError"), boundary(AgentFailure, "agent"):
        raise asyncio.CancelledError


async def test_a_task_that_is_cancelled_from_outside_has_not_failed() -> None:
    async def work() -> None:
        with boundary(AgentFailure, "agent"):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_block_without_errors_passes_the_boundary() -> None:
    with boundary(AgentFailure, "agent"):
        value = 1
    assert value == 1


def test_the_innermost_boundary_names_the_failure() -> None:
    with (
        pytest.raises(RolloutFailure) as caught,
        boundary(AgentFailure, "agent"),
        boundary(EnvironmentFailure, "environment"),
    ):
        raise OSError("gone")
    assert type(caught.value) is EnvironmentFailure


@pytest.mark.parametrize(
    "kind", [ConfigError, MissingExtra, NotEnoughMemory, CheckpointError, RunBusy]
)
def test_what_a_user_can_fix_is_a_user_error(kind: type[PracticumError]) -> None:
    assert issubclass(kind, UserError)


@pytest.mark.parametrize("kind", [PolicyMismatch, RolloutFailure])
def test_what_a_user_cannot_fix_is_no_user_error(kind: type[PracticumError]) -> None:
    assert not issubclass(kind, UserError)


def test_errors_can_be_caught_as_what_python_calls_them() -> None:
    assert issubclass(ConfigError, ValueError)
    assert issubclass(MissingExtra, ImportError)


def test_a_missing_extra_says_what_to_type() -> None:
    assert str(MissingExtra.for_extra("train", "training")) == (
        "training needs the extra 'train', which is not installed; "
        "type: pip install 'practicum[train]'"
    )
