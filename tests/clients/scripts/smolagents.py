"""smolagents: its tool-calling agent, with its own long prompt."""

import os

from smolagents import OpenAIModel, ToolCallingAgent, tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One number.
        b: Another.
    """
    return a + b


model = OpenAIModel(
    "tiny", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"]
)
agent = ToolCallingAgent(tools=[add], model=model, max_steps=3, verbosity_level=0)
answer = agent.run("What is 17 + 25?")
print(answer)
