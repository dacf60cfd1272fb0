"""Training sets from stores, runs, files and reference solutions."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.engine.reference import build_policy
from tests.unit.traces.datasets.made import make_episode

from practicum.assemble.datasets import build_dataset, play_references
from practicum.core.config.config_sections import EnvConfig
from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.core.task import Task
from practicum.environments.reference_policies import Imitator
from practicum.environments.registry import build_environment
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.datasets.build import BuildOptions, Built
from practicum.traces.datasets.dataset_writing import write_dataset
from practicum.traces.datasets.examples import episode_examples, tokenise
from practicum.traces.datasets.sources import DatasetSource, recorded_examples
from practicum.traces.datasets.splits import LeftOut
from practicum.training.example_steps import offline_examples


def store_at(path: Path, episodes: Iterable[Episode], purpose: str = "import") -> Path:
    with SqliteTraceStore(path) as store:
        for episode in episodes:
            store.add(episode, attempt=1, step=0, purpose=purpose)
    return path


def built(source: DatasetSource, options: BuildOptions) -> Built:
    return asyncio.run(build_dataset(source, options))


def ids(found: Built) -> list[str]:
    return [example.id for unit in found.train for example in unit]


def test_a_store_gives_the_episodes_that_were_asked_for(tmp_path: Path) -> None:
    path = store_at(
        tmp_path / "traces.sqlite",
        [make_episode(f"e{i}", f"a{i}", task=f"t{i}", score=i / 4) for i in range(5)],
    )
    source = DatasetSource(name=str(path), where="score >= 0.5", good_at=0.75)
    assert ids(built(source, BuildOptions(kind="sft"))) == ["e3", "e4"]
    assert ids(built(source, BuildOptions(kind="kto"))) == ["e2", "e3", "e4"]
    assert ids(built(DatasetSource(name=str(tmp_path)), BuildOptions(kind="kto"))) == [
        "e0",
        "e1",
        "e2",
        "e3",
        "e4",
    ]


def test_a_person_s_label_decides_and_a_suggestion_does_not(tmp_path: Path) -> None:
    path = store_at(
        tmp_path / "traces.sqlite",
        [make_episode(name, name, task=name, success=False, score=0.0) for name in "abc"],
    )
    with SqliteTraceStore(path) as store:
        for name, value, suggested in (("a", 0.0, False), ("a", 1.0, False), ("b", 1.0, True)):
            store.add_label(
                Label(
                    episode_id=name,
                    value=value,
                    author="me",
                    created_at=1.0,
                    is_suggestion=suggested,
                )
            )
    assert ids(built(DatasetSource(name=str(path)), BuildOptions(kind="sft"))) == ["a"]


def test_what_evaluations_are_made_with_is_never_learned_from(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    store_at(path, [make_episode("eval", "a", task="seen in eval")], purpose="eval")
    with SqliteTraceStore(path) as store:
        for name, split in (("apart", "heldout"), ("free", "train")):
            store.add(
                make_episode(name, name, task=name),
                attempt=1,
                step=0,
                purpose="train",
                task=Task(id=name, env="quiz", split=split),  # type: ignore[arg-type]
            )
    found = built(DatasetSource(name=str(path)), BuildOptions(kind="sft"))
    assert ids(found) == ["free"]
    assert found.left_out.counts == {"its task is held out for evaluations": 2}


def test_a_file_s_bad_rows_are_left_out_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"prompt": "q", "completion": "a", "label": True}) + "\n{\n")
    found = built(DatasetSource(name=str(path)), BuildOptions(kind="sft"))
    assert ids(found) == ["rows-1"]
    ((reason, places),) = found.left_out.named.items()
    assert "not valid JSON" in reason
    assert places == [f"{path}:2"]


def test_a_dataset_is_a_source_too(tmp_path: Path) -> None:
    path = store_at(
        tmp_path / "traces.sqlite",
        [
            make_episode(f"{task}{score}", f"{score}", task=task, score=score)
            for task in "ab"
            for score in (0.0, 1.0)
        ],
    )
    first = built(DatasetSource(name=str(path)), BuildOptions(kind="grpo"))
    write_dataset(first, tmp_path / "groups", form="jsonl", question={})
    pairs = built(DatasetSource(name=str(tmp_path / "groups")), BuildOptions(kind="dpo"))
    assert ids(pairs) == ["a1.0", "a0.0", "b1.0", "b0.0"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (DatasetSource(name="nowhere"), "no store .*, run, dataset or file"),
        (DatasetSource(name="nowhere.sqlite"), "nowhere.sqlite does not exist"),
        (DatasetSource(name="nowhere.jsonl"), "there is no file"),
        (DatasetSource(name="rows.jsonl", where="success"), "--where asks a store"),
        (DatasetSource(name="reference"), "add --env math"),
        (
            DatasetSource(name="reference", where="success", env=EnvConfig(name="math")),
            "--where asks a store",
        ),
    ],
)
def test_a_source_that_cannot_be_used_is_named(source: DatasetSource, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        built(source, BuildOptions(kind="sft"))


def test_reference_solutions_are_whole_conversations_with_the_environment() -> None:
    source = DatasetSource(name="reference", env=EnvConfig(name="math"))
    found = built(source, BuildOptions(kind="sft", n=5, heldout=0.2))
    assert (len(found.train), len(found.heldout)) == (4, 1)
    assert found.left_out.total == 0
    for (example,) in found.train:
        assert [m.role for m in example.messages[:3]] == ["system", "user", "assistant"]
        assert example.messages[-1].content == "state_answer"
        # What the environment answered is what it does answer: x stands alone at the end.
        assert example.messages[-2].content.startswith("x = ")
        assert example.token_ids == ()
        assert example.reward is not None


def test_reading_tells_its_watcher(tmp_path: Path) -> None:
    path = store_at(tmp_path / "t.sqlite", [make_episode(n, n, task=n) for n in "abc"])
    told: list[int] = []
    source = DatasetSource(name=str(path))
    assert len(list(recorded_examples(source, LeftOut(), lambda: told.append(1)))) == 3
    assert len(told) == 3


def spelled_references(actions: str) -> list[Episode]:
    policy = build_policy()
    imitator = Imitator("tiny", policy.sampler.spell, policy.codec)
    environment = build_environment("math", {"level": 3, "actions": actions})
    return asyncio.run(play_references(environment, 20, 0, imitator=imitator))


def test_solutions_have_the_choices_of_the_model_that_imitates_them() -> None:
    environment = build_environment("math", {"level": 3})
    for episode in spelled_references("constrained"):
        assert episode.outcome is not None
        assert episode.outcome.success
        turns = [episode.trace.nodes[turn] for turn in episode.trace.turns]
        task = environment.find(episode.trace.task_id)
        assert [turn.messages[0].content for turn in turns] == [*environment.reference(task)]
        for turn in turns:
            assert turn.sampled is not None
            among = zip(turn.token_ids, turn.sampled.choices, strict=True)
            assert all(token in allowed for token, allowed in among)
        [example] = offline_examples(episode, None)
        assert example.sample.loss_mask.sum() == len(example.sample.choices) > 0


def test_solutions_in_free_text_have_the_tokens_of_their_text() -> None:
    codec = build_policy().codec
    for episode in spelled_references("free"):
        [spelled] = offline_examples(episode, None)
        [example] = episode_examples(episode, True, LeftOut())
        text = tokenise(replace(example, token_ids=(), loss_mask=()), codec, model="tiny")
        assert (
            spelled.sample.token_ids.tolist()
            == text.token_ids[: len(spelled.sample.token_ids)].tolist()
        )
        assert spelled.sample.loss_mask.sum() == text.loss_mask.sum()
