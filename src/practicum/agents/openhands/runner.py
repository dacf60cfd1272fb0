"""Runs conversations of the OpenHands SDK: a script, started by `openhands_agent`.

It runs in the Python of the SDK's virtual environment, where Practicum is not installed, so it
imports nothing of Practicum. Loading the SDK takes ten seconds, so it is loaded once, and each
conversation runs in a forked child. The child gets its job through a socket, as one JSON object per
line, and sends the agent's commands back through it: no command is run here.
"""

import ctypes
import json
import os
import select
import signal
import socket
import sys
import traceback
import types
from contextlib import suppress
from importlib import import_module
from typing import Any

LOADED = (
    "openhands.sdk",
    "openhands.sdk.conversation.response_utils",
    "openhands.sdk.tool.builtins.finish",
    "openhands.tools.terminal",
)
PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.1
"""Seconds until a child that died is noticed."""
ORDER_BYTES = 8
"""An order is a conversation's number: with two file descriptors to start it, without to end it."""

Children = dict[int, tuple[int, int]]
"""Process id and socket of each conversation, by its number.

The parent keeps the child's socket open until all processes of the child are dead: the other side
waits for it to close.
"""


def main() -> None:
    """Starts and ends conversations as ordered, until the other side closes the socket."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    adopt_orphans()
    for name in LOADED:
        import_module(name)
    children: Children = {}
    while True:
        if select.select([orders], [], [], POLL_S)[0]:
            order, descriptors, _, _ = socket.recv_fds(orders, ORDER_BYTES, 2)
            number = int.from_bytes(order, "big")
            if not order:
                break
            if descriptors:
                begin(number, descriptors, orders, children)
            elif number in children:
                end(children.pop(number))
        for number, (pid, _) in list(children.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                end(children.pop(number))
    for child in children.values():
        end(child)


def adopt_orphans() -> None:
    """Becomes the parent of processes that a dead child leaves, so that they can be waited for."""
    with suppress(AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def begin(number: int, descriptors: list[int], orders: socket.socket, children: Children) -> None:
    """Forks a child that runs one conversation."""
    line, log = descriptors
    pid = os.fork()
    if pid:
        os.close(log)
        children[number] = (pid, line)
        return
    try:
        os.setsid()
        orders.close()
        for _, other in children.values():
            os.close(other)
        os.dup2(log, 1)
        os.dup2(log, 2)
        run_conversation(Link(line))
    except BaseException:  # noqa: BLE001 - the child must not return into the parent's loop
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def end(child: tuple[int, int]) -> None:
    """Kills a child and its process group, and waits for them all."""
    pid, line = child
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-pid, 0)
    os.close(line)


class Link:
    """The channel to the process that has the sandbox."""

    def __init__(self, descriptor: int) -> None:
        self._lines = socket.socket(fileno=descriptor).makefile("rw", encoding="utf-8")

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message."""
        self._lines.write(json.dumps(message) + "\n")
        self._lines.flush()

    def receive(self) -> dict[str, Any]:
        """Waits for a message."""
        line = self._lines.readline()
        if not line:
            raise SystemExit("the other side has gone away")
        return dict(json.loads(line))


def run_conversation(link: Link) -> None:
    """Runs one conversation and sends how it ended."""
    job = link.receive()
    os.chdir(job["folder"])
    os.environ.update(HOME=job["folder"], TMPDIR=job["folder"])
    conversation = open_conversation(job, link)
    error = ""
    try:
        show_example(conversation, job["example"])
        conversation.send_message(job["task"])
        conversation.run()
    except Exception as failed:  # noqa: BLE001 - the other side gets it
        cause = failed.__cause__ or failed
        error = f"{type(cause).__name__}: {cause}"
    ended = ending(conversation, error)
    conversation.close()
    link.send(ended)


def open_conversation(job: dict[str, Any], link: Link) -> Any:
    """A conversation with the SDK's own agent, whose commands run in the sandbox."""
    sdk = import_module("openhands.sdk")
    # Temperature and token limit are left to the server, which has the run's.
    llm = sdk.LLM(
        model=f"openai/{job['model']}",
        base_url=job["base_url"],
        api_key=job["api_key"],
        usage_id="agent",
        api_mode="chat",
        num_retries=0,
        timeout=job["timeout_s"],
        native_tool_calling=True,
        caching_prompt=False,
        reasoning_effort=None,
        disable_vision=True,
    )
    tool_names = register_tools(link, short=job["prompt"] == "short")
    agent = sdk.Agent(
        llm=llm,
        tools=[sdk.Tool(name=name) for name in tool_names],
        include_default_tools=[] if "finish" in tool_names else ["FinishTool", "ThinkTool"],
        system_prompt=job["system_prompt"],
    )
    return sdk.Conversation(
        agent=agent,
        workspace=job["workspace"],
        persistence_dir=job["persistence"],
        max_iteration_per_run=job["max_turns"],
        visualizer=None,
        delete_on_close=False,
    )


