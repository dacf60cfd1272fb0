"""Sandboxes, looked over and prepared."""

from collections.abc import Callable
from pathlib import Path

from practicum.sandboxes.bubblewrap.rootfs import build_root
from practicum.sandboxes.survey import KindSurvey, broken_claims, limits_note, survey_kinds

__all__ = ["KindSurvey", "broken_claims", "build_sandbox_root", "limits_note", "survey_kinds"]


def build_sandbox_root(say: Callable[[str], None], archive: Path | None) -> Path:
    """The root file system of sandboxes, built or unpacked."""
    return build_root(say, archive)
