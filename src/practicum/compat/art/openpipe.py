"""For scripts that keep ART's own classes: Practicum as one of its backends.

    import art
    from practicum.compat.art import openpipe

    model = art.TrainableModel(name="agent-1", project="demo", base_model="smollm2-135m")
    await model.register(openpipe.backend())

Its trajectories, groups and clients stay its own; sampling and learning are Practicum's.
"""

import importlib.util
from typing import Any

from practicum.compat.art.local import LocalBackend
from practicum.core.errors import UserError


def backend(**options: Any) -> LocalBackend:
    """What `register` of ART's `TrainableModel` takes; options are those of `LocalBackend`."""
    if importlib.util.find_spec("art") is None:
        raise UserError(
            "openpipe-art is not installed here; type: pip install openpipe-art, or use "
            "practicum.compat.art in its place"
        )
    return LocalBackend(**options)
