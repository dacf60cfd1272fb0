"""pydantic-ai over Anthropic's messages, streamed."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel

agent = Agent(AnthropicModel("tiny"), instructions="Use the tool.")


@agent.tool_plain
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    async with agent.run_stream("What is 17 + 25?") as result:
        answer = await result.get_output()
    print(answer)


asyncio.run(main())
