import re
import sys

import pytest

from practicum.sandboxes.guarded.confinement import why_no_landlock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is a part of Linux")


@pytest.mark.parametrize(
    ("version", "is_root", "reason"),
    [
        (0, True, "no Landlock"),
        (0, False, "no Landlock"),
        (1, True, None),
        (5, False, r"version 5, which does not guard processes; .* version 6"),
        (6, False, None),
        (7, False, None),
    ],
)
def test_what_landlock_must_guard_depends_on_who_starts_it(
    version: int, is_root: bool, reason: str | None
) -> None:
    said = why_no_landlock(version, is_root=is_root)
    if reason is None:
        assert said is None
    else:
        assert said is not None
        assert re.search(reason, said)
