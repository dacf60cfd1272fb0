"""autogen: an assistant with a tool, its stream, a typed result, and its errors."""

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from pydantic import BaseModel


class Result(BaseModel):
    """The sum."""

    answer: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


TOOL = FunctionTool(add, description="Add two numbers.", strict=True)
INFO = {
    "vision": False,
    "function_calling": True,
    "json_output": True,
    "structured_output": True,
    "family": "unknown",
}
feature = sys.argv[1]


async def main() -> None:
    client = OpenAIChatCompletionClient(model="tiny", model_info=INFO, max_retries=0)
    agent = AssistantAgent(
        "adder",
        client,
        tools=[TOOL],
        reflect_on_tool_use=True,
        model_client_stream=feature == "streaming",
        output_content_type=Result if feature == "typed" else None,
    )
    if feature == "streaming":
        pieces = [
            event.content
            async for event in agent.run_stream(task="What is 17 + 25?")
            if isinstance(event, ModelClientStreamingChunkEvent)
        ]
        print("".join(pieces))
    else:
        said = (await agent.run(task="What is 17 + 25?")).messages[-1].content
        print(said.answer if feature == "typed" else said)


asyncio.run(main())
