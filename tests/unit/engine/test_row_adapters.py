"""Several adapters over one base: every row from its own weights, none from another's cache."""

import asyncio
import json
from pathlib import Path

import pytest
import torch
from tests.unit.engine.adapters import write_adapter

from practicum.core.config.config_sections import LoraConfig
from practicum.core.errors import CheckpointError
from practicum.core.interfaces import Sampler
from practicum.core.sampling import Completion, SamplingParams, SamplingRequest
from practicum.engine.policy import load_adapted_sampler, load_for_policy
from practicum.engine.served_base import ServedBase, load_served_base

LORAS = (
    LoraConfig(r=4, alpha=8),
    LoraConfig(r=2, alpha=8, targets=("q_proj", "v_proj")),
    LoraConfig(r=8, alpha=8, targets=("o_proj", "up_proj", "down_proj")),
)
"""Adapters of different ranks, on different layers."""

CLOSE = 1e-4


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    for seed, lora in enumerate(LORAS):
        write_adapter(tmp_path / str(seed), seed, lora)
    return [tmp_path / str(seed) for seed in range(len(LORAS))]


def load_base(max_slots: int = 65_536) -> ServedBase:
    return load_served_base(load_for_policy("tiny", "float32", "cpu"), max_slots)


def alone(folder: Path | None) -> Sampler:
    return load_adapted_sampler(load_for_policy("tiny", "float32", "cpu"), folder)


def requests(count: int, tokens: int = 12) -> list[SamplingRequest]:
    """Prompts that begin alike, some wholly the same, of different lengths."""
    return [
        SamplingRequest(
            prompt_ids=(*range(5, 45), *range(7, 7 + i // 4)),
            params=SamplingParams(seed=i, max_tokens=tokens + i % 3),
        )
        for i in range(count)
    ]


def same(found: Completion, expected: Completion) -> bool:
    gap = torch.tensor(found.logprobs) - torch.tensor(expected.logprobs)
    return found.token_ids == expected.token_ids and bool(gap.abs().max() < CLOSE)


async def test_mixed_rows_are_those_of_each_adapter_alone(folders: list[Path]) -> None:
    base = load_base()
    mixed = [base.sampler(), *(base.sampler(folder) for folder in folders)]
    asked = requests(24)
    for _ in range(2):  # the second time from the prefix cache
        found = await asyncio.gather(*(mixed[i % 4].sample(r) for i, r in enumerate(asked)))
        for which, folder in enumerate((None, *folders)):
            single = alone(folder)
            for i in range(which, len(asked), 4):
                expected = await single.sample(asked[i])
                assert same(found[i], expected)
                assert found[i].fingerprint == expected.fingerprint == mixed[which].fingerprint()
    texts = {found[which].token_ids for which in range(4)}
    assert len(texts) == 4  # the adapters do differ


async def test_rows_that_come_and_go_keep_their_adapter(folders: list[Path]) -> None:
    base = load_base()
    mixed = [base.sampler(folder) for folder in folders]
    asked = requests(12, tokens=30)

    async def late(number: int) -> Completion:
        await asyncio.sleep(0.002 * number)
        return await mixed[number % 3].sample(asked[number])

    found = await asyncio.gather(*map(late, range(len(asked))))
    for which, folder in enumerate(folders):
        single = alone(folder)
        for i in range(which, len(asked), 3):
            assert same(found[i], await single.sample(asked[i]))


async def test_adapters_share_no_cached_prefix(folders: list[Path]) -> None:
    base = load_base()
    first, second = (base.sampler(folder) for folder in folders[:2])
    asked = requests(1)[0]
    assert (await first.sample(asked)).cached_tokens == 0
    assert (await second.sample(asked)).cached_tokens == 0
    assert (await base.sampler().sample(asked)).cached_tokens == 0
    assert (await first.sample(asked)).cached_tokens == len(asked.prompt_ids)


async def test_a_full_cache_does_not_mix_adapters(folders: list[Path]) -> None:
    base = load_base(max_slots=256)
    mixed = [base.sampler(folder) for folder in folders]
    asked = requests(12)
    found = await asyncio.gather(*(mixed[i % 3].sample(r) for i, r in enumerate(asked)))
    for which, folder in enumerate(folders):
        single = alone(folder)
        for i in range(which, len(asked), 3):
            assert same(found[i], await single.sample(asked[i]))


async def test_an_adapter_read_again_has_its_fingerprint_and_a_cache_of_its_own(
    tmp_path: Path,
) -> None:
    trained = write_adapter(tmp_path / "a", 3)
    base = load_base()
    first, second = base.sampler(tmp_path / "a"), base.sampler(tmp_path / "a")
    assert first.fingerprint() == second.fingerprint() == trained
    asked = requests(1)[0]
    await first.sample(asked)
    assert (await second.sample(asked)).cached_tokens == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"use_dora": True}, "use_dora is True"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"r": None}, "r is None, and must be a whole number"),
    ],
)
def test_what_is_not_plain_lora_is_refused(
    change: dict[str, object], said: str, tmp_path: Path
) -> None:
    write_adapter(tmp_path / "a", 0)
    file = tmp_path / "a" / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(CheckpointError, match=said):
        load_base().sampler(tmp_path / "a")


def test_a_damaged_file_and_another_models_adapter_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    write_adapter(tmp_path / "a", 0)
    file = tmp_path / "a" / "adapter_model.safetensors"
    saved = load_file(file)
    base = load_base()
    save_file({name: tensor[:, :1].contiguous() for name, tensor in saved.items()}, file)
    with pytest.raises(CheckpointError, match="do not fit each other"):
        base.sampler(tmp_path / "a")
    save_file({name.replace("layers.0", "layers.99"): t for name, t in saved.items()}, file)
    with pytest.raises(CheckpointError, match=r"layers\.99"):
        base.sampler(tmp_path / "a")
    save_file({name: torch.full_like(tensor, torch.nan) for name, tensor in saved.items()}, file)
    with pytest.raises(CheckpointError, match="not a number"):
        base.sampler(tmp_path / "a")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="cannot be read"):
        base.sampler(tmp_path / "a")
