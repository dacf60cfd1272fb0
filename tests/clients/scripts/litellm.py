"""litellm: a tool loop by hand."""

import json
import os

import litellm

number = {"type": "integer"}
tool = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": number, "b": number},
            "required": ["a", "b"],
        },
    },
}
messages: list[object] = [
    {"role": "system", "content": "Use the tool."},
    {"role": "user", "content": "What is 17 + 25?"},
]
answer = ""
for _ in range(3):
    response = litellm.completion(
        model="openai/tiny",
        messages=messages,
        tools=[tool],
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        num_retries=0,
    )
    said = response.choices[0].message
    messages.append(said.model_dump())
    if not said.tool_calls:
        answer = said.content
        break
    for call in said.tool_calls:
        given = json.loads(call.function.arguments)
        result = str(given["a"] + given["b"])
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
print(answer)
