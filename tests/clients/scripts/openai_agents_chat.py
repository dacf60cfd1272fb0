"""openai-agents over chat completions, streamed."""

import asyncio

from agents import (
    Agent,
    Runner,
    function_tool,
    set_default_openai_api,
    set_tracing_disabled,
)

set_tracing_disabled(True)
set_default_openai_api("chat_completions")


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    agent = Agent(name="adder", instructions="Use the tool.", model="tiny", tools=[add])
    result = Runner.run_streamed(agent, "What is 17 + 25?", max_turns=3)
    async for _ in result.stream_events():
        pass
    print(result.final_output)


asyncio.run(main())
