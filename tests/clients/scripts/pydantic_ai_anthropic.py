"""pydantic-ai over Anthropic's messages, streamed."""

import asyncio
import json

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel

called: list[tuple[int, int]] = []
agent = Agent(AnthropicModel("tiny"), instructions="Use the tool.")


@agent.tool_plain
def add(a: int, b: int) -> int:
    """Add two numbers."""
    called.append((a, b))
    return a + b


async def main() -> None:
    async with agent.run_stream("What is 17 + 25?") as result:
        answer = await result.get_output()
    print(json.dumps({"answer": answer, "called": called}))


asyncio.run(main())
