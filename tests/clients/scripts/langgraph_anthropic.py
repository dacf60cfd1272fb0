"""LangGraph with langchain-anthropic as the client: messages and content blocks."""

import os

from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


model = ChatAnthropic(
    model="tiny",
    base_url=os.environ["ANTHROPIC_BASE_URL"],
    max_tokens=200,
    max_retries=0,
    streaming=True,
).bind_tools([add])


def ask(state: MessagesState) -> dict[str, list[object]]:
    return {"messages": [model.invoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("ask", ask)
graph.add_node("tools", ToolNode([add]))
graph.add_edge(START, "ask")
graph.add_conditional_edges("ask", tools_condition)
graph.add_edge("tools", "ask")
question = {"messages": [("system", "Use the tool."), ("user", "What is 17 + 25?")]}
state = graph.compile().invoke(question, {"recursion_limit": 8})
print(state["messages"][-1].text)
