"""Strands: an agent with a tool, its stream, a typed result, and its errors."""

import asyncio
import os
import sys

from pydantic import BaseModel
from strands import Agent, tool
from strands.models.openai import OpenAIModel


class Result(BaseModel):
    """The sum."""

    answer: int


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


feature = sys.argv[1]
arguments = {"base_url": os.environ["OPENAI_BASE_URL"], "max_retries": 0}
model = OpenAIModel(client_args=arguments, model_id="tiny")
agent = Agent(model=model, tools=[add], callback_handler=None)


async def stream() -> str:
    return "".join([e["data"] async for e in agent.stream_async("What is 17 + 25?") if "data" in e])


if feature == "streaming":
    print(asyncio.run(stream()))
elif feature == "typed":
    print(agent("What is 17 + 25?", structured_output_model=Result).structured_output.answer)
else:
    print(str(agent("What is 17 + 25?")).strip())
