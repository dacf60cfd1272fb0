from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from practicum.engine.learning.embedding import ModelEmbedder
from practicum.engine.models.loading import LoadedModel, load_model

TEXTS = ["a", "much longer than the others, by far", "", "ab cd", "xyz", "a"]


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    return load_model("tiny")


def alone(loaded: LoadedModel, text: str) -> np.ndarray:
    """The mean of the last hidden states, as transformers gives them for one text."""
    ids = torch.tensor([loaded.tokenizer(text, add_special_tokens=False)["input_ids"]])
    with torch.no_grad():
        found = loaded.module(input_ids=ids, output_hidden_states=True)
    return found.hidden_states[-1][0].mean(dim=0).double().numpy()


def test_a_vector_is_the_mean_of_the_last_hidden_states_whatever_it_was_batched_with(
    tiny: LoadedModel,
) -> None:
    rows = ModelEmbedder(tiny).embed(TEXTS)
    assert rows.shape == (6, 64)
    for row, text in zip(rows, TEXTS, strict=True):
        if text:
            assert row == pytest.approx(alone(tiny, text), abs=1e-5)
    assert not rows[2].any()


def test_the_size_of_a_batch_changes_nothing(tiny: LoadedModel) -> None:
    whole = ModelEmbedder(tiny).embed(TEXTS)
    assert ModelEmbedder(tiny, batch_tokens=1).embed(TEXTS) == pytest.approx(whole, abs=1e-5)


def test_of_a_long_text_the_beginning_and_the_end_are_read(tiny: LoadedModel) -> None:
    embedder = ModelEmbedder(tiny, max_tokens=9)
    assert embedder.embed(["abc" + "-" * 50 + "uvwxyz"]) == pytest.approx(
        embedder.embed(["abcuvwxyz"]), abs=1e-6
    )


def test_the_name_tells_the_weights_and_how_much_is_read(tiny: LoadedModel) -> None:
    short, long = ModelEmbedder(tiny, max_tokens=9), ModelEmbedder(tiny)
    assert tiny.fingerprint in short.name
    assert short.name != long.name


def test_callers_in_several_threads_get_their_own_vectors(tiny: LoadedModel) -> None:
    embedder = ModelEmbedder(tiny)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda text: embedder.embed([text])[0], ["ab", "cd", "ef"] * 4))
    expected = embedder.embed(["ab", "cd", "ef"] * 4)
    assert np.array(found) == pytest.approx(expected, abs=1e-5)


def test_no_texts_are_no_rows(tiny: LoadedModel) -> None:
    assert ModelEmbedder(tiny).embed([]).shape == (0, 64)
