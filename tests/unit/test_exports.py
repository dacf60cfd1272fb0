"""Which types are written, and the one that is recommended."""

from dataclasses import replace

import pytest

from practicum import exports
from practicum.core.errors import UserError
from practicum.engine.models.llama_cpp import FILE_TYPES
from practicum.engine.planning.machine import detect_machine

GIB = 1 << 30


@pytest.mark.parametrize(
    ("memory", "weights", "expected"),
    [(16, 1, "Q8_0"), (16, 16, "Q6_K"), (16, 20, "Q5_K_M"), (16, 24, "Q4_K_M"), (4, 28, "Q3_K_M")],
)
def test_the_recommended_type_leaves_three_quarters_of_the_memory(
    memory: int, weights: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = replace(detect_machine(), available_bytes=memory * GIB)
    monkeypatch.setattr(exports, "detect_machine", lambda: here)
    assert exports.recommended_type(weights * GIB) == expected


def test_types_are_named_in_any_case_and_written_smallest_first() -> None:
    assert exports.read_file_types(["f16", "q4_k_m", "F16"]) == ["Q4_K_M", "F16"]
    assert exports.read_file_types(["all"]) == list(FILE_TYPES) == list(exports.BITS)
    assert exports.read_file_types([]) == []


def test_an_unknown_type_is_told_with_those_there_are() -> None:
    with pytest.raises(UserError, match="no type 'Q5'; known types: Q2_K, Q3_K_M"):
        exports.read_file_types(["Q5"])
