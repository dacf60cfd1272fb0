"""The loop closed over production, with the tiny model: serve, use, learn, promote, go back."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import practicum as pr
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.store.served_versions import ServedVersions
from practicum.store.trace_store import SqliteTraceStore

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "closed_loop.py"
N = 80
LEARNING = ("hardware.threads=1", "steps=12")
LIAR = "feedback/liar"


@pytest.fixture(scope="module")
def closed_loop() -> Iterator[ModuleType]:
    """The benchmark, whose parts are used here at a small size."""
    spec = importlib.util.spec_from_file_location("closed_loop", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["closed_loop"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["closed_loop"]


@dataclass(frozen=True, slots=True)
class Used:
    """A served model, and the traffic that it has had."""

    folder: Path
    traffic: Path
    episodes: Sequence[Episode]


@pytest.fixture(scope="module")
def used(closed_loop: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Used:
    return use(closed_loop, tmp_path_factory.mktemp("production"), tasks=60, answers=2)


def use(closed_loop: ModuleType, folder: Path, *, tasks: int, answers: int) -> Used:
    case = closed_loop.LoopCase(tasks=tasks, answers=answers, n=1)
    served = closed_loop.make_served(case, folder, 0)
    episodes = closed_loop.record_traffic(case, served, folder / "traffic.sqlite", 0)
    return Used(folder, folder / "traffic.sqlite", episodes)


@pytest.fixture
def served(used: Used, tmp_path: Path) -> ServedVersions:
    """A copy of the served model, for one test."""
    shutil.copytree(used.folder / "served", tmp_path / "served", symlinks=True)
    return pr.served_model(tmp_path / "served" / "math")


Learn = Callable[..., pr.Learned]


@pytest.fixture
def learn(served: ServedVersions, tmp_path: Path) -> Learn:
    def call(store: Path, *words: str, **options: Any) -> pr.Learned:
        given = [f"runs_dir={tmp_path / 'runs'}", *LEARNING, *words]
        return pr.learn(store, served.path, words=given, **options)

    return call


def weights(served: ServedVersions) -> bytes:
    return (served.path / "current" / "adapter_model.safetensors").read_bytes()


@pytest.mark.rare
def test_feedback_the_wrong_way_round_is_not_promoted(
    closed_loop: ModuleType, used: Used, served: ServedVersions, learn: Learn, tmp_path: Path
) -> None:
    before = weights(served)
    store = tmp_path / "wrong.sqlite"
    closed_loop.give_feedback(used.traffic, store, used.episodes, "wrong", 0)
    learned = learn(store, "algorithm.lr=3e-3", n=N // 2)
    assert learned.measured.difference.high < 0  # it is worse, by more than chance
    assert learned.promoted is None
    assert "version 0001 stays: the interval is not above zero" in str(learned)
    assert weights(served) == before
    assert [row["action"] for row in served.history()] == ["publish"]
    assert served.versions() == ["0001"]


def corrected(
    used: Used,
    store: Path,
    count: int = 40,
    by: Callable[[int], str] = lambda number: f"feedback/client-{number % 8}",
) -> None:
    """Traffic without an environment, in which people have corrected the last answer."""
    with (
        SqliteTraceStore(used.traffic, read_only=True) as old,
        SqliteTraceStore(store) as new,
    ):
        for number, episode in enumerate(old.query(limit=count)):
            new.add(as_conversation(episode), attempt=1, step=0, purpose="traffic")
            is_lie = by(number) == LIAR
            for at in range(16 if is_lie else 1):
                new.add_label(
                    Label(
                        episode_id=episode.trace.id,
                        value=0.0,
                        author=by(number),
                        created_at=float(at),
                        correction=f"{'divide' if is_lie else 'multiply'}_terms {number % 7}",
                    )
                )


def as_conversation(episode: Episode) -> Episode:
    return replace(episode, trace=replace(episode.trace, env="traffic"), outcome=None)


def test_corrections_are_learned_from_by_dpo_and_compared_on_held_out_feedback(
    used: Used, learn: Learn, tmp_path: Path
) -> None:
    corrected(used, tmp_path / "corrections.sqlite")
    learned = learn(tmp_path / "corrections.sqlite", "steps=4", promote=False)
    assert learned.kind == "dpo"
    assert learned.traffic.corrections == 40
    assert learned.run.evaluations == {}
    assert learned.measured.of == "feedback"
    assert learned.measured.difference.n >= 5
    assert learned.measured.difference.low > 0
    assert learned.promoted is None
    assert "promotion was not asked for" in str(learned)
    about = json.loads((learned.run.path / "data/stage_1/dataset.json").read_text())
    assert about["statistics"]["heldout"]["rows"] >= 5


@pytest.mark.slow
def test_one_of_twenty_clients_that_lies_a_thousand_times_changes_little_and_alone_nothing(
    used: Used, served: ServedVersions, learn: Learn, practicum: Callable[..., Any], tmp_path: Path
) -> None:
    before = weights(served)
    # Alone, the liar's own held-out feedback agrees with the lie, and nothing comes of it.
    corrected(used, tmp_path / "lies.sqlite", by=lambda number: LIAR)
    learned = learn(tmp_path / "lies.sqlite", "steps=4", name="lies")
    assert learned.measured.difference.low > 0
    assert learned.promoted is None
    assert learned.waiting is not None
    assert "1 key stood behind it, and 2 are needed (--keys); version 0002 waits" in str(learned)
    assert weights(served) == before
    told = practicum("served", "waiting", served.path).out
    assert f"{served.name} version 0002 waits since" in told
    assert "compared with 0001" in told
    answer = practicum("served", "refuse", served.path, "0002", "--why", "it lies")
    assert "version 0002 is refused; 0001 is served" in answer.out
    assert practicum("served", "waiting", served.path).out == "nothing waits for a person\n"
    # Beside nineteen others it has a tenth of the evidence, and they are learned from.
    by = [*(f"feedback/client-{number % 19}" for number in range(57)), *[LIAR] * 63]
    corrected(used, tmp_path / "attacked.sqlite", count=120, by=by.__getitem__)
    learned = learn(tmp_path / "attacked.sqlite", "steps=6", name="attacked", promote="ask")
    counted = [author for author in learned.traffic.authors.values() if author]
    assert (counted.count(LIAR), len(counted)) == (6, 63)
    assert learned.measured.stands_without_one
    assert learned.waiting is not None
    assert learned.why_not == "a person was to be asked"
    answer = practicum("served", "promote", served.path, learned.waiting.version)
    assert answer.code == 0
    assert weights(served) != before
    assert served.history()[-1]["evidence"]["keys"] == 20


@pytest.mark.rare
def test_feedback_makes_a_served_model_better_and_going_back_restores_the_bytes(
    closed_loop: ModuleType,
    practicum: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As much traffic as in the benchmark, where this seed gains more than chance gives.
    used = use(closed_loop, tmp_path / "used", tasks=200, answers=4)
    monkeypatch.chdir(tmp_path)
    answer = practicum("served", "publish", "math", used.folder / "runs" / "imitation")
    assert "math serves version 0001 (served/math/versions/0001), sha256 " in answer.out
    served = pr.served_model("math")
    before = weights(served)
    closed_loop.give_feedback(used.traffic, Path("right.sqlite"), used.episodes, "right", 0)
    words = ("learn", "--from", "right.sqlite", "hardware.threads=1", "--n", 200, "--name", "x")
    answer = practicum(*words, "--json")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    assert (told["served"], told["kind"], told["measured"]["of"]) == ("0001", "kto", "tasks")
    assert told["measured"]["difference"]["low"] > 0, told
    assert told["promoted"] == "0002"
    assert weights(served) != before
    row = served.history()[-1]
    assert (row["action"], row["from"], row["version"]) == ("promote", "0001", "0002")
    assert row["evidence"] == {**told["measured"], "keys": 20}
    # The run began as what was served: the same adapter, on the same held-out tasks.
    run = pr.load("x")
    assert run.config.lora.start == "served/math/versions/0001"
    assert run.evaluations[0].fingerprint == served.version("1").fingerprint
    assert run.evaluations[run.config.steps].fingerprint == served.version("2").fingerprint
    listed = json.loads(practicum("served", "list", "--json").out)["served"]
    assert [(one["name"], one["current"]) for one in listed] == [("math", "0002")]
    assert "0002" in practicum("served", "list").out
    answer = practicum("served", "rollback", "math", "--why", "a look")
    assert f"version 0001 (served/math/versions/0001), sha256 {told['served_sha256']}" in answer.out
    assert weights(served) == before
    rows = practicum("served", "history", "math").out.splitlines()
    assert [row.split()[1] for row in rows] == ["publish", "promote", "rollback"]
    answer = practicum("served", "promote", "math", "2")
    assert f"sha256 {told['promoted_sha256']}" in answer.out
    assert practicum(*words).sentence.startswith("practicum: runs/x exists already")


def test_a_wrong_start_is_one_sentence_and_nothing_is_trained(
    used: Used, practicum: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def refused(*words: object) -> str:
        answer = practicum("learn", *words)
        assert answer.code == 2
        assert not list(tmp_path.glob("runs/*/run.json"))
        assert not list(tmp_path.glob("runs/.traffic/*"))
        sentence: str = answer.sentence
        return sentence

    store = used.traffic
    assert "say which served model" in refused("--from", store)
    assert "no served model 'served/math'" in refused("--from", store, "--model", "math")
    shutil.copytree(used.folder / "served", "served", symlinks=True)
    assert "traces and no labels" in refused("--from", store)
    assert "no.sqlite does not exist" in refused("--from", "no.sqlite")
    assert "is no store" in refused("--from", "no-run")
    assert "'lerning'" in refused("--from", store, "lerning=1")
    shutil.copyfile(store, "all_good.sqlite")
    with SqliteTraceStore(Path("all_good.sqlite")) as labelled:
        labelled.add_labels(
            Label(episode_id=e.trace.id, value=1.0, author="feedback/a", created_at=1.0)
            for e in used.episodes
        )
    words = ("--from", "all_good.sqlite", "--n", 5)
    assert "labels of the traffic say good" in refused(*words)
    assert "no corrections, and dpo" in refused(*words, "--kind", "dpo")
    (tmp_path / "served/math/current").unlink()
    assert "serves no version yet" in refused(*words)
