"""google-adk by litellm: an agent with a tool, its stream, a typed result, and its errors."""

import asyncio
import json
import sys

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import BaseModel


class Result(BaseModel):
    """The sum."""

    answer: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


feature = sys.argv[1]


async def main() -> None:
    agent = LlmAgent(
        name="adder",
        model=LiteLlm(model="openai/tiny", num_retries=0),
        tools=[add],
        output_schema=Result if feature == "typed" else None,
    )
    runner = InMemoryRunner(agent=agent, app_name="sums")
    session = await runner.session_service.create_session(app_name="sums", user_id="u")
    mode = StreamingMode.SSE if feature == "streaming" else StreamingMode.NONE
    pieces, said = [], ""
    async for event in runner.run_async(
        user_id="u",
        session_id=session.id,
        new_message=types.UserContent("What is 17 + 25?"),
        run_config=RunConfig(streaming_mode=mode, max_llm_calls=4),
    ):
        parts = event.content.parts or [] if event.content else []
        text = "".join(part.text or "" for part in parts)
        if event.partial:
            pieces.append(text)
        else:
            said = text or said
    if feature == "typed":
        print(json.loads(said)["answer"])
    else:
        print("".join(pieces) if feature == "streaming" else said)


asyncio.run(main())
