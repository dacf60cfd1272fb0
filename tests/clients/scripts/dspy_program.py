"""dspy: an agent with a tool, a program's stream, a typed result, and its errors."""

import asyncio
import os
import sys

import dspy


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


feature = sys.argv[1]
lm = dspy.LM("openai/tiny", api_base=os.environ["OPENAI_BASE_URL"], cache=False, num_retries=0)
dspy.configure(lm=lm)


async def stream() -> str:
    listener = dspy.streaming.StreamListener(signature_field_name="answer")
    program = dspy.streamify(dspy.Predict("question -> answer"), stream_listeners=[listener])
    pieces = []
    async for value in program(question="What is 17 + 25?"):
        if isinstance(value, dspy.streaming.StreamResponse):
            pieces.append(value.chunk)
    return "".join(pieces)


if feature == "streaming":
    print(asyncio.run(stream()))
elif feature == "typed":
    with dspy.context(adapter=dspy.JSONAdapter()):
        program = dspy.Predict("question -> answer: int")
        print(program(question="What is 17 + 25?").answer)
else:
    agent = dspy.ReAct("question -> answer", tools=[add], max_iters=3)
    print(agent(question="What is 17 + 25?").answer)
