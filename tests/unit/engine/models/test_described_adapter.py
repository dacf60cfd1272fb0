"""A checkpoint is an adapter that others can load: the base's public name, a tokenizer, a card."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import FULL, perturb

from practicum.engine.learning.learner import LearnerSettings
from practicum.engine.models.loading import load_model
from practicum.engine.models.lora import read_adapter
from practicum.engine.policy import TorchPolicy, load_for_policy
from practicum.store.checkpoints import base_of_adapter

HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
LOADING = """
import sys
import torch
from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer
model = AutoPeftModelForCausalLM.from_pretrained(sys.argv[1])
tokens = AutoTokenizer.from_pretrained(sys.argv[1])("3x + 7 = 16", return_tensors="pt")
with torch.inference_mode():
    print(model(**tokens).logits[0, -1].tolist())
"""


def put_on_hub(policy: TorchPolicy, cache: Path) -> None:
    """The base's files in the hub's cache, as if they had been fetched."""
    place = cache / f"models--{HUB_ID.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    base = load_for_policy("tiny", "float32", "cpu").module
    base.save_pretrained(place / "snapshots" / ("0" * 40))
    policy.tokenizer.save_pretrained(place / "snapshots" / ("0" * 40))


@pytest.mark.rare
def test_peft_loads_a_checkpoint_by_the_hubs_name_of_its_base(tmp_path: Path) -> None:
    loaded = replace(load_for_policy("tiny", "float32", "cpu"), name="smollm2-135m")
    policy = TorchPolicy.build(loaded, FULL, LearnerSettings(lr=1e-3), 0)
    perturb(policy.model, seed=1)
    checkpoint = tmp_path / "step_1"
    checkpoint.mkdir()
    policy.learner.save(checkpoint)
    config = json.loads((checkpoint / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == HUB_ID
    assert f"base_model: {HUB_ID}\n" in (checkpoint / "README.md").read_text()
    assert base_of_adapter(checkpoint) == "smollm2-135m"
    put_on_hub(policy, tmp_path / "hub")
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADING, str(checkpoint)],
        env={**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    tokens = policy.tokenizer("3x + 7 = 16", return_tensors="pt")
    adapted = read_adapter(load_model("tiny").module, checkpoint)
    with torch.inference_mode():
        ours = adapted(**tokens).logits[0, -1].numpy()
    assert np.allclose(json.loads(told.stdout), ours, atol=1e-4)


def test_a_base_that_is_only_here_keeps_its_name(tmp_path: Path) -> None:
    loaded = load_for_policy("tiny", "float32", "cpu")
    policy = TorchPolicy.build(loaded, FULL, LearnerSettings(lr=1e-3), 0)
    policy.learner.save(tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], base_of_adapter(tmp_path)) == ("tiny", "tiny")


def test_saving_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    loaded = load_for_policy("tiny", "float32", "cpu")
    policy = TorchPolicy.build(loaded, FULL, LearnerSettings(lr=1e-3), 0)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        policy.learner.save(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert {"README.md", "tokenizer.json", "tokenizer_config.json"} <= set(files)
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
