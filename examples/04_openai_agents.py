"""An agent of openai-agents, as its users write one, learns its job.

The agent works at a shop's desk: it has three tools, and a customer wants one of them for an order.
Nothing in it knows of training. `rollout` runs it on one task with the model that is trained behind
it, and pays for what the tools were really called with, whatever the model said.

    pip install 'practicum[train,gateway]' openai-agents
    python examples/04_openai_agents.py

Words after it change the run, as with `practicum train`: steps=20 name=desk hardware.threads=4
"""

import logging
import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agents import (
    Agent,
    AgentsException,
    ModelSettings,
    OpenAIProvider,
    RunConfig,
    RunContextWrapper,
    Runner,
    function_tool,
)

import practicum as pr

# --- The agent ----------------------------------------------------------------------------------


@dataclass
class Desk:
    """The shop behind the tools: what they were called with."""

    calls: list[tuple[str, int]] = field(default_factory=list)


@function_tool
def track(desk: RunContextWrapper[Desk], order: int) -> str:
    """Say where an order is."""
    desk.context.calls.append(("track", order))
    return f"Order {order} is on its way."


@function_tool
def cancel(desk: RunContextWrapper[Desk], order: int) -> str:
    """Cancel an order."""
    desk.context.calls.append(("cancel", order))
    return f"Order {order} is cancelled."


@function_tool
def refund(desk: RunContextWrapper[Desk], order: int) -> str:
    """Pay the money for an order back."""
    desk.context.calls.append(("refund", order))
    return f"The money for order {order} is paid back."


AGENT = Agent[Desk](
    name="desk",
    instructions="You work in a shop. Call the tool that does what the customer wants.",
    model="policy",
    model_settings=ModelSettings(tool_choice="required", parallel_tool_calls=False),
    tools=[track, cancel, refund],
    tool_use_behavior="stop_on_first_tool",
)

logging.getLogger("openai.agents").setLevel(logging.CRITICAL)  # it tells of turns that are cut off

# --- Its training -------------------------------------------------------------------------------

WISHES = {
    "track": ("Where is order {}?", "Has order {} left yet?", "I am waiting for order {}."),
    "cancel": ("Please stop order {}.", "I no longer want order {}.", "Do not send order {}."),
    "refund": ("Order {} broke.", "I want my money for {} back.", "What came as {} is not mine."),
}


def rows() -> Iterator[dict[str, Any]]:
    """The tasks. Orders of held-out ones never come up in training."""
    orders = random.Random(0).sample(range(100, 1000), 100)
    for order in orders:
        for tool, wishes in WISHES.items():
            for number, wish in enumerate(wishes):
                yield {
                    "id": f"{tool}-{number}-{order}",
                    "prompt": wish.format(order),
                    "split": "heldout" if order in orders[:20] else "train",
                    "tool": tool,
                    "order": order,
                }


async def rollout(task: pr.Task, client: Any) -> dict[str, float]:
    """One episode: the agent as it is, with the model of this episode behind it."""
    desk = Desk()
    settings = RunConfig(model_provider=OpenAIProvider(openai_client=client), tracing_disabled=True)
    with suppress(AgentsException):  # where it called no tool, or was cut off: the desk shows it
        await Runner.run(AGENT, task.instruction, context=desk, max_turns=1, run_config=settings)
    wanted = (task.data["tool"], task.data["order"])
    return {
        "called": 0.2 * bool(desk.calls),
        "right_tool": 0.3 * ([tool for tool, _ in desk.calls] == [wanted[0]]),
        "right_call": 0.5 * (desk.calls == [wanted]),
    }


def main() -> None:
    settings = {
        "agent": {"name": "function", "path": f"{__file__}:rollout"},
        "model": "smollm2-135m",
        "steps": 24,
        "rollouts": {"tasks_per_step": 4, "group_size": 8, "max_tokens": 40},
        "algorithm": {"lr": 1.5e-4},
        "eval": {"n": 90},
    }
    words = dict(word.split("=", 1) for word in sys.argv[1:])
    run = pr.train({"name": "tasks", "data": f"{__file__}:rows"}, **{**settings, **words})
    print(run)


if __name__ == "__main__":
    main()
