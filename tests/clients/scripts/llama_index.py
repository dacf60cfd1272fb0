"""LlamaIndex: a function agent, streamed."""

import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    model = OpenAILike(
        model="tiny",
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        is_chat_model=True,
        is_function_calling_model=True,
        max_retries=0,
    )
    agent = FunctionAgent(tools=[add], llm=model, system_prompt="Use the tool.")
    answer = await agent.run("What is 17 + 25?", max_iterations=4)
    print(str(answer))


asyncio.run(main())
