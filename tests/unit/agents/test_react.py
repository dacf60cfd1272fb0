import pytest

from practicum.agents.call_styles import final_answer, read_react_call, with_react_rules
from practicum.core.tool_calls import MalformedCall
from practicum.core.trace import Message, ToolSpec

BASH = ToolSpec(
    name="bash",
    description="Runs a script.",
    parameters={"properties": {"script": {"type": "string"}}, "required": ["script"]},
)
FINISH = ToolSpec(name="finish")
TOOLS = (BASH, FINISH)


@pytest.mark.parametrize(
    "text",
    [
        'Thought: look\nAction: bash\nAction Input: {"script": "ls"}',
        'Action: bash\nAction Input:\n```json\n{"script": "ls"}\n```',
        "Action: `bash`\nAction Input: ls",
        'Action: bash\nAction Input: {"script": "ls"}\nObservation: a b\nAction: finish',
        'Action: bash\nAction Input: {"script": "ls"} and then some',
    ],
)
def test_an_action_is_read_with_its_input(text: str) -> None:
    call = read_react_call(text, TOOLS)
    assert (call.name, call.arguments) == ("bash", {"script": "ls"})


def test_an_action_without_input_has_no_arguments() -> None:
    assert read_react_call("Action: finish", TOOLS).arguments == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I would list the files", "no tool was called; write a line `Action: NAME`"),
        ("Action: fly\nAction Input: {}", "there is no tool 'fly'; the tools are bash, finish"),
        ("Action: bash\nAction Input: {}", "bash needs the argument 'script'"),
        ('Action: bash\nAction Input: {"script": ', "the input is not valid JSON"),
        ("Action: finish\nAction Input: now", "the input is not a JSON object"),
        ("Observation: x\nwords", "no tool was called"),
        ("words\nObservation: x\nAction: finish", "no tool was called"),
    ],
)
def test_what_is_wrong_is_said_so_that_it_can_be_written_again(text: str, said: str) -> None:
    with pytest.raises(MalformedCall) as wrong:
        read_react_call(text, TOOLS)
    assert str(wrong.value).startswith(said)


def test_a_final_answer_counts_only_where_there_is_no_action() -> None:
    assert final_answer("Thought: so\nFinal Answer: 4\n2") == "4\n2"
    assert final_answer("Action: finish\nFinal Answer: 42") is None
    assert final_answer("42") is None


def test_the_rules_go_into_the_system_message_or_make_one() -> None:
    system, user = Message(role="system", content="Be brief."), Message(role="user", content="hi")
    with_system = with_react_rules([system, user], TOOLS)
    assert [m.role for m in with_system] == ["system", "user"]
    assert with_system[0].content.startswith("Be brief.\n\nYou can use these tools:\nbash: Runs")
    assert [m.role for m in with_react_rules([user], TOOLS)] == ["system", "user"]
