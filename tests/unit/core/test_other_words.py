"""Every word of the systems people come from works here, or is answered with the word to type."""

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from practicum.cli.in_our_words import in_our_words
from practicum.cli.main import app
from practicum.core.config.parse_config import build_config, parse_yaml
from practicum.core.errors import ConfigError, UserError
from practicum.core.other_words import find_name, key_hints, of_kind
from practicum.core.word_table import SYSTEMS, WORDS, Word, bare

REPOSITORY = Path(__file__).parents[3]
COMMAND = typer.main.get_command(app)
VERBS = list(COMMAND.commands)  # type: ignore[attr-defined]


def named(words: Any) -> Any:
    return pytest.mark.parametrize(
        "word", list(words), ids=lambda w: re.sub(r"[^\w./-]+", "_", f"{w.verb} {w.theirs}")[:60]
    )


def parse(command: str) -> None:
    """Click must take every option and argument of a `practicum` command; nothing is run."""
    words = shlex.split(command.partition(">")[0])
    assert words.pop(0) == "practicum"
    at: Any = COMMAND
    while isinstance(getattr(at, "commands", None), dict) and words:
        at = at.commands[words.pop(0)]
    at.make_context(at.name, words)


def resolve(dotted: str) -> Any:
    """What a dotted name means: the longest module in it, then attributes."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(dotted)


@named(of_kind("command"))
def test_a_command_has_one_here_that_is_understood(word: Word) -> None:
    if word.ours.startswith("practicum "):
        parse(word.ours)
    elif word.ours.startswith("make "):
        makefile = (REPOSITORY / "Makefile").read_text()
        assert f"\n{word.ours.split()[1]}:" in makefile
    elif word.ours.startswith("python "):
        assert (REPOSITORY / word.ours.split()[1]).is_file()
    elif word.ours.startswith("from "):
        exec(word.ours, {})
    else:
        assert word.ours.startswith("pip install 'practicum[train]'")


@named(of_kind("verb"))
def test_a_verb_is_ours_or_answered(word: Word, capsys: pytest.CaptureFixture[str]) -> None:
    if word.theirs in VERBS:
        assert word.theirs == "monitor", "it is a verb here now: take the row out"
        assert in_our_words(["monitor", "--watch"], VERBS)[0] == word.ours  # by its flags
        return
    if word.ours.startswith("practicum "):
        parse(word.ours)
        with pytest.raises(UserError, match=re.escape(f"type: {word.ours}")):
            in_our_words([word.theirs], VERBS)
        return
    assert word.ours in VERBS
    for typed in (word.theirs, f"{word.theirs}.py", word.theirs.replace("_", "-")):
        assert in_our_words([typed], VERBS)[0] == word.ours
        assert f"{typed} is {word.ours} here" in capsys.readouterr().err


@named(of_kind("flag"))
def test_a_flag_is_translated_or_answered(word: Word) -> None:
    flag, *value = word.theirs.split()
    if word.ours.startswith("practicum "):
        with pytest.raises(UserError, match=re.escape(f"type: {word.ours}")):
            in_our_words([word.verb, *word.theirs.split()], VERBS)
        parse(word.ours)
        return
    own = {name for one in COMMAND.commands[word.verb].params for name in one.opts}  # type: ignore[attr-defined]
    assert flag not in own, "the verb has this option now: take the row out"
    for spelled in (flag, bare(flag), flag.replace("-", "_").replace("__", "--", 1)):
        translated = in_our_words([word.verb, spelled, *value], VERBS)
        assert " ".join(translated) == f"{word.verb} {word.ours}".strip()
        if value:
            assert in_our_words([word.verb, f"{spelled}={value[0]}"], VERBS) == translated
    keys = [one for one in translated[1:] if "=" in one]
    if keys:
        accepted(keys[0].partition("=")[0])
    is_named = word.verb != "eval" or not (not word.ours or word.ours.startswith("--"))
    words = ["" if is_named else "RUN", *translated[1:]]
    parse(shlex.join(["practicum", word.verb, *filter(None, words)]))


METHODS = (
    {},
    {"algorithm": "ppo"},
    {"algorithm": "dapo"},
    {"algorithm": "kto", "data": "rows.jsonl"},
    {"env": {"name": "remote"}},
    {"agent": "openhands"},
)


def accepted(dotted: str) -> None:
    """A key is one of a config, whatever value it would take."""
    said = []
    for base in METHODS:
        values: dict[str, Any] = {"env": "math", **base}
        head, _, tail = dotted.partition(".")
        inside: Any = {"\0": 0}  # no value that any key takes
        for part in reversed(tail.split(".") if tail else []):
            inside = {part: inside}
        old = values.get(head)
        old = {"name": old} if isinstance(old, str) else old
        values[head] = {**old, **inside} if isinstance(old, dict) and tail else inside
        try:
            build_config(values)
        except ConfigError as error:
            said.append(str(error))
        else:
            return
    missing = rf"unknown key '{re.escape(dotted)}'|{re.escape(dotted)} is not an option"
    assert any(not re.search(missing, one) for one in said), said


@named(of_kind("key"))
def test_a_key_of_another_systems_config_is_answered(word: Word) -> None:
    if word.ours:
        accepted(word.ours)
    values: dict[str, Any] = {"env": "math"}
    if word.theirs.startswith("data."):
        values |= {"algorithm": "sft", "data": {"source": "rows.jsonl"}}
    at = values
    *path, last = word.theirs.split(".")
    for part in path:
        at = at.setdefault(part, {})
    at[last] = 1
    with pytest.raises(ConfigError) as caught:
        build_config(values, "theirs.yaml")
    assert key_hints(word.theirs)
    assert f"{word.theirs} is {word.ours or 'not needed'}" in str(caught.value)


@named([*of_kind("class"), *of_kind("method")])
def test_a_name_is_there(word: Word) -> None:
    if word.ours.startswith("docs/"):
        assert (REPOSITORY / word.ours).is_file()
    else:
        assert resolve(word.ours) is not None
    bare_name = re.split(r"[( ]", word.theirs.removeprefix("await "))[0].split(".")[-1]
    if bare_name.isidentifier():
        assert find_name(bare_name) is not None


@named(of_kind("file"))
def test_a_file_has_its_counterpart(word: Word) -> None:
    assert (REPOSITORY / word.ours).exists()


def test_all_systems_are_there_and_no_row_is_twice() -> None:
    assert {word.system for word in WORDS} == set(SYSTEMS)
    seen = [(w.kind, w.verb, w.theirs) for w in WORDS if w.kind in ("flag", "verb", "key")]
    assert len(seen) == len(set(seen))


def test_a_whole_file_of_another_system_is_answered_key_by_key() -> None:
    text = (
        "model: {name: tiny, context_length: 9}\ntraining: {learning_rate: 1e-5, batch_size: 2}\n"
    )
    with pytest.raises(ConfigError) as caught:
        build_config(parse_yaml(text, "theirs.yaml"), "theirs.yaml")
    assert "model.context_length is not needed" in str(caught.value)
    assert "training.learning_rate is algorithm.lr" in str(caught.value)
    assert "training.batch_size is rollouts.tasks_per_step" in str(caught.value)


def test_a_name_of_another_system_is_answered_with_ours() -> None:
    import practicum

    with pytest.raises(AttributeError, match=r"'GRPOTrainer'; here it is practicum\.train"):
        practicum.GRPOTrainer  # noqa: B018 - asked for to be refused


def test_our_own_command_lines_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for line in (
        "train math steps=3 --name a",
        "eval runs/a --n 3 --against base",
        "doctor --config math --device h200",
        "--help",
        "watch --once",
        "no-such-verb",
    ):
        assert in_our_words(line.split(), VERBS) == line.split()
    assert capsys.readouterr().err == ""


def test_the_whole_line_of_the_lora_guide_becomes_ours() -> None:
    line = (
        "train_lora_rl --config_path configs/shell_ppo.yaml --output_dir ./lora_checkpoints "
        "--num_epochs 10 --samples_per_epoch 50 --learning_rate 1e-5 --batch_size 4 "
        "--ppo_epochs 4 --lora_r 16 --lora_alpha 32"
    )
    ours = in_our_words(line.split(), VERBS)
    assert ours[:4] == ["train", "configs/shell_ppo.yaml", "--name", "./lora_checkpoints"]
    assert {"steps=10", "algorithm.batch_size=4", "lora.alpha=32"} <= set(ours)
    line = (
        "evaluate_lora --mode evaluate --config_path standard.yaml "
        "--lora_weights_path ./lora_checkpoints/epoch_10 --num_samples 50"
    )
    ours = in_our_words(line.split(), VERBS)
    assert ours == ["eval", "./lora_checkpoints/epoch_10", "--n", "50"]


CHECKPOINT = "./lora_checkpoints/epoch_10"
GUIDE_CONFIG = "configs/experiments/qwen25_32b_instruct/os_interaction/instance/standard.yaml"


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("scripts/train_lora_rl.sh", "train configs/shell_ppo.yaml --name ./lora_checkpoints"),
        (
            f"./scripts/train_lora_rl.sh {GUIDE_CONFIG} ./mine 20 100",
            "train configs/shell_qwen2.5_32b.yaml --name ./mine steps=20 "
            "rollouts.tasks_per_step=100",
        ),
        (
            "./scripts/train_lora_rl.sh a/standard.yaml mine",
            "train configs/shell_ppo.yaml --name ./mine",
        ),
        ("train_lora_rl math steps=2", "train math steps=2"),
        (f"src/train_lora_rl.py --resume_from {CHECKPOINT}", f"train --resume {CHECKPOINT}"),
        (
            f"./scripts/evaluate_lora.sh {GUIDE_CONFIG} {CHECKPOINT} evaluate 50",
            f"eval {CHECKPOINT} --n 50",
        ),
        (
            f"./scripts/evaluate_lora.sh {GUIDE_CONFIG} {CHECKPOINT} both 50",
            f"export {CHECKPOINT} --to merged --n 50",
        ),
        (
            f"src/evaluate_lora.py --mode merge --config_path {GUIDE_CONFIG} "
            f"--lora_weights_path {CHECKPOINT} --merged_model_path ./merged_model",
            f"export {CHECKPOINT} ./merged_model --to merged",
        ),
        (
            f"evaluate_lora --mode=evaluate --lora-weights-path={CHECKPOINT} --use-merged-model "
            "--merged-model-path=./merged_model --num-samples=50",
            "eval ./merged_model --env shell --n 50",
        ),
    ],
)
def test_a_script_of_the_lora_guide_becomes_ours_with_all_its_values(line: str, ours: str) -> None:
    assert shlex.join(in_our_words(line.split(), VERBS)) == ours
    parse(f"practicum {ours}")


def test_a_resume_that_names_no_run_and_a_script_by_its_path_are_understood() -> None:
    for line in ("train.py --config configs/tiny.yaml --resume", "train --resume --dry-run"):
        with pytest.raises(UserError, match="type: practicum train --resume latest"):
            in_our_words(line.split(), VERBS)
    assert in_our_words(["tac_rl/train.py", "math"], VERBS) == ["train", "math"]
    assert in_our_words(["train", "--resume", "runs/a"], VERBS) == ["train", "--resume", "runs/a"]
