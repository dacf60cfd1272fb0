"""Code of the user's own: one way to name it, and its mistakes told with file and line."""

import json
import re
import shlex
from pathlib import Path

import pytest

import practicum as pr
from practicum.store.trace_store import SqliteTraceStore

TINY = (
    *("model=tiny", "steps=2", "rollouts.tasks_per_step=2", "rollouts.group_size=3"),
    *("rollouts.max_turns=3", "eval.n=4", "hardware.threads=1", "warm_start=none"),
)

CODE = """\
def short(task, trace, outcome):
    return 1.0 / (1 + len(list(trace.messages())[-1].content))


class Short:
    async def score(self, task, trace, outcome):
        return short(task, trace, outcome)


def text(task, trace, outcome):
    return "good"


def nan(task, trace, outcome):
    return float("nan")


def bug(task, trace, outcome):
    return task.data["missing"]


async def agent(task, client):
    return float(len(task.id) % 3)


class Agent:
    async def __call__(self, task, client):
        return await agent(task, client)


async def agent_text(task, client):
    return "good"


async def agent_nan(task, client):
    return float("nan")


async def agent_bug(task, client):
    return [].missing


def judge(messages):
    import json

    return json.dumps({"scores": [{"id": str(n), "score": n / 4} for n in range(1, 4)]})


def judge_bug(messages):
    return [].missing


def rows():
    return [{"prompt": f"Say {n}.", "completion": str(n)} for n in range(12)]


def tasks():
    return [{"id": f"t{n}", "prompt": f"Say {n}."} for n in range(40)]


async def silent(task, client):
    await client.chat.completions.create(
        model="policy", messages=[{"role": "user", "content": task.instruction}]
    )
"""

ENDING = """from contextlib import asynccontextmanager

import practicum as pr


class Ending:
    name = "ending"
    all_levels = (1,)

    class Options(pr.ConfigModel):
        pass

    def __init__(self, options):
        pass

    def tasks(self, split, seed):
        for n in range(3):
            yield pr.Task(id=f"{split}-{n}", env="ending", split=split)

    @asynccontextmanager
    async def open(self, task):
        yield Session()

    def reference(self, task):
        return ("go",)


class Session:
    def prompt(self):
        return [pr.Message(role="user", content="go or stay")]

    def actions(self):
        return [pr.ActionForm(name="go"), pr.ActionForm(name="stay")]

    async def act(self, text):
        self.went = text == "go"
        over = pr.Message(role="user", content="over")
        return pr.Observation(message=over, reward=float(self.went), terminated=True)

    async def outcome(self):
        return pr.Outcome(success=self.went, turn_rewards=(float(self.went),))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one, with the user's code in it."""
    monkeypatch.chdir(tmp_path)
    # Of its own name: the tests share a process, and a module is loaded once.
    (tmp_path / "mine.py").write_text(CODE)
    return tmp_path


def line_of(name: str) -> int:
    lines = CODE.splitlines()
    return next(n for n, line in enumerate(lines, 1) if f" {name}(" in line or f"s {name}:" in line)


ON_TASKS = ("tasks", "env.data=mine.py:tasks")
JUDGED = "reward={{components: [{{name: judge, model: '{}'}}]}}"

WAYS = {
    "reward in a file": (*ON_TASKS, "reward=mine.py:short"),
    "reward of a class": (*ON_TASKS, "reward=mine.py:Short"),
    "agent in a file": (*ON_TASKS, "agent=mine.py:agent"),
    "agent of a class": (*ON_TASKS, "agent=mine.py:Agent"),
    "judge in a file": (*ON_TASKS, JUDGED.format("mine.py:judge")),
    "agent that leaves its score to a reward": (
        *(*ON_TASKS, "agent=mine.py:silent", "reward=mine.py:short", "rollouts.max_tokens=4"),
    ),
    "data in a file": ("env=none", "algorithm=sft", "data=mine.py:rows"),
}


@pytest.mark.parametrize("way", WAYS)
def test_code_is_named_by_its_file_and_name(practicum, folder: Path, way: str) -> None:
    pytest.importorskip("uvicorn")
    answer = practicum("train", *WAYS[way], *TINY, "--name", "x")
    assert answer.code == 0, answer.err


