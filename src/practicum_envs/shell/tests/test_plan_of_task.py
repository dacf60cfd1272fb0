import pytest

from practicum_envs.shell.plan_of_task import Plan, Script, read_script
from practicum_envs.shell.tests.builders import make_task


@pytest.mark.parametrize(
    ("value", "script"),
    [
        ("ls", Script(code="ls")),
        ({"code": "ls"}, Script(code="ls")),
        ({"language": "python", "code": "1"}, Script(code="1", language="python")),
    ],
)
def test_a_script_is_text_or_says_its_language(value: object, script: Script) -> None:
    assert read_script(value) == script
    assert read_script(script.as_json()) == script


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (3, "int is not a script"),
        ({"language": "cpp", "code": "x"}, "'cpp' cannot be run"),
        ({"language": "bash"}, "no code"),
    ],
)
def test_what_is_no_script_is_refused(value: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_script(value)


def test_arguments_do_not_become_options() -> None:
    assert Script(code="echo $1").command("-x") == ("bash", "-c", "echo $1", "--", "-x")
    assert Script(code="echo").command() == ("bash", "-c", "echo")
    isolated = Script(code="print()", language="python").command("-x")
    assert isolated == ("python3", "-I", "-c", "print()", "-x")


def test_a_plan_is_read_from_a_tasks_data() -> None:
    plan = Plan.of(make_task(setup=["a", "b"], near_misses=["c"], cwd="/srv"))
    assert [one.code for one in plan.setup] == ["a", "b"]
    assert [one.code for one in plan.near_misses] == ["c"]
    assert plan.cwd == "/srv"
    assert not plan.takes_answers
    assert Plan.of(make_task(setup="")).setup == ()
