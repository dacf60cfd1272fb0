from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from practicum.engine.models.catalog import KNOWN_MODELS
from practicum.engine.models.tiny import (
    NAMED_TOKENS,
    VOCABULARY,
    build_tiny,
    build_tiny_model,
    build_tiny_tokenizer,
    save_tiny,
)

PROMPT = b"<|im_start|>user\nSolve 3x + 7 = 16 for x."


def logits_of(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = model(torch.tensor([list(PROMPT)])).logits[0]
    return result


def test_the_weights_are_the_same_whatever_the_random_state() -> None:
    torch.manual_seed(1)
    first = build_tiny_model().state_dict()
    torch.manual_seed(2)
    second = build_tiny_model().state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_building_it_leaves_the_random_state_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    build_tiny()
    assert torch.equal(before, torch.get_rng_state())


def test_the_catalogue_knows_its_size() -> None:
    parameters = sum(p.numel() for p in build_tiny_model().parameters())
    assert parameters == KNOWN_MODELS["tiny"].parameters


def test_its_predictions_are_neither_flat_nor_certain_nor_copies() -> None:
    logits = logits_of(build_tiny_model())
    logprobs = logits.log_softmax(-1)
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    flat = torch.tensor(float(VOCABULARY)).log()
    assert bool((entropy > 2.0).all())
    assert bool((entropy < flat - 0.3).all())
    repeats = (logits.argmax(-1) == torch.tensor(list(PROMPT))).float().mean()
    assert float(repeats) < 0.5


def test_what_comes_before_changes_what_comes_next() -> None:
    model = build_tiny_model()
    with torch.no_grad():
        ends = [model(torch.tensor([list(text)])).logits[0, -1] for text in (b"a=1 x", b"b=2 x")]
    assert float((ends[0] - ends[1]).abs().max()) > 0.1


def test_a_byte_is_a_token_with_its_own_number() -> None:
    tokenizer = build_tiny_tokenizer()
    text = "3x − 7\t= é漢🙂\x00\x7f  end"
    assert tokenizer.encode(text) == list(text.encode())
    assert tokenizer.decode(list(text.encode())) == text


def test_each_number_of_the_vocabulary_has_a_token() -> None:
    tokenizer = build_tiny_tokenizer()
    tokens = tokenizer.convert_ids_to_tokens(list(range(VOCABULARY)))
    assert len(tokenizer) == VOCABULARY
    assert len(set(tokens)) == VOCABULARY
    assert tuple(tokens[256:260]) == NAMED_TOKENS
    assert tokenizer.eos_token_id == tokens.index("<|im_end|>")
    assert tokenizer.pad_token_id == tokens.index("<|pad|>")


def test_a_saved_copy_is_the_same_model_and_tokenizer(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert torch.equal(logits_of(model), logits_of(build_tiny_model()))
    messages = [{"role": "user", "content": "2x = 8"}]
    assert tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    ) == build_tiny_tokenizer().apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    )
    assert tokenizer.encode("<|im_end|>é") == build_tiny_tokenizer().encode("<|im_end|>é")
