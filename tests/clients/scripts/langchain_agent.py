"""langchain: an agent over the Responses API or Anthropic's messages, a stream, typed results."""

import os
import sys

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Result(BaseModel):
    """The sum."""

    answer: int


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


feature, provider = sys.argv[1:]
if provider == "responses":
    model = ChatOpenAI(model="tiny", use_responses_api=True, max_retries=0)
else:
    base_url = os.environ["ANTHROPIC_BASE_URL"]
    model = ChatAnthropic(model="tiny", base_url=base_url, max_tokens=200, max_retries=0)
if feature == "streaming":
    print("".join(chunk.text for chunk in model.stream("What is 17 + 25?")))
else:
    form = ProviderStrategy(Result) if feature == "typed" else None
    agent = create_agent(model, tools=[add], response_format=form)
    state = agent.invoke({"messages": [("user", "What is 17 + 25?")]}, {"recursion_limit": 8})
    typed = feature == "typed"
    print(state["structured_response"].answer if typed else state["messages"][-1].text)