def test_code_of_a_module_beside_a_config_is_found_from_anywhere(
    practicum, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "beside.py").write_text(CODE)
    (folder / "rows.jsonl").write_text(
        "\n".join(json.dumps({"id": f"t{n}", "prompt": "Say 1."}) for n in range(40))
    )
    (folder / "run.yaml").write_text(
        "env: {name: tasks, data: rows.jsonl}\nreward: 'beside:short'\nmodel: tiny\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    answer = practicum("train", folder / "run.yaml", *TINY, "--name", "x")
    assert answer.code == 0, answer.err


def test_objects_are_given_from_python(folder: Path) -> None:
    pytest.importorskip("uvicorn")

    def reward(task: pr.Task, trace: pr.Trace, outcome: pr.Outcome) -> float:
        return float(len(list(trace.messages())))

    async def agent(task: pr.Task, client: object) -> float:
        return 1.0

    def rows() -> list[dict[str, str]]:
        return [{"id": f"t{n}", "prompt": "Say 1."} for n in range(40)]

    options = {word.split("=")[0]: json.loads(word.split("=")[1]) for word in TINY[1:-1]}
    for key, given, reward_of_each in (("reward", reward, 2.0), ("agent", agent, 1.0)):
        place = {"name": "tasks", "data": rows}
        run = pr.train(place, model="tiny", name=key, quiet=True, **{key: given}, **options)
        assert run.report is not None
        assert run.report.reward.value == reward_of_each


BROKEN = {
    "reward=mine.py:text": ("text gave str", "text"),
    "reward=mine.py:nan": ("nan gave nan", "nan"),
    "reward=mine.py:bug": ("KeyError: 'missing'", "bug"),
    "agent=mine.py:agent_text": ("agent_text", "agent_text"),
    "agent=mine.py:agent_nan": ("nan", "agent_nan"),
    "agent=mine.py:agent_bug": ("AttributeError", "agent_bug"),
    JUDGED.format("mine.py:judge_bug"): ("AttributeError", "judge_bug"),
}


@pytest.mark.parametrize("word", BROKEN)
@pytest.mark.parametrize("when", ["evaluation", "training", "eval"])
def test_a_mistake_in_ones_code_is_told_with_its_line_at_once_and_its_episodes_are_kept(
    practicum, folder: Path, word: str, when: str
) -> None:
    pytest.importorskip("uvicorn")
    said, name = BROKEN[word]
    if when == "eval":
        answer = practicum(
            "eval", "tiny", "--env", "tasks", "env.data=mine.py:tasks", word, "--n", 4
        )
    else:
        more = ("eval.n=0",) if when == "training" else ()
        answer = practicum("train", *ON_TASKS, *TINY, word, *more, "--name", "x")
    assert answer.code == 2, answer.err
    body = line_of(name)
    places = [f"(mine.py, line {line}" for line in (body, body + 1)]
    assert said in answer.sentence
    assert any(place in answer.sentence for place in places), answer.sentence
    if name != "judge_bug":  # a judge comes when the whole group is there
        first = answer.err.index("warning: an episode failed")
        assert first < answer.err.index("practicum: ")
    if when != "eval":
        assert "practicum traces list --store" in answer.sentence
        with SqliteTraceStore(folder / "runs/x/traces.sqlite", read_only=True) as kept:
            assert kept.count_where("") > 0


def test_actions_may_be_a_list_and_training_tasks_begin_anew(practicum, folder: Path) -> None:
    (folder / "ending.py").write_text(ENDING)
    answer = practicum("train", "ending.py:Ending", *TINY, "eval.n=3", "--name", "x")
    assert answer.code == 0, answer.err  # 2 steps of 2 tasks and replacements, of 3 there are


def test_without_held_out_tasks_the_way_out_is_said(practicum, folder: Path) -> None:
    (folder / "ending.py").write_text(ENDING.replace("range(3)", "range(3 * (split == 'train'))"))
    answer = practicum("train", "ending.py:Ending", *TINY, "--name", "x")
    assert answer.code == 2
    assert "gives no task of 'heldout' with these options" in answer.err


def test_failed_episodes_of_an_evaluation_are_kept_and_can_be_looked_at(
    practicum, folder: Path
) -> None:
    pytest.importorskip("uvicorn")
    words = ("eval", "tiny", "--env", "math", "agent=mine.py:agent_bug", "--n", "2")
    answer = practicum(*words)
    assert answer.code == 2
    assert "2 failed episodes kept" in answer.err
    with SqliteTraceStore(folder / "eval_failures.sqlite", read_only=True) as store:
        failures = [episode.trace.failure for episode in store.query("")]
        assert store.counts_by("purpose") == {"eval": 2}
    assert [failure is not None and "mine.py" in failure.message for failure in failures] == [
        True,
        True,
    ]
    alarm = ("--where", "purpose = eval and score = none")  # what `masked_words` tells to type
    listed = practicum("traces", "list", "--store", "eval_failures.sqlite", *alarm)
    assert "2 of 2 episodes" in listed.out
    assert listed.out.count("mine.py:agent_bug") == 2


def test_an_evaluation_keeps_every_episode_where_it_is_told(practicum, folder: Path) -> None:
    answer = practicum("eval", "random", "--env", "math", "--n", "3", "--store", "all.sqlite")
    assert answer.code == 0, answer.err
    assert not (folder / "eval_failures.sqlite").exists()
    with SqliteTraceStore(folder / "all.sqlite", read_only=True) as store:
        assert store.counts_by("purpose") == {"eval": 3}


HALF = """
from contextlib import asynccontextmanager
import practicum as pr


class Session:
    def __init__(self, task):
        self.task, self.said = task, ""

    def prompt(self):
        return [pr.Message(role="user", content="go or stay")]

    def actions(self):
        return (pr.ActionForm(name="go"), pr.ActionForm(name="stay"))

    async def act(self, text):
        self.said = text
        if int(self.task.id) < 11:
            raise RuntimeError("the tool is not there")
        return pr.Observation(message=pr.Message(role="user", content="done"), terminated=True)

    async def outcome(self):
        return pr.Outcome(success=self.said == "go")


class Half:
    name = "half"
    all_levels = (1,)
    default_reward = "os"

    class Options(pr.ConfigModel):
        pass

    def __init__(self, options):
        pass

    def tasks(self, split, seed):
        for n in range(20):
            yield pr.Task(id=str(n), env="half", split=split)

    @asynccontextmanager
    async def open(self, task):
        yield Session(task)

    def reference(self, task):
        return ("go",)
"""
WORKS_TO_LOOK_AT = re.compile(r"find out what failed: practicum (traces list [^\n]*)")


def test_what_the_alarm_about_masked_attempts_tells_to_type_finds_them(
    practicum, folder: Path
) -> None:
    (folder / "half.py").write_text(HALF)
    words = ("eval", "reference", "--env", "half.py:Half", "--n", "20")
    for store in ((), ("--store", "all of it.sqlite")):
        answer = practicum(*words, *store)
        assert answer.code == 0, answer.err
        assert "0.450 [0.258, 0.658]" in answer.out
        (told,) = WORKS_TO_LOOK_AT.findall(answer.out)
        listed = practicum(*shlex.split(told))
        assert listed.code == 0, listed.err
        assert "11 of 11 episodes" in listed.out
    found = json.loads(practicum(*words, "--json").out)
    report = found["report"]
    assert (report["success"]["value"], report["counts_masked"]) == (0.45, True)
    assert (report["success_scored"]["value"], report["masked"]) == (1.0, 11)
    assert report["success_if_masked_failed"] == report["success"]
    assert (folder / found["episodes"]).exists()


def test_an_evaluation_from_python_keeps_and_names_what_failed(
    practicum, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "half.py").write_text(HALF)
    evaluated = pr.evaluate("reference", env="half.py:Half", n=20, quiet=True)
    assert evaluated.report.success is not None
    assert evaluated.report.success.value == 0.45
    (told,) = WORKS_TO_LOOK_AT.findall(str(evaluated))
    assert "11 of 11 episodes" in practicum(*shlex.split(told)).out


IDLE = """
def rows():
    for n in range(40):
        yield {"id": f"sum-{n}", "prompt": f"{n} + 1 = ?", "answer": str(n + 1)}


def constant(task, trace, outcome):
    return 0.5


async def silent(task, client):
    return float(len(task.id) % 2)
"""


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("reward=idle.py:constant", "step 1: the reward paid 0.5 for each of the"),
        ("agent=idle.py:silent", "step 1: the model was not called in any of the"),
    ],
)
def test_a_run_that_cannot_learn_says_why_at_its_first_step(
    practicum, folder: Path, word: str, said: str
) -> None:
    pytest.importorskip("uvicorn")
    (folder / "idle.py").write_text(IDLE)
    words = (*TINY, "steps=1", "eval.n=0", "rollouts.max_tokens=4", word, "--name", "x")
    answer = practicum("train", "tasks", "env.data=idle.py:rows", *words)
    assert answer.code == 0, answer.err
    assert said in " ".join(answer.err.split())
    shown = " ".join(practicum("runs", "x").out.split())
    assert said.removeprefix("step 1: ") in shown
    assert "easier" not in shown
