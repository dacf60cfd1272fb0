"""outlines over the openai library, as with OpenAI or vLLM: a stream, a typed result, errors."""

import json
import sys

import openai
import outlines
from pydantic import BaseModel


class Result(BaseModel):
    """The sum."""

    answer: int


feature, server = sys.argv[1:]
connect = outlines.from_vllm if server == "vllm" else outlines.from_openai
model = connect(openai.OpenAI(max_retries=0), "tiny")
if feature == "streaming":
    print("".join(model.stream("What is 17 + 25?")))
elif feature == "typed":
    print(json.loads(model("What is 17 + 25?", Result))["answer"])
else:
    print(model("What is 17 + 25?"))