def register_tools(link: Link, *, short: bool) -> list[str]:
    """Registers the tools with the SDK and returns their names."""
    terminal = import_module("openhands.tools.terminal")
    tools = import_module("openhands.sdk.tool")
    executor = forwarding_executor(link, tools.ToolExecutor, terminal.TerminalObservation)
    if not short:
        described = import_module("openhands.tools.terminal.descriptions")
        whole = terminal.TerminalTool(
            action_type=terminal.TerminalAction,
            observation_type=terminal.TerminalObservation,
            description=described.UNIX_TOOL_DESCRIPTION,
            annotations=tools.ToolAnnotations(title="terminal"),
            executor=executor,
        )
        tools.register_tool("terminal", whole)
        return ["terminal"]
    finish = import_module("openhands.sdk.tool.builtins.finish")
    pydantic = import_module("pydantic")
    command_action = pydantic.create_model(
        "SandboxCommandAction",
        __base__=tools.Action,
        command=(str, pydantic.Field(description="The command.")),
    )
    brief_terminal = without_extras(terminal.TerminalTool, "terminal")(
        action_type=command_action,
        observation_type=terminal.TerminalObservation,
        description="Run a command in bash and see what it prints.",
        executor=executor,
    )
    brief_finish = without_extras(finish.FinishTool, "finish")(
        action_type=finish.FinishAction,
        observation_type=finish.FinishObservation,
        description="Say that the task is done.",
        executor=finish.FinishExecutor(),
    )
    tools.register_tool("terminal", brief_terminal)
    tools.register_tool("finish", brief_finish)
    return ["terminal", "finish"]


def without_extras(tool_class: Any, name: str) -> Any:
    """The tool class without the arguments that the SDK adds to every tool.

    These are a summary and a risk estimate, which the SDK does not need when it parses a call.
    """

    def to_openai_tool(self: Any, *_: Any, **__: Any) -> dict[str, Any]:
        shown = {
            "name": self.name,
            "description": self.description,
            "parameters": self.action_type.to_mcp_schema(),
        }
        return {"type": "function", "function": shown}

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(name=name, to_openai_tool=to_openai_tool, __module__=__name__)

    # The SDK rejects classes that are local to a function, and a module-level class would need the
    # SDK when this file is imported elsewhere.
    return types.new_class(f"Brief{tool_class.__name__}", (tool_class,), {}, fill)


def forwarding_executor(link: Link, base: Any, observation: Any) -> Any:
    """A tool executor that sends commands through the channel."""

    def call(self: Any, action: Any, conversation: Any = None) -> Any:
        if getattr(action, "is_input", False) or getattr(action, "reset", False):
            text = (
                "Nothing can be typed into a running command here, and there is no terminal to "
                "reset: each command runs in a shell of its own."
            )
            return observation.from_text(text=text, command=action.command, is_error=True)
        link.send({"command": action.command})
        answer = link.receive()
        if answer["over"] and conversation is not None:
            conversation.pause()
        return observation.from_text(
            text=answer["text"], command=action.command, is_error=answer["is_error"]
        )

    def fill(namespace: dict[str, Any]) -> None:
        namespace["__call__"] = call

    return types.new_class("ForwardingExecutor", (base,), {}, fill)()


def show_example(conversation: Any, steps: list[dict[str, str]]) -> None:
    """Adds a solved example task to the conversation, as if the agent had done it."""
    if not steps:
        return
    events = import_module("openhands.sdk.event")
    llm = import_module("openhands.sdk.llm")
    conversation.send_message(steps[0]["text"])
    for number, step in enumerate(steps[1:]):
        name, argument = (
            ("finish", "message") if step["do"] == "finish" else ("terminal", "command")
        )
        tool = conversation.agent.tools_map[name]
        given, call_id = {argument: step["with"]}, f"example_{number}"
        action = events.ActionEvent(
            thought=[],
            action=tool.action_from_arguments(given),
            tool_name=name,
            tool_call_id=call_id,
            tool_call=llm.MessageToolCall(
                id=call_id, name=name, arguments=json.dumps(given), origin="completion"
            ),
            llm_response_id=call_id,
        )
        extra = {"command": step["with"]} if name == "terminal" else {}
        observation = events.ObservationEvent(
            observation=tool.observation_type.from_text(text=step["text"], **extra),
            action_id=action.id,
            tool_name=name,
            tool_call_id=call_id,
        )
        with conversation.state:
            conversation.state.append_event(action)
            conversation.state.append_event(observation)


def ending(conversation: Any, error: str) -> dict[str, Any]:
    """The conversation's end, as the message for the other side."""
    replies = import_module("openhands.sdk.conversation.response_utils")
    events = list(conversation.state.events)
    kinds = [type(one).__name__ for one in events if getattr(one, "source", "") == "agent"]
    failures = [one for one in events if type(one).__name__ == "ConversationErrorEvent"]
    return {
        "ended": str(conversation.state.execution_status.value),
        "spoke": bool(kinds) and kinds[-1] == "MessageEvent",
        "final": replies.get_agent_final_response(events),
        "code": str(failures[-1].code) if failures else "",
        "error": error or (str(failures[-1].detail) if failures else ""),
    }


if __name__ == "__main__":
    main()
