from pathlib import Path

import pytest

from practicum.core.cache_folder import sandbox_cache_root


def test_the_cache_of_sandboxes_is_where_practicum_cache_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRACTICUM_CACHE", raising=False)
    assert sandbox_cache_root().is_relative_to("/var")
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path))
    assert sandbox_cache_root() == tmp_path / "sandboxes"
