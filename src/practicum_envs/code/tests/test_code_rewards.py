"""What programs earn: the solution all, near-misses no success, tricks next to nothing."""

import shutil

import pytest
from practicum_envs.code.tests.code_play import environment, played, some_tasks

from practicum_envs.code.code_environment import problem_in, task_of
from practicum_envs.code.code_probes import HOSTILE, LARGEST_SHARE, hostile_program, probes
from practicum_envs.code.code_scripts import Scripts
from practicum_envs.code.families.all_code_families import code_families

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
EVERY = sorted(code_families())
