"""haystack: an agent with a tool, its stream, a typed result, and its errors."""

import sys
from typing import Annotated

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import tool
from pydantic import BaseModel


class Result(BaseModel):
    """The sum."""

    answer: int


@tool
def add(a: Annotated[int, "The first."], b: Annotated[int, "The second."]) -> int:
    """Add two numbers."""
    return a + b


def collect(chunk: StreamingChunk) -> None:
    pieces.append(chunk.content)


feature = sys.argv[1]
pieces: list[str] = []
model = OpenAIChatGenerator(
    model="tiny",
    max_retries=0,
    tools_strict=True,
    streaming_callback=collect if feature == "streaming" else None,
    generation_kwargs={"response_format": Result} if feature == "typed" else None,
)
agent = Agent(chat_generator=model, tools=[add], max_agent_steps=4)
said = agent.run(messages=[ChatMessage.from_user("What is 17 + 25?")])["messages"][-1].text
if feature == "streaming":
    print("".join(pieces))
else:
    print(Result.model_validate_json(said).answer if feature == "typed" else said)
