"""agno: an agent with a tool, its stream, a typed result, and its errors."""

import sys

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from pydantic import BaseModel


class Result(BaseModel):
    """The sum."""

    answer: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


feature = sys.argv[1]
form = {"output_schema": Result} if feature == "typed" else {}
agent = Agent(model=OpenAIChat(id="tiny", max_retries=0), tools=[add], telemetry=False, **form)
if feature == "streaming":
    events = agent.run("What is 17 + 25?", stream=True)
    print("".join(e.content for e in events if getattr(e, "content", None)))
else:
    answer = agent.run("What is 17 + 25?")
    print(answer.content.answer if feature == "typed" else answer.content)
