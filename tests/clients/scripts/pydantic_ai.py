"""pydantic-ai: an agent with a tool, over chat completions."""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

agent = Agent(OpenAIChatModel("tiny"), instructions="Use the tool.")


@agent.tool_plain
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


result = agent.run_sync("What is 17 + 25?")
print(result.output)
