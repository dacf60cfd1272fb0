"""The openai library's `parse` with a tool and a typed result, streams, and its errors."""

import json
import sys

from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel


class Result(BaseModel):
    """The sum."""

    answer: int


class add(BaseModel):
    """Add two numbers."""

    a: int
    b: int


client = OpenAI(max_retries=0)
messages: list = [{"role": "user", "content": "What is 17 + 25?"}]
feature = sys.argv[1]
if feature == "streaming":
    with client.chat.completions.stream(model="tiny", messages=messages) as stream:
        print("".join(e.delta for e in stream if e.type == "content.delta"))
else:
    form = {"response_format": Result} if feature == "typed" else {}
    while True:
        answer = client.chat.completions.parse(
            model="tiny", messages=messages, tools=[pydantic_function_tool(add)], **form
        )
        said = answer.choices[0].message
        if not said.tool_calls:
            print(said.parsed.answer if feature == "typed" else said.content)
            break
        messages.append(said.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in said.tool_calls:
            given = json.loads(call.function.arguments)
            result = {"role": "tool", "tool_call_id": call.id}
            messages.append({**result, "content": str(given["a"] + given["b"])})
