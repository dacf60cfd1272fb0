"""Our own decoder against the module it was made from, for every family it knows."""

from typing import Any

import numpy as np
import peft
import pytest
import torch
from tests.unit.engine.families import build_pair

from practicum.engine.decoder.attention import KvPool
from practicum.engine.decoder.decoders import FusedDecoder, ModuleDecoder, decoder_of
from practicum.engine.decoder.dense_decode import DecodeRow
from practicum.engine.decoder.layers import FusedProducts, PackedProducts, can_pack, packed_linear
from practicum.engine.sampling.completions import Segment
from practicum.engine.sampling.scheduler import plan_step

KNOWN = ["Llama", "Mistral", "Qwen2", "Qwen3"]
OTHERS = ["Granite", "Cohere", "Gemma2"]
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def adapted(family: str, targets: list[str] = LINEAR, dropout: float = 0.0) -> Any:
    model, _ = build_pair(family)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=targets, lora_dropout=dropout)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        wrapped = peft.get_peft_model(model, config)
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.1)
    return wrapped.eval()


# Two branches of a prefix of three, the second of which branches again; at most 8 deep.
POSITIONS = torch.tensor([0, 1, 2, 3, 4, 3, 4, 5, 5, 6])
END = torch.tensor([10, 10, 10, 5, 5, 10, 10, 8, 10, 10])
TOKENS = torch.tensor([5, 200, 31, 7, 9, 11, 250, 3, 90, 14])


def learned(decoder: Any, model: Any, **how: Any) -> tuple[torch.Tensor, list[torch.Tensor]]:
    states = decoder.learn(TOKENS, POSITIONS, END, **how)
    weights = torch.linspace(-1, 1, states.numel()).view_as(states)
    parameters = [p for p in model.parameters() if p.requires_grad]
    return states.detach(), list(torch.autograd.grad((states * weights).sum(), parameters))


def distance(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    apart = sum(float((a - b).double().square().sum()) for a, b in zip(ours, theirs, strict=True))
    return (apart / sum(float(b.double().square().sum()) for b in theirs)) ** 0.5


@pytest.mark.parametrize("family", KNOWN)
@pytest.mark.parametrize(
    "targets", [LINEAR, ["q_proj", "v_proj"], ["gate_proj", "down_proj"]], ids=["all", "qv", "mlp"]
)
def test_states_and_gradients_are_the_modules_own(family: str, targets: list[str]) -> None:
    model = adapted(family, targets)
    expected = learned(ModuleDecoder(model.get_base_model()), model)
    decoder = decoder_of(model.get_base_model())
    assert isinstance(decoder, FusedDecoder)
    found = learned(decoder, model)
    torch.testing.assert_close(found[0], expected[0], atol=2e-5, rtol=2e-5)
    assert distance(found[1], expected[1]) < 1e-5


@pytest.mark.parametrize("family", [*KNOWN, "Granite"])
def test_checkpointing_changes_no_bit(family: str) -> None:
    model = adapted(family)
    decoder = decoder_of(model.get_base_model())
    plain, checkpointed = learned(decoder, model), learned(decoder, model, checkpointed=True)
    assert torch.equal(plain[0], checkpointed[0])
    assert all(torch.equal(a, b) for a, b in zip(plain[1], checkpointed[1], strict=True))
    assert not model.training


@pytest.mark.parametrize("family", KNOWN)
def test_the_module_goes_on_working_with_the_same_weights(family: str) -> None:
    model, stock = adapted(family), build_pair(family)[1]
    before = model(input_ids=TOKENS[None, :8], plan=_row_plan(8), use_cache=False).logits
    decoder_of(model.get_base_model())
    after = model(input_ids=TOKENS[None, :8], plan=_row_plan(8), use_cache=False).logits
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)
    ours = {n.replace("base_layer.", ""): p for n, p in model.get_base_model().named_parameters()}
    assert all(torch.equal(ours[name], p) for name, p in stock.named_parameters())


