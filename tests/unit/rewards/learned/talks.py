"""Traces of short talks with a shell, for tests of what is learned from them."""

import numpy as np

from practicum.core.trace import Message, Node, SampledSpan, StopReason, ToolCall, Trace
from practicum.rewards.learned.labeler import TracePool

PLAIN = SampledSpan(logprobs=(), loss_mask=())


def talk(
    name: str, *messages: Message, task: str = "", stop: StopReason = StopReason.FINISHED
) -> Trace:
    nodes = tuple(
        Node(
            parent=index - 1 if index else None,
            messages=(message,),
            token_ids=(),
            sampled=PLAIN if message.role == "assistant" else None,
        )
        for index, message in enumerate(messages)
    )
    return Trace(id=name, task_id=task or name, env="test", nodes=nodes, stop=stop)


def user(text: str) -> Message:
    return Message(role="user", content=text)


def said(text: str, *scripts: str) -> Message:
    calls = tuple(ToolCall(name="bash", arguments={"script": script}) for script in scripts)
    return Message(role="assistant", content=text, tool_calls=calls)


def answered(text: str, *, is_error: bool = False) -> Message:
    return Message(role="tool", content=text, is_error=is_error)


def good_talk(name: str, draw: np.random.Generator) -> Trace:
    """Acts, looks, and says that it is done."""
    path = f"/srv/{draw.choice(['a', 'b', 'c', 'd'])}{draw.integers(100)}"
    return talk(
        name,
        user(f"make {path}"),
        said("", f"touch {path}"),
        answered("ok"),
        said("Checking it.", f"ls {path}"),
        answered(path),
        said(f"The file {path} is there."),
    )


def bad_talk(name: str, draw: np.random.Generator) -> Trace:
    """Tries the same that fails, and gives up."""
    path = f"/srv/{draw.choice(['a', 'b', 'c', 'd'])}{draw.integers(100)}"
    tries = [
        message
        for _ in range(int(draw.integers(1, 4)))
        for message in (said("Again.", f"touch {path}"), answered("permission denied"))
    ]
    return talk(name, user(f"make {path}"), *tries, said("Sorry, I am unable to."))


def mixed_talks(n: int, seed: int) -> tuple[list[Trace], dict[str, float]]:
    """Talks, and by id whether each is good: 1 or 0, by turns."""
    draw = np.random.default_rng(seed)
    makers = (good_talk, bad_talk)
    traces = [makers[index % 2](f"t{index}", draw) for index in range(n)]
    return traces, {trace.id: float(index % 2 == 0) for index, trace in enumerate(traces)}


def mixed_pool(n: int, seed: int) -> tuple[TracePool, dict[str, float]]:
    traces, truth = mixed_talks(n, seed)
    return TracePool.read(traces), truth
