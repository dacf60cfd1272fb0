"""Examples and episodes to build training sets from."""

from practicum.core.sample import Episode, Example
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome
from practicum.core.trace import Message, Node, SampledSpan, StopReason, ToolSpec, Trace


def make_example(
    name: str,
    *,
    task: str = "t",
    asked: str = "What is 2 + 2?",
    said: str = "4",
    label: bool | None = None,
    reward: float | None = None,
    tools: tuple[ToolSpec, ...] = (),
) -> Example:
    return Example(
        id=name,
        task_id=task,
        env="quiz",
        messages=(
            Message(role="system", content="Answer."),
            Message(role="user", content=asked),
            Message(role="assistant", content=said),
        ),
        tools=tools,
        given=2,
        label=label,
        reward=reward,
    )


def make_episode(
    name: str,
    *said: str,
    task: str = "t",
    score: float | None = 1.0,
    success: bool | None = None,
    source: str = "agent-log",
    stop: StopReason = StopReason.FINISHED,
    evidence: dict[str, JSON] | None = None,
) -> Episode:
    """A conversation recorded as text: a question, and an answer to each of the turns."""
    nodes: list[Node] = []
    for number, text in enumerate(said):
        asked = Message(role="user", content=f"question {number} of {task}")
        given = Node(parent=len(nodes) - 1 if nodes else None, messages=(asked,), token_ids=())
        answer = Node(
            parent=len(nodes),
            messages=(Message(role="assistant", content=text),),
            token_ids=(),
            sampled=SampledSpan(logprobs=(), loss_mask=()),
        )
        nodes += [given, answer]
    trace = Trace(id=name, task_id=task, env="quiz", nodes=tuple(nodes), source=source, stop=stop)
    outcome = Outcome(success=success, evidence=evidence or {})
    return Episode(trace=trace, outcome=outcome, score=Score(components={"r": score}))
