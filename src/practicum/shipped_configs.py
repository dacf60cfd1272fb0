"""The configs that come with the package, so that `configs/tiny.yaml` works without a clone."""

from pathlib import Path

FOLDER = Path(__file__).parent / "configs"
"""Only in a built package: in a clone they are in its own `configs`."""


def find_config(named: str) -> Path:
    """A config file as it is named; `configs/NAME` that is not there is the package's own."""
    path = Path(named)
    own = FOLDER / path.name
    is_ours = path.parent == Path("configs") and not path.exists() and own.is_file()
    return own if is_ours else path
