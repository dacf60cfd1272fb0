"""A small trained model leaves, whole and with faults planted into what is written."""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader

import practicum as pr
from practicum import exports
from practicum.core.errors import CheckpointError, UserError
from practicum.core.sampling import SamplingRequest
from practicum.engine.models.gguf_writing import write_gguf, write_lora_gguf
from practicum.engine.models.llama_cpp import LlamaCpp, quantise
from practicum.engine.models.llama_server import LlamaServer
from practicum.engine.policy import load_adapted_sampler, load_for_policy
from practicum.engine.sampling.llama_cpp_sampler import LlamaCppSampler
from practicum.workflows.exports import Export, export

pytestmark = [pytest.mark.slow, pytest.mark.rare, pytest.mark.smollm2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random model that has SmolLM2's tokenizer, and a run that trained it."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from practicum.engine.models.catalog import models_root

    folder = tmp_path_factory.mktemp("export")
    tokenizer = AutoTokenizer.from_pretrained(models_root() / "smollm2-135m")
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            initializer_range=0.2,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    model.save_pretrained(folder / "small")
    tokenizer.save_pretrained(folder / "small")
    before = Path.cwd()
    os.chdir(folder)
    try:
        pr.train(
            "math",
            model=str(folder / "small"),
            steps=2,
            quiet=True,
            name="run",
            **{
                "eval.before": False,
                "eval.n": 2,
                "warm_start": "none",
                "rollouts.tasks_per_step": 2,
                "rollouts.max_turns": 3,
                "algorithm.lr": 1e-2,
            },
        )
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def here(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(site)
    return site


def gguf(target: Path, *quants: str, force: bool = False) -> Export:
    return export("runs/run", "gguf", target, quants=quants, n=4, force=force)


def test_f16_is_the_model_and_smaller_types_only_by_force(here: Path, tmp_path: Path) -> None:
    # Of random weights the likeliest token is a matter of chance: four bits are not enough.
    with pytest.raises(UserError, match=r"Q4_K_M export .* same in .* of places .at least 75%"):
        gguf(tmp_path / "out", "q4_k_m")
    assert not (tmp_path / "out").exists()
    some = gguf(tmp_path / "some", "q4_k_m", "F16")
    assert [bool(file.refused) for file in some.files] == [True, False]
    assert [file.name for file in some.folder.glob("*.gguf")] == ["some-F16.gguf"]
    assert "Q4_K_M" not in (some.folder / "README.md").read_text()
    half = some.files[1]
    assert half.agreement is not None
    assert half.agreement.same_likeliest >= 0.99
    assert half.report is not None
    assert some.original is not None
    assert half.report.success == some.original.success
    done = gguf(tmp_path / "out", "q4_k_m", force=True)
    [four] = done.files
    assert (four.kind, half.kind) == ("Q4_K_M", "F16")
    assert four.agreement is not None
    assert half.agreement.gap < 0.01 < four.agreement.gap
    assert len(four.fallbacks) > 0 == len(half.fallbacks)  # rows of 64 do not divide by 256
    written = sorted(path.name for path in done.folder.iterdir())
    assert written == ["README.md", "export_results.json", "out-Q4_K_M.gguf"]
    [kept] = json.loads((done.folder / "export_results.json").read_text())["exports"]
    assert kept["agreement"]["gap"] == four.agreement.gap
    assert kept["bytes"] == (done.folder / "out-Q4_K_M.gguf").stat().st_size


@pytest.fixture(scope="module")
def half(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's model in 16 bits, merged and as a .gguf file."""
    folder = tmp_path_factory.mktemp("half")
    before = Path.cwd()
    os.chdir(site)
    try:
        gguf(folder / "out", "F16")
        export("runs/run", "merged", folder / "merged", n=2)
    finally:
        os.chdir(before)
    return folder


def test_base_adapter_merged_and_gguf_can_all_be_evaluated(here: Path, half: Path) -> None:
    export("runs/run", "adapter", half / "adapter", n=2)
    file = str(half / "out" / "out-F16.gguf")
    runtime = {"model.runtime": "llama.cpp"}
    alike = {"rollouts.max_turns": 3}
    reports = [
        pr.evaluate(str(policy), env="math", n=4, quiet=True, **alike, **options).report
        for policy, options in (
            ("runs/run", {}),
            (half / "adapter", {}),
            (half / "merged", {}),
            (file, {}),
            (file, runtime),
        )
    ]
    assert {report.success.n for report in reports} == {4}
    scores = [[task.rewards for task in report.tasks] for report in reports]
    assert scores[0] == scores[1] == scores[2]
    base = pr.evaluate(str(here / "small"), env="math", n=4, quiet=True).report
    assert base.fingerprint != reports[0].fingerprint == reports[1].fingerprint
    with pytest.raises(UserError, match=r"llama.cpp runs .gguf files, and .* is none"):
        pr.evaluate(str(half / "merged"), env="math", n=1, quiet=True, **runtime)
    with pytest.raises(UserError, match="can act but not learn"):
        pr.train("math", model={"name": file, "runtime": "llama.cpp"}, steps=1, quiet=True)


def test_several_kinds_stand_in_one_table_and_folders_of_their_own(
    here: Path, tmp_path: Path
) -> None:
    done = export("runs/run", ["gguf", "adapter", "merged"], tmp_path / "out", quants=["F16"], n=4)
    assert [file.kind for file in done.files] == ["adapter", "merged", "F16"]
    assert {file.report.success for file in done.files if file.report} == {done.original.success}
    for file in done.files[:2]:
        assert file.agreement is not None
        assert file.agreement.widest < 1e-3
    kept = json.loads((tmp_path / "out" / "export_results.json").read_text())
    assert [one["kind"] for one in kept["exports"]] == ["adapter", "merged", "F16"]
    speeds = kept["exports"][2]
    assert min(speeds["prompt_tokens_per_second"], speeds["sampled_tokens_per_second"]) > 0
    assert kept["exports"][2]["difference_to_original"]["value"] == 0
    assert (tmp_path / "out" / "merged" / "generation_config.json").is_file()
    card = (tmp_path / "out" / "gguf" / "README.md").read_text()
    assert "| difference |" in card
    assert "out-F16.gguf" in card
    assert not list(tmp_path.glob(".*"))


def test_an_ollama_folder_has_what_ollama_needs(here: Path, tmp_path: Path) -> None:
    ryzen = {"hardware.profile": "ryzen"}
    export("runs/run", "ollama", tmp_path / "out", quants=["F16"], n=2, **ryzen)
    text = (tmp_path / "out" / "Modelfile").read_text()
    assert text.splitlines()[0].startswith(f"# {here / 'small'} + runs/run (")
    assert "FROM ./out-F16.gguf\nTEMPLATE" in text
    assert 'PARAMETER stop """<|im_end|>"""' in text
    assert text.partition("SYSTEM")[2].startswith(' """Solve for x.')
    assert json.loads((tmp_path / "out" / "hosting_profile.json").read_text())["name"] == "ryzen"
    assert "OLLAMA_NUM_PARALLEL=" in (tmp_path / "out" / "ollama.env").read_text()


def test_what_is_cached_changes_no_logits(half: Path) -> None:
    model = LlamaCpp(half / "out" / "out-F16.gguf", context=256, threads=1, conversations=2)
    tokens, other = list(range(300, 360)), list(range(900, 940))
    fresh = model.logits(tokens, 3)
    model.forget()
    model.logits(tokens[:40])
    model.logits(other)
    assert (model.overlap(tokens), model.overlap(other)) == (40, 40)
    assert model.logits(tokens, 3) == pytest.approx(fresh, abs=2e-2)
    assert (model.overlap(tokens), model.overlap(other)) == (60, 40)
    assert model.logits([*tokens[:50], 7], 1) == pytest.approx(
        _alone(model, tokens[:50], 7), abs=2e-2
    )


def _alone(model: LlamaCpp, tokens: list[int], last: int) -> np.ndarray:
    model.forget()
    return model.logits([*tokens, last], 1)


def test_it_acts_in_llama_cpp_as_it_does_here(half: Path) -> None:
    loaded = load_for_policy(str(half / "merged"), "float32", "cpu")
    ours = load_adapted_sampler(loaded, None)
    model = LlamaCpp(half / "out" / "out-F16.gguf", context=256, threads=1)
    theirs = LlamaCppSampler(model, loaded.tokenizer, loaded.codec, "half")
    names = ("add_terms", "subtract_terms", "divide_terms", "state_answer")
    actions = tuple(pr.ActionForm(name=name) for name in names)
    said = []
    for question in ("3x + 7 = 16", "x - 2 = 5", "4x = 20"):
        prompt = loaded.codec.open([pr.Message(role="user", content=question)])
        for allowed in (actions, ()):
            request = SamplingRequest(
                prompt_ids=prompt,
                params=pr.SamplingParams(temperature=0.0, max_tokens=12),
                actions=allowed,
            )
            here, there = (asyncio.run(sampler.sample(request)) for sampler in (ours, theirs))
            assert here.token_ids == there.token_ids
            said.append(there.text)
    assert set(said[::2]) <= set(names)


def test_the_merged_folder_loads_in_transformers_by_itself(here: Path, tmp_path: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    export("runs/run", "merged", tmp_path / "merged", n=2)
    export("runs/run", "adapter", tmp_path / "adapter", n=2)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    base = AutoModelForCausalLM.from_pretrained(here / "small")
    adapted = PeftModel.from_pretrained(base, str(tmp_path / "adapter"))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "merged")
    ids = torch.tensor([tokenizer.encode("Solve 3x + 7 = 16.")])
    with torch.no_grad():
        plain, there, here_ = (
            m(ids).logits.log_softmax(-1)
            for m in (
                AutoModelForCausalLM.from_pretrained(here / "small"),
                merged,
                adapted,
            )
        )
    assert (there - here_).abs().max() < 1e-3
    assert (there - plain).abs().max() > 1e-2  # the adapter does something
    saved = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert saved["base_model_name_or_path"] == str(here / "small")
    assert "base_model:" in (tmp_path / "adapter" / "README.md").read_text()


def patch_bytes(old: bytes, new: bytes) -> Callable[[Path], None]:
    assert len(old) == len(new)

    def patch(file: Path) -> None:
        data = file.read_bytes()
        assert old in data
        file.write_bytes(data.replace(old, new))

    return patch


def zero_a_tensor(file: Path) -> None:
    [tensor] = [t for t in GGUFReader(file, "r+").tensors if t.name == "blk.1.ffn_down.weight"]
    tensor.data[:] = 0


def swap_tensors(file: Path) -> None:
    tensors = {t.name: t for t in GGUFReader(file, "r+").tensors}
    one, two = tensors["blk.0.attn_q.weight"], tensors["blk.1.attn_q.weight"]
    kept = np.array(one.data)
    one.data[:] = two.data
    two.data[:] = kept


def cut_off(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.truncate(file.stat().st_size * 2 // 3)


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "beginning": (
        patch_bytes(b"ggml.bos_token_id", b"ggml.bos_token_ix"),
        "begins with token None",
    ),
    "template": (patch_bytes(b"<|im_start|>assistant", b"<|im_start|>assassins"), "chat template"),
    "end": (patch_bytes(b"ggml.eos_token_id", b"ggml.eos_token_ix"), "ends a turn with token None"),
    "zeroed": (zero_a_tensor, "log-probabilities are"),
    "swapped": (swap_tensors, "log-probabilities are"),
    "cut off": (cut_off, "cannot write"),
    "tokenizer": (patch_bytes(b"\xc4\xa0the", b"\xc4\xa0eht"), "another tokenizer"),
}


@pytest.fixture(scope="module")
def converted() -> dict[str, bytes]:
    """The converter's file, made once."""
    return {}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_and_nothing_is_kept(
    fault: str,
    here: Path,
    converted: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant, told = FAULTS[fault]

    def faulty(model: Path, target: Path, progress: Callable[[str, int, int], None]) -> None:
        if not converted:
            write_gguf(model, target, progress)
            converted["plain"] = target.read_bytes()
        target.write_bytes(converted["plain"])
        plant(target)

    monkeypatch.setattr(exports, "write_gguf", faulty)
    with pytest.raises(UserError, match=told):
        gguf(tmp_path / "out", "F16")
    assert list(tmp_path.iterdir()) == []


def test_an_adapter_on_a_gguf_file_is_the_model_or_refused(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = export("runs/run", "lora-gguf", tmp_path / "out", n=4)
    [file] = done.files
    assert file.agreement is not None
    assert file.agreement.gap < 0.05
    assert (tmp_path / "out" / file.name).stat().st_size == file.bytes

    def faulty(*words: Any) -> None:
        write_lora_gguf(*words)
        for tensor in GGUFReader(words[2], "r+").tensors:
            tensor.data[:] = 0

    monkeypatch.setattr(exports, "write_lora_gguf", faulty)
    with pytest.raises(UserError, match="not the model it was made from"):
        export("runs/run", "lora-gguf", tmp_path / "faulty", n=4)
    assert not (tmp_path / "faulty").exists()


def test_an_adapter_on_the_base_file_agrees_with_the_merged_file(
    here: Path, half: Path, tmp_path: Path
) -> None:
    [file] = export("runs/run", "lora-gguf", tmp_path / "out", n=2).files
    write_gguf(here / "small", tmp_path / "plain.gguf", lambda *told: None)
    quantise(tmp_path / "plain.gguf", tmp_path / "base.gguf", "F16", 1)
    settings: dict[str, int] = {"context": 256, "threads": 1}
    adapted = LlamaServer(tmp_path / "base.gguf", adapter=tmp_path / "out" / file.name, **settings)
    merged = LlamaServer(half / "out" / "out-F16.gguf", **settings)
    plain = LlamaServer(tmp_path / "base.gguf", **settings)
    moved = 0.0
    for start in (300, 700, 1500):
        prompt = list(range(start, start + 40))
        one, two, base = (server.likeliest(prompt, 5) for server in (adapted, merged, plain))
        assert max(one, key=one.__getitem__) == max(two, key=two.__getitem__)
        shared = one.keys() & two.keys()
        assert len(shared) >= 4
        assert max(abs(one[token] - two[token]) for token in shared) < 0.05
        moved += sum(abs(one[token] - base.get(token, -99.0)) for token in one)
    assert moved > 0.5  # the adapter does something


def test_an_adapter_of_other_weights_is_refused(here: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="trained on other weights"):
        export("runs/run", "merged", tmp_path / "out", n=2, **{"model.name": "smollm2-135m"})
    assert not (tmp_path / "out").exists()


def test_a_family_that_llama_cpp_does_not_know_is_named(here: Path, tmp_path: Path) -> None:
    shutil.copytree(here / "small", tmp_path / "strange")
    config = tmp_path / "strange" / "config.json"
    config.write_text(config.read_text().replace("LlamaForCausalLM", "StrangeForCausalLM"))
    with pytest.raises(UserError, match=r"StrangeForCausalLM is not supported.*--to merged"):
        write_gguf(tmp_path / "strange", tmp_path / "a.gguf", lambda *told: None)


def test_a_tokenizer_that_llama_cpp_would_guess_at_is_refused(here: Path, tmp_path: Path) -> None:
    model = tmp_path / "other"
    shutil.copytree(here / "small", model)
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    by_letter = {"type": "Split", "pattern": {"Regex": "[a-z]"}, "behavior": "Isolated"}
    tokenizer["pre_tokenizer"]["pretokenizers"][0] = {**by_letter, "invert": False}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))

    with pytest.raises(UserError, match=r"not know how this tokenizer splits text.*--to merged"):
        write_gguf(model, tmp_path / "other.gguf", lambda *_: None)

    assert not (tmp_path / "other.gguf").exists()


def test_a_damaged_checkpoint_is_named_and_nothing_is_written(here: Path, tmp_path: Path) -> None:
    [run] = [path for path in (here / "runs").iterdir() if path.name == "run"]
    shutil.copytree(run, tmp_path / "damaged")
    for weights in (tmp_path / "damaged").rglob("adapter_model.safetensors"):
        with weights.open("r+b") as handle:
            handle.truncate(weights.stat().st_size // 2)
    with pytest.raises(CheckpointError, match=r"no checkpoint .* can be used .*adapter_model"):
        export(tmp_path / "damaged", "merged", tmp_path / "out", n=2)
    exported = tmp_path / "alone"
    exported.mkdir()
    (exported / "adapter_config.json").write_text("not JSON")
    with pytest.raises(CheckpointError, match=r"adapter_config.json cannot be read"):
        export(exported, "merged", tmp_path / "out", n=2, env="math")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_is_told_before_anything_is_written(here: Path, tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    words = [sys.executable, "-m", "practicum.cli.main", "export", "runs/run", str(room / "out")]
    inside = f"mount -t tmpfs -o size=8m tmpfs {room} && exec {shlex.join([*words, '--n', '2'])}"
    may = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*may, "true"], check=False).returncode:
        pytest.skip("needs a name space of its own")
    done = subprocess.run([*may, "sh", "-c", inside], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "MiB of disk and" in done.stderr.splitlines()[-1]
    assert "name a folder on another disk" in done.stderr.splitlines()[-1]


def test_bad_words_are_told_before_anything_is_loaded(here: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no type 'Q9'; known types: Q2_K"):
        gguf(tmp_path / "out", "Q9")
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="no export to 'onnx'; known: adapter"):
        export("runs/run", ["onnx"], tmp_path / "out")
    with pytest.raises(UserError, match="there already; remove it"):
        export("runs/run", "merged", tmp_path / "there")
