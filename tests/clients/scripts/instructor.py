"""instructor: typed results by a tool and by a schema, and its errors."""

import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Result(BaseModel):
    """The sum."""

    answer: int


MESSAGES = [{"role": "user", "content": "What is 17 + 25?"}]
feature = sys.argv[1]
mode = instructor.Mode.TOOLS if feature == "tools" else instructor.Mode.JSON_SCHEMA
client = instructor.from_openai(OpenAI(max_retries=0), mode=mode)
asked = {"model": "tiny", "response_model": Result, "messages": MESSAGES, "max_retries": 0}
if feature == "streaming":
    *_, last = client.chat.completions.create_partial(**asked)
    print(last.answer)
else:
    print(client.chat.completions.create(**asked).answer)
