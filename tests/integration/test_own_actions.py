"""An environment of the user's own whose actions have spaces, levels and ids, from the commands."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from practicum.engine.models.tiny import CHAT_TEMPLATE, VOCABULARY, build_tiny_model

SPECIAL = ["<|im_start|>", "<|im_end|>"]
COURIER = '''\
"""Carry the parcel: take it, climb to its floor, ring there."""

from contextlib import asynccontextmanager

import practicum as pr

FLOORS = {1: 2, 2: 3, 3: 4}


def one_digit(written):
    return pr.NextCharacters(allowed="" if written else "123456", may_end=bool(written))


class Round:
    def __init__(self, floor):
        self._floor, self._at, self._has, self._paid = floor, 0, False, []
        self._over = False

    def prompt(self):
        return [pr.Message(role="user", content=f"a parcel for floor {self._floor}")]

    def actions(self):
        up = (pr.ActionForm(name="climb up"),) if self._has else ()
        return (
            pr.ActionForm(name="take"),
            pr.ActionForm(name="take the parcel"),
            *up,
            pr.ActionForm(name="ring", argument=one_digit),
        )

    async def act(self, text):
        if self._over:
            raise RuntimeError("over")
        good = text == "take the parcel" and not self._has
        self._has |= text == "take the parcel"
        if text == "climb up":
            good = self._at < self._floor
            self._at += 1
        if text.startswith("ring "):
            self._over = True
            good = self._has and self._at == self._floor == int(text.removeprefix("ring "))
        self._paid.append((2.0 if self._over else 0.2) if good else -0.2)
        said = pr.Message(role="user", content=f"floor {self._at}")
        return pr.Observation(message=said, reward=self._paid[-1], terminated=self._over)

    async def outcome(self):
        done = self._over and self._paid[-1] > 0
        return pr.Outcome(success=done, turn_rewards=tuple(self._paid))


class Courier:
    class Options(pr.ConfigModel):
        level: int | list[int] = 1

    name = "courier"
    all_levels = (1, 2, 3)

    def __init__(self, options):
        self._levels = options.level if isinstance(options.level, list) else [options.level]

    def tasks(self, split, seed):
        for level in self._levels:
            for floor in range(1, FLOORS[level] + 1):
                for house in range(4):
                    if (house == 0) == (split == "heldout"):
                        yield pr.Task(
                            id=f"courier-{level}-{floor}-{house}",
                            env=self.name,
                            split=split,
                            level=level,
                            instruction=f"floor {floor} of house {house}",
                            data={"floor": floor, "house": house},
                        )

    @asynccontextmanager
    async def open(self, task):
        yield Round(task.data["floor"])

    def reference(self, task):
        floor = task.data["floor"]
        return ["take the parcel", *["climb up"] * floor, f"ring {floor}"]
'''
SMALL = (
    *("steps=8", "rollouts.tasks_per_step=2", "rollouts.group_size=2", "eval.n=2"),
    *("hardware.threads=1", "warm_start=reference", "warm_start.steps=1"),
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "courier.py").write_text(COURIER)
    return tmp_path


def save_bpe_model(folder: Path) -> None:
    """The tiny model with a tokenizer that merges letters, as those of real models do."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(
        ["take the parcel, climb up, ring, a parcel for floor"] * 9, trainer
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=SPECIAL[1], chat_template=CHAT_TEMPLATE
    )
    tokenizer.save_pretrained(folder)
    model: Any = build_tiny_model()
    model.save_pretrained(folder)


def test_actions_with_spaces_are_imitated_and_practised_with_a_tokenizer_that_merges(
    practicum: Any, here: Path
) -> None:
    save_bpe_model(here / "model")
    answer = practicum("train", "courier.py:Courier", "model=model", *SMALL, "--name", "x")
    assert answer.code == 0, answer.err
    assert "held-out after 8 steps" in answer.out + answer.err


def test_an_action_with_no_room_is_told_before_the_run_is_made(practicum: Any, here: Path) -> None:
    answer = practicum("train", "courier.py:Courier", "model=tiny", "rollouts.max_tokens=8")
    assert answer.code == 2
    assert "'take the parcel' takes 16 tokens and rollouts.max_tokens is 8" in answer.err
    assert not (here / "runs").exists()


def test_the_courier_is_sound_at_every_level(practicum: Any, here: Path) -> None:
    answer = practicum("tasks", "courier.py:Courier", "--check", "2")
    assert "all sound" in answer.out or "sound, but see" in answer.out


def test_a_check_gives_the_interval_of_every_share_by_level_and_together(practicum: Any) -> None:
    said = " ".join(practicum("tasks", "business", "--check", "5").out.split())
    none = "[0.00, 0.43]"
    shares = f"95 %: reference [0.57, 1.00], do-nothing {none}, near-miss {none}, random {none}"
    assert said.count(f"near-miss 0/5, random 0/5 {shares}") == 3
    assert "random 0/15 95 %: reference [0.80, 1.00], do-nothing [0.00, 0.20]" in said


def test_a_task_of_any_level_is_shown_and_played_by_its_id(practicum: Any, here: Path) -> None:
    answer = practicum("tasks", "courier.py:Courier", "--show", "courier-3-4-2")
    assert "floor 4 of house 2  (courier-3-4-2, level 3, train)" in answer.out
    assert "ring 4" in answer.out
    played = practicum("play", "courier.py:Courier", "--task", "courier-2-3-1")
    assert "ring 3" in played.out


@pytest.mark.parametrize("verb", ["tasks", "train"])
def test_an_environment_without_training_tasks_is_told_at_once(
    practicum: Any, here: Path, verb: str
) -> None:
    (here / "courier.py").write_text(COURIER.replace("(house == 0)", "True"))
    more = ("model=tiny",) if verb == "train" else ()
    answer = practicum(verb, "courier.py:Courier", *more)
    assert answer.code == 2
    assert "of 'courier' gives no task of 'train' with these options" in answer.err
    assert "courier.py, line" in answer.err
    assert not (here / "runs").exists()


def test_a_test_set_is_not_trained_on_whatever_else_is_missing(practicum: Any, here: Path) -> None:
    answer = practicum("train", "agent_company", "model=tiny")
    assert answer.code == 2
    assert "is a test set and has no task to train on; train with env: office" in answer.err
