"""Training sets on disk: what is written is what is read, here and by the libraries of others."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.traces.datasets.made import make_example

from practicum.core.errors import UserError
from practicum.core.sample import Example
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.traces.datasets.build import BuildOptions, Built, Kind, build
from practicum.traces.datasets.dataset_reading import Fault, read_examples
from practicum.traces.datasets.dataset_writing import checked_file, read_manifest, write_dataset
from practicum.traces.datasets.splits import LeftOut

KINDS: list[Kind] = ["sft", "kto", "dpo", "grpo"]
BASH = ToolSpec(
    name="bash", description="Run.", parameters={"type": "object", "properties": {"s": {"x": [1]}}}
)


def varied() -> list[Example]:
    """Examples with all that an example can have."""
    found = []
    for task in range(8):
        for good in (True, False):
            call = ToolCall(name="bash", arguments={"s": f"ls {good}", "n": [task, None]}, id="c1")
            plain = make_example(
                f"{task}-{good}",
                task=f"{task}",
                asked=f"question q{task} r{task} s{task} é漢🙂\n\u2028",
                said=f"{good} <|im_end|>",
                label=good,
                reward=task / 3 + good,
            )
            if task % 2:
                found.append(plain)
                continue
            more = (
                replace(plain.messages[2], tool_calls=(call,), reasoning="hm"),
                Message(role="tool", content="no", tool_call_id="c1", is_error=True),
                Message(role="assistant", content="Go on, said someone else."),
                Message(role="assistant", content=f"done {good}"),
            )
            found.append(
                replace(
                    plain,
                    messages=(*plain.messages[:2], *more),
                    tools=(BASH,),
                    shown=(4,) if task % 4 else (),
                    token_ids=(1, 2, 3),
                    loss_mask=(False, True, True),
                    tokens_of="tiny",
                )
            )
    return found


def build_varied(kind: Kind, heldout: float = 0.25) -> Built:
    return build(varied(), BuildOptions(kind=kind, heldout=heldout), LeftOut())


def flat(units: tuple[tuple[Example, ...], ...]) -> list[Example]:
    return [example for unit in units for example in unit]


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_read_back_are_the_examples_that_were_written(
    kind: Kind, form: str, tmp_path: Path
) -> None:
    made = build_varied(kind)
    write_dataset(made, tmp_path / "d", form=form, question={})
    for side, units in (("train", made.train), ("heldout", made.heldout)):
        assert units
        path = checked_file(tmp_path / "d", side)  # type: ignore[arg-type]
        assert path is not None
        assert list(read_examples(path)) == flat(units)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.parquet"])
def test_a_file_s_ending_says_its_form(name: str, tmp_path: Path) -> None:
    made = build_varied("sft")
    write_dataset(made, tmp_path / name, form="jsonl", question={})
    heldout = tmp_path / name.replace("rows.", "rows.heldout.")
    assert list(read_examples(tmp_path / name)) == flat(made.train)
    assert list(read_examples(heldout)) == flat(made.heldout)
    assert (tmp_path / "rows.dataset.json").is_file()


def test_the_manifest_has_the_question_the_figures_and_hashes(tmp_path: Path) -> None:
    import hashlib

    made = build_varied("kto")
    manifest = write_dataset(made, tmp_path, form="jsonl", question={"where": "success"})
    assert read_manifest(tmp_path) == manifest
    assert manifest["question"] == {"where": "success"}
    assert manifest["statistics"]["train"]["rows"] == len(made.train)
    train = (tmp_path / "train.jsonl").read_bytes()
    assert manifest["files"]["train.jsonl"]["sha256"] == hashlib.sha256(train).hexdigest()
    assert manifest["files"]["train.jsonl"]["rows"] == train.count(b"\n")


def test_the_same_question_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_dataset(build_varied("dpo"), tmp_path / name, form="jsonl", question={})
    one, other = (read_manifest(tmp_path / name)["files"] for name in ("a", "b"))
    assert one == other


def test_a_file_that_was_changed_is_noticed(tmp_path: Path) -> None:
    write_dataset(build_varied("sft"), tmp_path, form="jsonl", question={})
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(UserError, match="is not as it was when the dataset was built"):
        checked_file(tmp_path, "train")
    assert checked_file(tmp_path, "heldout") is not None


def test_what_is_there_is_not_replaced_unless_told(tmp_path: Path) -> None:
    write_dataset(build_varied("sft"), tmp_path, form="jsonl", question={})
    with pytest.raises(UserError, match=r"train.jsonl exists already; .*--replace"):
        write_dataset(build_varied("kto"), tmp_path, form="jsonl", question={})
    whole = build_varied("kto", heldout=0.0)
    write_dataset(whole, tmp_path, form="jsonl", question={}, replace=True)
    assert list(read_examples(tmp_path / "train.jsonl")) == flat(whole.train)
    assert checked_file(tmp_path, "heldout") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "README.md",
        "dataset.json",
        "train.jsonl",
    ]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_dataset(build_varied("sft"), tmp_path / "file" / "d", form="jsonl", question={})
    with pytest.raises(UserError, match="is a file; choose a folder"):
        write_dataset(build_varied("sft"), tmp_path / "file", form="jsonl", question={})


def test_a_folder_without_a_manifest_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="practicum dataset build"):
        read_manifest(tmp_path)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_datasets_library_loads_the_folder(kind: Kind, form: str, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    made = build_varied(kind)
    write_dataset(made, tmp_path / "d", form=form, question={})
    loaded = datasets.load_dataset(str(tmp_path / "d"), cache_dir=str(tmp_path / "cache"))
    assert set(loaded) == {"train", "heldout"}
    assert len(loaded["train"]) == len(made.train)
    first = made.train[0][0]
    row = loaded["train"][0]
    opening = row["messages"][: first.given] if kind == "sft" else row["prompt"]
    assert [m["content"] for m in opening] == [m.content for m in first.prompt]
    if kind == "kto":
        assert [r["label"] for r in loaded["train"]] == [u[0].label for u in made.train]
    if kind == "grpo":
        rewards = [reward for row in loaded["train"] for reward in row["rewards"]]
        # The JSON reader of that library keeps ten digits.
        assert rewards == pytest.approx([e.reward for u in made.train for e in u], abs=1e-9)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", KINDS)
def test_the_datasets_library_loads_splits_of_which_one_has_more_than_the_other(
    kind: Kind, tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    made = build_varied(kind)
    units = [*made.train, *made.heldout]
    bare = [unit for unit in units if not unit[0].tools]
    rich = [unit for unit in units if unit[0].tools]
    # `env` alone is in one, `tools` alone in the other: neither split has all columns.
    named = [tuple(replace(e, tools=()) for e in unit) for unit in rich]
    noted = [tuple(replace(e, token_ids=(), loss_mask=()) for e in unit) for unit in rich]
    for name, sides in (("a", (bare, rich)), ("b", (rich, bare)), ("c", (named, noted))):
        split = replace(made, train=sides[0], heldout=sides[1])
        write_dataset(split, tmp_path / name, form="jsonl", question={})
        loaded = datasets.load_dataset(str(tmp_path / name), cache_dir=str(tmp_path / "cache"))
        assert [len(loaded[side]) for side in ("train", "heldout")] == [len(s) for s in sides]
        read = list(read_examples(tmp_path / name / "train.jsonl"))
        assert [e.messages for e in read] == [e.messages for unit in sides[0] for e in unit]


def fault_of(tmp_path: Path, row: object) -> Fault:
    path = tmp_path / "rows.jsonl"
    good = {"prompt": "q", "completion": "a"}
    text = row if isinstance(row, str) else json.dumps(row)
    path.write_text(f"{json.dumps(good)}\n{text}\n\n{json.dumps(good)}\n")
    faults: list[Fault] = []
    found = list(read_examples(path, faults.append))
    assert [example.id for example in found] == ["rows-1", "rows-4"]  # the good rows are kept
    (fault,) = faults
    assert fault.place == f"{path}:2"
    with pytest.raises(UserError, match=r"rows\.jsonl:2: "):
        list(read_examples(path))
    return fault


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{not json", "not valid JSON"),
        ([1], "not an object"),
        ({"text": "a"}, "none of the columns"),
        ({"messages": []}, "neither a text nor a list of messages"),
        ({"messages": [{"role": "user", "content": "q"}]}, "no turn of an assistant"),
        ({"messages": [{"role": "robot", "content": "q"}]}, "is from 'robot'"),
        ({"messages": [{"role": "user", "content": 3}]}, "not a text"),
        ({"messages": ["q"]}, "not an object"),
        ({"messages": [{"role": "user", "content": "q"}], "given": -1}, "'given' is -1"),
        ({"prompt": "q", "completion": "a", "label": "yes"}, "'label' is 'yes'"),
        ({"prompt": "q", "completion": "a", "weight": -1}, "'weight' is -1, below 0"),
        ({"prompt": "q", "completion": "a", "reward": "high"}, "'reward' is 'high'"),
        ({"prompt": "q", "completion": "a", "token_ids": [1]}, "not two lists of a length"),
        ({"prompt": "q", "completion": "a", "tools": "[{]"}, "not valid JSON"),
        ({"prompt": "q", "completion": "a", "tools": [{"type": "function"}]}, "has no name"),
        ({"completion": "a"}, "'prompt' is neither a text nor"),
        ({"prompt": "q", "chosen": "a"}, "'rejected' is neither"),
        ({"prompt": "q", "chosen": "a", "rejected": "a"}, "are the same"),
        ({"chosen": "a", "rejected": "b"}, "begin differently"),
        ({"prompt": "q", "completions": ["a"], "rewards": [1]}, "at least two"),
        ({"prompt": "q", "completions": ["a", "b"], "rewards": [1]}, "2 completions and 1 rewards"),
        (
            {"prompt": "q", "completions": ["a", "b"], "rewards": [1, 0], "ids": ["x"]},
            "'ids' is not a list with an entry for each",
        ),
        ({"trace": {}}, "practicum traces import"),
        ({"prompt": "q", "chosen": "a", "rejected": "b", "synthetic": True}, "made up"),
        ({"prompt": "q", "chosen": "a", "rejected": "b", "source": "synthetic_worse"}, "made up"),
        (
            {
                "prompt": "q",
                "completions": ["a", "b"],
                "rewards": [1, 0],
                "metadata": {"synthetic": True},
            },
            "made up",
        ),
        ({"prompt": "q", "completion": "a", "label": False, "source": "corrupted"}, "made up"),
        ({"prompt": "q", "completion": "a", "reward": 0.1, "synthetic": 1}, "made up"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_its_line_and_the_reason(
    tmp_path: Path, row: object, reason: str
) -> None:
    assert reason in fault_of(tmp_path, row).reason


def read_one(tmp_path: Path, row: dict[str, Any]) -> list[Example]:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return list(read_examples(path))


def test_messages_that_weigh_nothing_are_shown_and_not_learned_from(tmp_path: Path) -> None:
    said = [{"role": "assistant", "content": text, "weight": w} for text, w in (("a", 0), ("b", 1))]
    asked = [{"role": "user", "content": "q"}]
    (example,) = read_one(tmp_path, {"messages": [*asked, *said, *said]})
    assert (example.given, example.shown) == (2, (3,))
    (example,) = read_one(tmp_path, {"prompt": asked, "completion": [said[1], *said]})
    assert (example.given, example.shown) == (1, (2,))
    other = {"role": "assistant", "content": "c"}
    pair = {"chosen": [*asked, said[1], *said], "rejected": [*asked, other, *said]}
    chosen, rejected = read_one(tmp_path, pair)
    assert chosen.prompt == rejected.prompt
    assert (chosen.given, chosen.shown, rejected.shown) == (1, (2,), (2,))


def test_a_made_up_answer_that_is_not_called_worse_is_never_compared(tmp_path: Path) -> None:
    row = {"prompt": "q", "completion": "a", "label": True, "reward": 1.0, "synthetic": True}
    (example,) = read_one(tmp_path, row)
    assert (example.label, example.reward) == (True, None)


def test_plain_texts_are_read_as_messages(tmp_path: Path) -> None:
    (example,) = read_one(tmp_path, {"prompt": "q", "completion": "a", "label": 0})
    assert [(m.role, m.content) for m in example.messages] == [("user", "q"), ("assistant", "a")]
    assert (example.given, example.label, example.weight) == (1, False, 1.0)


def test_preferences_without_a_prompt_share_their_beginning(tmp_path: Path) -> None:
    def said(text: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": "q"}, {"role": "assistant", "content": text}]

    chosen, rejected = read_one(tmp_path, {"chosen": said("a"), "rejected": said("b")})
    assert chosen.prompt == rejected.prompt == (Message(role="user", content="q"),)
    assert [m.content for m in (*chosen.completion, *rejected.completion)] == ["a", "b"]
    assert (chosen.chosen, rejected.chosen) == (True, False)
    assert chosen.pair == rejected.pair == "rows-1"


def test_messages_in_the_forms_of_others_are_read(tmp_path: Path) -> None:
    row = {
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}],
            },
            {"role": "function", "content": "r"},
            {"role": "assistant", "content": "a"},
        ]
    }
    (example,) = read_one(tmp_path, row)
    assert [m.role for m in example.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert example.messages[2].tool_calls == (ToolCall(name="f", arguments={"x": 1}),)
    assert example.given == 2


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("rows.csv", "", "is not a dataset; give a file that ends with"),
        ("rows.json", "{}", "not a list of rows"),
        ("rows.json", "[", "one list of rows"),
        ("rows.parquet", "nonsense", "cannot be read as Parquet"),
    ],
)
def test_a_file_that_is_no_dataset_is_refused(
    tmp_path: Path, name: str, content: str, reason: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=reason):
        list(read_examples(tmp_path / name))
    with pytest.raises(UserError, match="there is no file"):
        list(read_examples(tmp_path / "other.jsonl"))
