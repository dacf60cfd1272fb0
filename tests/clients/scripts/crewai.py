"""CrewAI: a crew of one agent with a tool."""

import os

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool


@tool("add")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


model = LLM(
    model="openai/tiny",
    base_url=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
)
adder = Agent(
    role="adder", goal="Add.", backstory="Adds.", tools=[add], llm=model, max_iter=3, verbose=False
)
task = Task(description="What is 17 + 25?", expected_output="The number.", agent=adder)
answer = Crew(agents=[adder], tasks=[task], verbose=False).kickoff()
print(str(answer))
