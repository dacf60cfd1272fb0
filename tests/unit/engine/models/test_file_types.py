"""Which types are written, and the one that is recommended."""

import pytest

from practicum.core.errors import UserError
from practicum.engine.models.file_types import BITS, FILE_TYPES, read_file_types, recommended_type

GIB = 1 << 30


@pytest.mark.parametrize(
    ("memory", "weights", "expected"),
    [(16, 1, "Q8_0"), (16, 16, "Q6_K"), (16, 20, "Q5_K_M"), (16, 24, "Q4_K_M"), (4, 28, "Q3_K_M")],
)
def test_the_recommended_type_leaves_three_quarters_of_the_memory(
    memory: int, weights: int, expected: str
) -> None:
    assert recommended_type(weights * GIB // 4, memory * GIB) == expected


def test_types_are_named_in_any_case_and_written_smallest_first() -> None:
    assert read_file_types(["f16", "q4_k_m", "F16"]) == ["Q4_K_M", "F16"]
    assert read_file_types(["all"]) == list(FILE_TYPES) == list(BITS)
    assert read_file_types([]) == []


def test_an_unknown_type_is_told_with_those_there_are() -> None:
    with pytest.raises(UserError, match="no type 'Q5'; known types: Q2_K, Q3_K_M"):
        read_file_types(["Q5"])
