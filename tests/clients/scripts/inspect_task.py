"""inspect-ai: a task solved with a tool, a typed result, and its errors."""

import json
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ResponseSchema
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, tool
from inspect_ai.util import json_schema
from pydantic import BaseModel


class Result(BaseModel):
    """The sum."""

    answer: int


@tool
def add() -> Tool:
    async def execute(a: int, b: int) -> str:
        """Add two numbers.

        Args:
            a: The first.
            b: The second.
        """
        return str(a + b)

    return execute


feature, model = sys.argv[1:]
streams = {"streaming": True} if feature == "streaming" else {}
form = ResponseSchema(name="Result", json_schema=json_schema(Result))
config = GenerateConfig(response_schema=form if feature == "typed" else None, max_retries=0)
task = Task(
    dataset=[Sample(input="What is 17 + 25?")], solver=[use_tools(add()), generate()], config=config
)
(log,) = eval(task, model=model, model_args=streams, display="none", log_dir=".", message_limit=8)
if log.status != "success" or not log.samples:
    raise SystemExit(str(log.error.traceback if log.error else log.status))
said = log.samples[0].output.completion
print(json.loads(said)["answer"] if feature == "typed" else said)
