"""semantic-kernel: an agent with a tool, its stream, a typed result, and its errors."""

import asyncio
import os
import sys

from openai import AsyncOpenAI
from pydantic import BaseModel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion,
    OpenAIChatPromptExecutionSettings,
)
from semantic_kernel.functions import KernelArguments, kernel_function


class Result(BaseModel):
    """The sum."""

    answer: int


class Sums:
    """Sums of numbers."""

    @kernel_function(name="add", description="Add two numbers.")
    def add(self, a: int, b: int) -> int:
        return a + b


feature = sys.argv[1]


async def main() -> None:
    client = AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], max_retries=0)
    service = OpenAIChatCompletion(ai_model_id="tiny", async_client=client)
    settings = OpenAIChatPromptExecutionSettings()
    if feature == "typed":
        settings.response_format = Result
    agent = ChatCompletionAgent(
        service=service, name="adder", plugins=[Sums()], arguments=KernelArguments(settings)
    )
    if feature == "streaming":
        pieces = [str(one.message) async for one in agent.invoke_stream("What is 17 + 25?")]
        print("".join(pieces))
    else:
        said = str((await agent.get_response("What is 17 + 25?")).message)
        print(Result.model_validate_json(said).answer if feature == "typed" else said)


asyncio.run(main())
