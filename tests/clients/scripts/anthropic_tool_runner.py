"""The anthropic library's tool runner, whole and streamed, with a typed result, and its errors."""

import sys

import pydantic
from anthropic import Anthropic, beta_tool


class Result(pydantic.BaseModel):
    """The sum."""

    answer: int


@beta_tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


client = Anthropic(max_retries=0)
asked = {
    "model": "tiny",
    "max_tokens": 200,
    "messages": [{"role": "user", "content": "What is 17 + 25?"}],
}
feature = sys.argv[1]
if feature == "streaming":
    with client.messages.stream(**asked) as stream:
        print("".join(stream.text_stream))
elif feature == "typed":
    runner = client.beta.messages.tool_runner(**asked, tools=[add], output_format=Result)
    print(runner.until_done().parsed_output.answer)
else:
    runner = client.beta.messages.tool_runner(**asked, tools=[add])
    print("".join(b.text for b in runner.until_done().content if b.type == "text"))
