from practicum.core.trace import ToolSpec
from practicum.gateway.called_tools import call_schema, read_bare_call

TOOLS = [
    ToolSpec(name="look", parameters={"type": "object", "properties": {"at": {"type": "string"}}}),
    ToolSpec(name="stop"),
]


def test_one_tool_has_one_form_and_several_have_a_choice() -> None:
    one = call_schema(TOOLS[:1])
    assert one["properties"]["name"] == {"const": "look"}
    assert one["properties"]["arguments"] == TOOLS[0].parameters
    both = call_schema(TOOLS)
    assert [form["properties"]["name"]["const"] for form in both["anyOf"]] == ["look", "stop"]
    assert both["anyOf"][1]["properties"]["arguments"]["maxProperties"] == 0


def test_a_whole_object_is_a_call_and_a_part_of_one_is_not() -> None:
    call = read_bare_call('{"name": "look", "arguments": {"at": "x"}}', TOOLS)
    assert call is not None
    assert (call.name, call.arguments, call.id) == ("look", {"at": "x"}, "call_0")
    for text in ('{"name": "look", "arg', '{"name": "fly", "arguments": {}}', "[]", ""):
        assert read_bare_call(text, TOOLS) is None