def _row_plan(length: int) -> Any:
    from practicum.engine.decoder.tree_attention import TreePlan

    return TreePlan.of(torch.full((length,), length))


@pytest.mark.parametrize("family", KNOWN)
def test_a_switched_off_adapter_leaves_the_base_model(family: str) -> None:
    model = adapted(family)
    module, decoder = ModuleDecoder(model.get_base_model()), decoder_of(model.get_base_model())
    with torch.no_grad(), model.disable_adapter():
        expected, found = (d.learn(TOKENS, POSITIONS, END) for d in (module, decoder))
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=2e-5)
    with torch.no_grad():
        assert (decoder.learn(TOKENS, POSITIONS, END) - found).abs().max() > 1e-2


def test_dropout_is_drawn_as_the_module_draws_it() -> None:
    model = adapted("Llama", dropout=0.5)
    decoder = decoder_of(model.get_base_model())
    model.train()
    torch.manual_seed(0)
    ours = learned(decoder, model)
    torch.manual_seed(0)
    theirs = learned(ModuleDecoder(model.get_base_model()), model)
    assert torch.equal(ours[0], theirs[0])
    assert not torch.equal(learned(decoder, model)[0], ours[0])


@pytest.mark.parametrize("family", OTHERS)
def test_other_families_are_left_to_their_module(family: str) -> None:
    assert isinstance(decoder_of(build_pair(family)[0]), ModuleDecoder)


def test_a_rotation_that_depends_on_the_length_is_left_to_the_module() -> None:
    model, _ = build_pair("Llama")
    model.base_model.rotary_emb.rope_type = "dynamic"
    assert isinstance(decoder_of(model), ModuleDecoder)


# What sampling computes: a plan over the pool, and decode runs after it.

PROMPTS = {
    "same": [7, 7, 7],
    "uneven on a prefix": [9, 7, 8, 7, 9],
    "no prefix": [7, 5, 6, 1],
    "alone": [4],
}


def cached(decoder: Any, model: Any, lengths: list[int], shared: int) -> tuple[KvPool, list, Any]:
    """Rows whose prompts are in the pool, with the first tokens in common, and their end states."""
    pool = KvPool(model.config, 64, torch.float32, torch.device("cpu"))
    free = iter(range(64))
    prefix = [next(free) for _ in range(shared)]
    segments, paths = [], []
    for number, length in enumerate(lengths):
        own = [next(free) for _ in range(length - shared)]
        tokens = np.asarray([(3 * i + (number if i >= shared else 0)) % 250 for i in range(length)])
        first = shared if number else 0
        path = np.asarray(prefix + own)
        segments.append(Segment(tokens=tokens[first:], first=first, path_slots=path, prefix=0))
        paths.append(path)
    step = plan_step(segments, pool, 2, torch.device("cpu"))
    with torch.inference_mode():
        states = decoder.states(step.token_ids, step.positions, step.plan)
    return pool, paths, (states[step.lasts], free)


@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
@pytest.mark.parametrize("prompts", PROMPTS)
def test_a_decode_run_says_what_single_steps_say_and_leaves_it_in_the_pool(
    family: str, prompts: str
) -> None:
    lengths = PROMPTS[prompts]
    shared = min(lengths) - 1 if len(lengths) > 1 else 0
    model = adapted(family).get_base_model()
    decoder = decoder_of(model)
    decoder.prepare()
    pool, paths, (_, free) = cached(decoder, model, lengths, shared)
    stepped = KvPool(model.config, 64, torch.float32, torch.device("cpu"))
    for into, out in zip(stepped.layers, pool.layers, strict=True):
        for a, b in zip(into, out, strict=True):
            a.copy_(b)
    fresh = [np.asarray([next(free) for _ in range(3)]) for _ in lengths]
    rows = [
        DecodeRow(path=p, fresh=f, group=0, prefix=shared)
        for p, f in zip(paths, fresh, strict=True)
    ]
    with torch.inference_mode():
        decode_run = decoder.decode_run(pool, rows)
        assert decode_run is not None
        for step in range(3):
            ids = torch.arange(len(rows)) + 40 * step
            found = decode_run.step(ids)
            segments = [
                Segment(
                    tokens=np.asarray([int(token)]),
                    first=path.size + step,
                    path_slots=np.concatenate([path, f[: step + 1]]),
                    prefix=0,
                )
                for token, path, f in zip(ids, paths, fresh, strict=True)
            ]
            plan = plan_step(segments, stepped, 2, torch.device("cpu"))
            expected = decoder.states(plan.token_ids, plan.positions, plan.plan)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        decode_run.close()
    for ours, theirs in zip(pool.layers, stepped.layers, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a[:-1], b[:-1], atol=1e-5, rtol=1e-5)


