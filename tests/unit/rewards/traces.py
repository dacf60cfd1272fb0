"""Episodes written by hand: what was said, turn by turn."""

from collections.abc import Sequence
from typing import Any

from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, Node, SampledSpan, StopReason, Trace

Turn = str | tuple[str, Message]
"""What the policy wrote, or that and what it was answered."""


def make_task(**data: Any) -> Task:
    return Task(id="t", env="e", split="train", instruction="Do it.", data=data)


def tool(content: str = "ok", *, failed: bool = False) -> Message:
    return Message(role="tool", content=content, is_error=failed)


def make_trace(*turns: Turn, name: str = "one", tokens: Sequence[int] | None = None) -> Trace:
    """A prompt and these turns; `tokens` are how many each turn has, else its words count."""
    nodes = [Node(parent=None, messages=(Message(role="user", content="Do it."),), token_ids=(1,))]
    for number, turn in enumerate(turns):
        text, answer = turn if isinstance(turn, tuple) else (turn, None)
        length = tokens[number] if tokens is not None else len(text.split())
        span = SampledSpan(logprobs=(-0.5,) * length, loss_mask=(True,) * length)
        said = (Message(role="assistant", content=text),)
        ids = tuple(range(10, 10 + length))
        nodes.append(Node(parent=len(nodes) - 1, messages=said, token_ids=ids, sampled=span))
        if answer is not None:
            nodes.append(Node(parent=len(nodes) - 1, messages=(answer,), token_ids=(2,)))
    return Trace(id=name, task_id="t", env="e", nodes=tuple(nodes))


def make_group(
    scores: Sequence[Score], traces: Sequence[Trace] | None = None, masked: Sequence[int] = ()
) -> Group:
    """A group of episodes with these scores."""
    made = traces or [make_trace(f"answer {i}", name=f"e{i}") for i in range(len(scores))]
    episodes = []
    for number, (trace, score) in enumerate(zip(made, scores, strict=True)):
        stop = StopReason.ENVIRONMENT_FAILED if number in masked else trace.stop
        known = Trace(id=trace.id, task_id="t", env="e", nodes=trace.nodes, stop=stop)
        outcome = None if number in masked else Outcome(success=True)
        episodes.append(Episode(trace=known, outcome=outcome, score=score))
    return Group(task=make_task(), episodes=tuple(episodes))


def fenced(code: str, language: str = "python") -> str:
    return f"Here it is:\n```{language}\n{code}\n```\n"
