"""What programs earn: the solution all, near-misses no success, tricks next to nothing."""

import shutil

import pytest

from practicum_envs.code.families.all_code_families import code_families

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
EVERY = sorted(code_families())