def take_library(with_mkl: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if with_mkl and not torch.backends.mkl.is_available():
        pytest.skip("this build of torch has no MKL")
    monkeypatch.setattr("practicum.engine.decoder.layers._prefers_mkl", lambda: with_mkl)
    monkeypatch.setattr("practicum.engine.decoder.layers.WORTH_PACKING", 0)


@pytest.mark.parametrize("with_mkl", [True, False], ids=["mkl", "onednn"])
@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
def test_folded_packed_weights_say_what_the_unfolded_ones_say(
    family: str, with_mkl: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_library(with_mkl, monkeypatch)
    model = adapted(family).get_base_model()
    decoder = decoder_of(model)
    decoder.prepare()
    assert can_pack(model.lm_head.weight)
    assert isinstance(decoder._products[0], PackedProducts)
    packed = cached(decoder, model, [7, 7], 6)[2][0]
    decoder.release()
    monkeypatch.setattr("practicum.engine.decoder.decoders.can_pack", lambda _: False)
    decoder.prepare()
    assert isinstance(decoder._products[0], FusedProducts)
    unfolded = cached(decoder, model, [7, 7], 6)[2][0]
    torch.testing.assert_close(packed, unfolded, atol=1e-5, rtol=1e-5)
    module = ModuleDecoder(model)
    module.prepare()
    torch.testing.assert_close(
        cached(module, model, [7, 7], 6)[2][0], unfolded, atol=2e-5, rtol=2e-5
    )
    module.release()


@pytest.mark.parametrize("with_mkl", [True, False], ids=["mkl", "onednn"])
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 5), (33, 17), (192, 64), (960, 576)])
def test_packed_weights_are_right_for_any_number_of_rows(
    outputs: int, inputs: int, with_mkl: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_library(with_mkl, monkeypatch)
    torch.manual_seed(0)
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    for with_bias in (None, bias):
        product = packed_linear(weight, with_bias)
        for rows in (1, 2, 3, 7, 8, 9, 16, 31, 64, 100, 255, 256, 257, 600):
            x = torch.randn(rows, inputs)
            wide = None if with_bias is None else with_bias.double()
            expected = torch.nn.functional.linear(x.double(), weight.double(), wide)
            error = (product(x).double() - expected).abs().max() / expected.abs().max()
            assert error < 5e-6, (rows, float(error))


def test_a_released_decoder_learns_of_a_changed_adapter() -> None:
    wrapped = adapted("Llama")
    model = wrapped.get_base_model()
    decoder = decoder_of(model)
    decoder.prepare()
    before = cached(decoder, model, [5], 0)[2][0]
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora" in name:
                parameter.mul_(2.0)
    decoder.prepare()
    assert torch.equal(cached(decoder, model, [5], 0)[2][0], before)
    decoder.release()
    decoder.prepare()
    after = cached(decoder, model, [5], 0)[2][0]
    module = ModuleDecoder(model)
    module.prepare()
    torch.testing.assert_close(after, cached(module, model, [5], 0)[2][0], atol=2e-5, rtol=2e-5)
    assert (after - before).abs().max() > 1e-2
    module.release()
