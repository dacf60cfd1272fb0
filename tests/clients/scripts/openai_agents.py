"""openai-agents over the Responses API: an agent with a function tool."""

import json

from agents import Agent, Runner, function_tool, set_tracing_disabled

set_tracing_disabled(True)
called: list[tuple[int, int]] = []


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    called.append((a, b))
    return a + b


agent = Agent(name="adder", instructions="Use the tool.", model="tiny", tools=[add])
result = Runner.run_sync(agent, "What is 17 + 25?", max_turns=3)
print(json.dumps({"answer": result.final_output, "called": called}))
