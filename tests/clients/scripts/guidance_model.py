"""guidance: a call of a tool, its stream, a typed result, and its errors."""

import os
import sys

from guidance import assistant, gen, models, system, user
from guidance import json as typed_json
from pydantic import BaseModel


class Result(BaseModel):
    """The sum."""

    answer: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


feature = sys.argv[1]
lm = models.OpenAI("tiny", echo=False, base_url=os.environ["OPENAI_BASE_URL"], max_retries=0)
with system():
    lm += "Use the tool."
with user():
    lm += "What is 17 + 25?"
if feature == "typed":
    with assistant():
        lm += typed_json(name="result", schema=Result)
    print(Result.model_validate_json(lm["result"]).answer)
else:
    if feature == "tools":
        with assistant():
            lm += gen(tools=[add])
    with assistant():
        lm += gen(name="answer")
    print(lm["answer"])
