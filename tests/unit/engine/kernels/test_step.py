"""A whole captured step's computation, interpreted, against the decoder's own decode_run."""

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from tests.unit.engine.decoder.test_decoders import LINEAR, adapted, cached

from practicum.engine.decoder.cuda_graphs import (
    SegmentInputs,
    StepGraphs,
    StepInputs,
    fill_segments,
)
from practicum.engine.decoder.decoders import decoder_of
from practicum.engine.decoder.dense_decode import DecodeRow
from practicum.engine.sampling.completions import Segment
from practicum.engine.sampling.scheduler import plan_step

pytestmark = pytest.mark.rare  # interpreted where there is no GPU, which takes long

LENGTHS = [9, 9, 9]


@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
@pytest.mark.parametrize("targets", [LINEAR, ["q_proj", "down_proj"]], ids=["all", "some"])
def test_two_steps_draw_from_what_the_decode_run_computes(family: str, targets: list[str]) -> None:
    model = adapted(family, targets).get_base_model()
    decoder = decoder_of(model)
    decoder.prepare()
    decoder._parts.sync()  # packed products, which a GPU has not, do without
    pool, paths, (_, free) = cached(decoder, model, LENGTHS, 8)
    fresh = [np.asarray([next(free) for _ in range(3)]) for _ in LENGTHS]
    graphs = StepGraphs(decoder._parts, model.lm_head.weight, pool, 64)
    inputs = StepInputs.empty(4, 16, pool.spare, torch.device("cpu"))
    inputs.tokens[:3] = torch.tensor([3, 50, 90])
    inputs.positions[:3] = 9
    for row, path, new in zip(inputs.table, paths, fresh, strict=False):
        row[:12] = torch.from_numpy(np.concatenate([path, new]))
    inputs.temperature[:3] = torch.tensor([1.0, 0.5, 1.0])
    inputs.greedy[2] = True
    inputs.uniforms[:2, :3] = torch.tensor([[0.1, 0.8, 0.5], [0.6, 0.3, 0.5]]).double()
    rows = [
        DecodeRow(path=p, fresh=f, group=0, prefix=8) for p, f in zip(paths, fresh, strict=True)
    ]
    decode_run = decoder.decode_run(pool, rows)
    assert decode_run is not None
    for step in range(2):
        before = inputs.tokens[:3].clone()
        graphs._step(inputs)
        with torch.inference_mode():
            logits = model.lm_head(decode_run.step(before)) / inputs.temperature[:3, None]
        log_p = torch.log_softmax(logits, -1)
        drawn = inputs.drawn[step, :3]
        assert torch.equal(drawn, inputs.tokens[:3])
        picked = log_p.gather(1, drawn[:, None])[:, 0]
        torch.testing.assert_close(inputs.logprobs[step, :2], picked[:2], atol=1e-4, rtol=1e-4)
        assert int(drawn[2]) == int(logits[2].argmax())
        cumulative = log_p.exp().cumsum(1)
        for row in range(2):
            token, u = int(drawn[row]), float(inputs.uniforms[step, row])
            assert cumulative[row, token] > u - 1e-5
            assert token == 0 or cumulative[row, token - 1] < u + 1e-5
    assert inputs.positions.tolist() == [11, 11, 11, 2]
    kept = [x.clone() for layer in pool.layers for x in layer]
    decode_run.close()
    slots = np.concatenate([f[:2] for f in fresh])
    for ours, theirs in zip(kept, [x for layer in pool.layers for x in layer], strict=True):
        torch.testing.assert_close(ours[slots], theirs[slots], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", ["Llama", "Qwen3"])
def test_a_pass_over_segments_gives_the_states_of_a_planned_one(family: str) -> None:
    model = adapted(family, LINEAR).get_base_model()
    decoder = decoder_of(model)
    decoder.prepare()
    decoder._parts.sync()
    pool, paths, (_, free) = cached(decoder, model, LENGTHS, 8)
    # One path goes on by a token; another by three, and a third by two behind those of the second.
    new = [np.asarray([3]), np.asarray([50, 7, 8]), np.asarray([90, 4])]
    slots = [np.asarray([next(free) for _ in tokens]) for tokens in new]
    whole = [
        np.concatenate([paths[0], slots[0]]),
        np.concatenate([paths[1], slots[1]]),
        np.concatenate([paths[1], slots[1], slots[2]]),
    ]
    segments = [
        Segment(tokens=t, first=w.size - t.size, path_slots=w, prefix=0)
        for t, w in zip(new, whole, strict=True)
    ]
    step = plan_step(segments, pool, 2, torch.device("cpu"))
    with torch.inference_mode():
        planned = decoder.states(step.token_ids, step.positions, step.plan)[step.lasts]
    kept = [x.clone() for layer in pool.layers for x in layer]
    for x in (x for layer in pool.layers for x in layer):
        x[np.concatenate(slots)] = 0.0
    graphs = StepGraphs(decoder._parts, model.lm_head.weight, pool, 64)
    inputs = SegmentInputs.empty(16, 32, pool.spare, decoder._parts.embedding)
    for _ in range(2):  # what a pass left behind does not disturb the next
        fill_segments(inputs, list(zip(new, whole, strict=True)), pool.spare)
        graphs._segments(inputs)
        torch.testing.assert_close(inputs.states[:3], planned, atol=1e-4, rtol=1e-4)
    for ours, theirs in zip([x for layer in pool.layers for x in layer], kept, strict=True):
        torch.testing.assert_close(ours[:-1], theirs[:-1], atol=1e-4, rtol=1e-4)
