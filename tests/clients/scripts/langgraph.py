"""LangGraph: a graph of a model and its tools, with langchain-openai as the client."""

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


model = ChatOpenAI(model="tiny", max_retries=0).bind_tools([add])


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
print(state["messages"][-1].content)
