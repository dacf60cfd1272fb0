"""openai-agents over the Responses API: an agent with a function tool."""

from agents import Agent, Runner, function_tool, set_tracing_disabled

set_tracing_disabled(True)


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


agent = Agent(name="adder", instructions="Use the tool.", model="tiny", tools=[add])
result = Runner.run_sync(agent, "What is 17 + 25?", max_turns=3)
print(result.final_output)
