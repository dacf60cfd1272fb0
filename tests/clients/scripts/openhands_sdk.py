"""The OpenHands SDK: its agent and conversation, a tool, and a short prompt."""

import json
import os
import sys
import tempfile
from collections.abc import Sequence

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.sdk.conversation.response_utils import get_agent_final_response
from openhands.sdk.tool import Action, Observation, ToolDefinition, ToolExecutor, register_tool

called: list[tuple[int, int]] = []


class AddAction(Action):
    """Two numbers."""

    a: int
    b: int


class AddObservation(Observation):
    """Their sum."""


class AddExecutor(ToolExecutor[AddAction, AddObservation]):
    """Adds."""

    def __call__(self, action: AddAction, conversation: object = None) -> AddObservation:
        """Add."""
        called.append((action.a, action.b))
        return AddObservation.from_text(text=str(action.a + action.b))


class AddTool(ToolDefinition[AddAction, AddObservation]):
    """Adds two numbers."""

    @classmethod
    def create(cls, conv_state: object = None, **params: object) -> Sequence["AddTool"]:
        """Make the tool."""
        return [
            cls(
                description="Add two numbers.",
                action_type=AddAction,
                observation_type=AddObservation,
                executor=AddExecutor(),
            )
        ]


register_tool("add", AddTool)
llm = LLM(
    model="openai/tiny",
    base_url=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    usage_id="agent",
    num_retries=0,
)
agent = Agent(llm=llm, tools=[Tool(name="add")], system_prompt="Use the tool.")
with tempfile.TemporaryDirectory() as folder:
    conversation = Conversation(
        agent=agent, workspace=folder, max_iteration_per_run=4, visualizer=None
    )
    conversation.send_message("What is 17 + 25?")
    try:
        conversation.run()
    except Exception as failed:  # noqa: BLE001 - the tiny model says nothing that can be used
        print(failed, file=sys.stderr)
    answer = get_agent_final_response(list(conversation.state.events))
    conversation.close()
print(json.dumps({"answer": answer, "called": called}))
