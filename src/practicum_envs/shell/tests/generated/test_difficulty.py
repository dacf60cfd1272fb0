"""The estimate counts what is there."""

from practicum_envs.shell.generated.assertions import Mode, Type, User
from practicum_envs.shell.generated.task_generator import measure_difficulty


def test_commands_options_and_objects_are_counted() -> None:
    found = measure_difficulty(
        reference="mkdir -p /a\ncd /a && grep x f | wc -l > n\nsleep 5 >/dev/null 2>&1 &\n",
        assertions=[Type("/a", "folder"), Mode("/a", 0o755), User("ann")],
        skills=["mkdir", "grep"],
        instruction="Do this now.",
    )
    assert found == {
        "commands": 5,
        "options": 2,
        "assertions": 3,
        "objects": 2,
        "skills": 2,
        "words": 3,
        "score": 10.0,
    }
