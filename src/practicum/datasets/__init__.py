"""Recorded episodes to training sets: what is kept, how it is weighed, where it is written."""

from practicum.datasets.build import KINDS, BuildOptions, Built, Kind, build
from practicum.datasets.left_out import LeftOut
from practicum.datasets.reading import FORMATS, Fault, read_examples
from practicum.datasets.recorded import episode_examples, verdict
from practicum.datasets.reference import reference_episodes
from practicum.datasets.statistics import describe as describe_dataset
from practicum.datasets.tokenise import tokenise
from practicum.datasets.writing import Side, checked_file, is_built, read_manifest, write_dataset

__all__ = [
    "FORMATS",
    "KINDS",
    "BuildOptions",
    "Built",
    "Fault",
    "Kind",
    "LeftOut",
    "Side",
    "build",
    "checked_file",
    "describe_dataset",
    "episode_examples",
    "is_built",
    "read_examples",
    "read_manifest",
    "reference_episodes",
    "tokenise",
    "verdict",
    "write_dataset",
]
