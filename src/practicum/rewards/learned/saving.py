"""A labeler on disk: `labeler.json` for people and checks, `labeler.npz` for the arrays.

No pickle: opening a labeler that someone sent runs nothing.
"""

import hashlib
import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from practicum.core.errors import UserError
from practicum.rewards.learned.calibration import PlattScale
from practicum.rewards.learned.facts import FACT_NAMES
from practicum.rewards.learned.labeler import Labeler
from practicum.rewards.learned.logistic import LogisticModel
from practicum.rewards.learned.ngrams import PLACES
from practicum.rewards.learned.space import FeatureSpace

__all__ = ["load_labeler", "save_labeler"]

DESCRIPTION = "labeler.json"
ARRAYS = "labeler.npz"
VERSION = 1


def save_labeler(labeler: Labeler, folder: Path) -> None:
    """Write a labeler into a folder, which is made if need be; the description goes last."""
    folder.mkdir(parents=True, exist_ok=True)
    model = labeler.model
    arrays = {
        **asdict(labeler.space),
        "weights": model.weights,
        "basis": model.basis,
        "covariance": model.covariance,
    }
    unfinished = folder / f".{ARRAYS}.new"
    with unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)
    digest = hashlib.sha256(unfinished.read_bytes()).hexdigest()
    described = {
        "version": VERSION,
        "labels": labeler.labels,
        "embedder": labeler.embedder,
        "strength": model.strength,
        "intercept": model.intercept,
        "calibration": asdict(labeler.scale),
        "facts": list(FACT_NAMES),
        "word_places": PLACES,
        "arrays_sha256": digest,
    }
    told = folder / f".{DESCRIPTION}.new"
    told.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    os.replace(unfinished, folder / ARRAYS)
    os.replace(told, folder / DESCRIPTION)


def load_labeler(folder: Path) -> Labeler:
    """Read back what `save_labeler` wrote; anything else is refused in a sentence."""
    described = _read_description(folder)
    arrays = _read_arrays(folder, described)
    try:
        space = FeatureSpace(**{name: arrays[name] for name in FeatureSpace.__slots__})
        model = LogisticModel(
            weights=arrays["weights"],
            intercept=float(described["intercept"]),
            strength=float(described["strength"]),
            basis=arrays["basis"],
            covariance=arrays["covariance"],
        )
        scale = PlattScale(**described["calibration"])
        labels, embedder = int(described["labels"]), str(described["embedder"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder, f"{type(error).__name__}: {error}") from error
    if model.weights.shape != (space.width,):
        raise _damaged(folder, f"{model.weights.shape} weights for {space.width} features")
    return Labeler(space=space, model=model, scale=scale, labels=labels, embedder=embedder)


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not path.is_file():
        raise UserError(
            f"{str(folder)!r} holds no labeler: there is no {DESCRIPTION}; make one with "
            "practicum traces label --save FOLDER"
        )
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise _damaged(folder, str(error)) from error
    if not isinstance(described, dict) or described.get("version") != VERSION:
        found = described.get("version") if isinstance(described, dict) else described
        raise UserError(
            f"the labeler in {str(folder)!r} has version {found!r}, and {VERSION} is read here; "
            "make it again with practicum traces label --save FOLDER"
        )
    if described.get("facts") != list(FACT_NAMES) or described.get("word_places") != PLACES:
        raise UserError(
            f"the labeler in {str(folder)!r} was taught with other features than are read here; "
            "make it again with practicum traces label --save FOLDER"
        )
    return described


def _read_arrays(folder: Path, described: dict[str, Any]) -> dict[str, Any]:
    path = folder / ARRAYS
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != described.get("arrays_sha256"):
            raise _damaged(folder, f"{ARRAYS} is not the file that {DESCRIPTION} speaks of")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise _damaged(folder, str(error)) from error


def _damaged(folder: Path, reason: str) -> UserError:
    return UserError(
        f"the labeler in {str(folder)!r} is damaged ({reason}); copy it again, or make it again "
        "with practicum traces label --save FOLDER"
    )
