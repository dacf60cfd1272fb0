"""The header of a .gguf file, against the reader of the package `gguf`."""

import contextlib
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.errors import UserError
from practicum.engine.models.gguf_header import read_gguf_header

WORDS = ["a", "", "ä" * 40, "b"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("header") / "any.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(3)
    writer.add_rope_freq_base(10000.5)
    writer.add_add_bos_token(True)
    writer.add_chat_template("{{ messages }}")
    writer.add_token_list(WORDS)
    writer.add_token_scores([0.5, 1.5, 2.5])
    writer.add_tensor("one", np.zeros((2, 3), dtype=np.float32))
    writer.add_tensor("two", np.zeros((5,), dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_it_says_what_the_packages_own_reader_says(file: Path) -> None:
    header, reader = read_gguf_header(file), gguf.GGUFReader(file)
    shapes = {tensor.name: tuple(int(n) for n in tensor.shape) for tensor in reader.tensors}
    assert header.tensors == shapes
    assert header.elements == sum(int(tensor.n_elements) for tensor in reader.tensors) == 11
    for name, field in reader.fields.items():
        if not name.startswith("GGUF."):
            told = field.contents()
            assert header.metadata[name] == (len(told) if isinstance(told, list) else told)
    assert header.of_model("block_count") == 3
    assert header.of_model("expert_count") is None


def test_a_header_that_ends_anywhere_is_told_in_a_sentence(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    end = whole.index(b"two") + 3 + 4 + 8 + 12
    for length in range(0, end - 12):
        cut = tmp_path / "cut.gguf"
        cut.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"'cut\.gguf' is not a sound \.gguf file .*fetch it"):
            read_gguf_header(cut)


@given(place=st.integers(4, 200), value=st.integers(0, 2**64 - 1))
def test_a_number_that_somebody_made_up_is_a_sentence_or_another_header(
    place: int, value: int, file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = bytearray(file.read_bytes())
    data[place : place + 8] = struct.pack("<Q", value)
    changed = tmp_path_factory.getbasetemp() / "changed.gguf"
    changed.write_bytes(data)
    with contextlib.suppress(UserError):
        assert len(read_gguf_header(changed).tensors) <= 2


def test_an_array_of_arrays_is_refused(tmp_path: Path) -> None:
    nested = struct.pack("<IIQ", 9, 9, 1)
    file = tmp_path / "nested.gguf"
    key = struct.pack("<Q", 1) + b"k"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + nested + b"\0" * 64)
    with pytest.raises(UserError, match="it has an array of values of type 9"):
        read_gguf_header(file)
