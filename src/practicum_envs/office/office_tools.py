"""Tools of the office besides bash: files, requests, pages, chat, and typed ones for each service.

Every call becomes a script that runs in the agent's machine, with its logins: a tool reaches no
more than the shell does, and its output is cut and counted like any other.

    >>> script_of("gitlab_create_issue", {"project": "root/shop", "title": "Typo"})
    'office gitlab POST projects/root%2Fshop/issues title=Typo'
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from practicum.core.task import JSON
from practicum.core.trace import ToolSpec

ToolSet = Literal[
    "bash", "edit", "http", "browse", "chat", "rocketchat", "gitlab", "plane", "owncloud"
]
Arguments = Mapping[str, Any]

EDITOR = """import os, sys
command, path, old, new = sys.argv[1:]
if command == "create":
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    open(path, "w").write(new)
    sys.exit(print(f"wrote {len(new)} characters to {path}"))
text = open(path).read()
if command == "view":
    first, _, last = old.partition("-")
    lines = list(enumerate(text.splitlines(), 1))[int(first or 1) - 1 : int(last) if last else None]
    sys.exit(print("\\n".join(f"{number:6} {line}" for number, line in lines)))
if command == "insert":
    lines = text.splitlines(True)
    lines[int(old) : int(old)] = [new if new.endswith("\\n") else new + "\\n"]
    open(path, "w").write("".join(lines))
    sys.exit(print(f"inserted after line {old} of {path}"))
if text.count(old) != 1 or not old:
    sys.exit(f"the text to replace is in {path} {text.count(old)} times; it must be there once")
open(path, "w").write(text.replace(old, new))
print(f"replaced once in {path}")
"""
SAYS = {
    "path": "A path, such as Documents/plan.txt.",
    "to": "A path, such as Documents/plan.txt.",
    "project": "Path of a project, such as root/shop.",
    "board": "Id of a Plane project.",
    "issue": "Its number (GitLab) or id (Plane).",
    "number": "Its number (iid).",
    "channel": "#channel, or @username for a direct message.",
    "name": "Its name.",
    "username": "A username, such as ann_lee.",
    "members": "Usernames.",
    "labels": "Labels, with commas between them.",
    "branch": "A branch, such as main.",
    "file": "Path of a file in the repository.",
}
"""What arguments mean, where their names alone do not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeTool:
    """A tool: what it is called with, and the script that a call becomes."""

    spec: ToolSpec
    script: Callable[[Arguments], str]


def _spec(name: str, says: str, fields: Sequence[str]) -> ToolSpec:
    """A tool's schema from the names of its fields: `title`, `labels?` (optional), `members[]`."""
    properties: dict[str, JSON] = {}
    for field in fields:
        plain = field.rstrip("?").removesuffix("[]")
        kind: dict[str, JSON] = {"type": "string"}
        if field.rstrip("?").endswith("[]"):
            kind = {"type": "array", "items": {"type": "string"}}
        properties[plain] = {**kind, **({"description": SAYS[plain]} if plain in SAYS else {})}
    required: list[JSON] = [one.removesuffix("[]") for one in fields if not one.endswith("?")]
    schema: dict[str, JSON] = {"type": "object", "properties": properties, "required": required}
    return ToolSpec(name=name, description=says, parameters=schema)


def _words(*words: object) -> str:
    return shlex.join(str(word) for word in words)


def _request(name: str, says: str, request: str) -> OfficeTool:
    """A tool for one route: `gitlab POST projects/{project}/issues title labels?`.

    What is in braces goes into the route, `key=value` is sent as it is, `/0/id` shows a part of the
    answer, and the other words are fields.
    """
    service, method, route, *rest = request.split()
    inside = re.findall(r"{(\w+)}", route)
    fields = [word for word in rest if "=" not in word and not word.startswith("/")]
    fixed = [word for word in rest if word not in fields]

    def script(given: Arguments) -> str:
        places = {key: quote(str(given[key]), safe="", errors="replace") for key in inside}
        sent = []
        for field in fields:
            key = field.rstrip("?").removesuffix("[]")
            if key in given:
                value = given[key]
                as_json = isinstance(value, list)
                text = json.dumps(value, ensure_ascii=False) if as_json else str(value)
                sent.append(f"{key}{':' if as_json else ''}={text}")
        return _words("office", service, method, route.format(**places), *fixed, *sent)

    return OfficeTool(spec=_spec(name, says, [*inside, *fields]), script=script)


def _tool(name: str, says: str, fields: str, script: Callable[[Arguments], str]) -> OfficeTool:
    return OfficeTool(spec=_spec(name, says, fields.split()), script=script)


def _edit(given: Arguments) -> str:
    old = given.get("old") or given.get("lines") or ""
    return _words(
        "python3", "-c", EDITOR, given["command"], given["path"], old, given.get("new", "")
    )


def _http(given: Arguments) -> str:
    headers = [word for one in given.get("headers", ()) for word in ("-H", one)]
    body = ["--data-binary", given["body"]] if "body" in given else []
    return _words("curl", "-sS", "-i", "-X", given["method"], *headers, *body, given["url"])


def _read_chat(given: Arguments) -> str:
    """The newest messages of a channel or of a talk, oldest first."""
    channel = str(given["channel"])
    show = (
        "import json, sys; said = json.load(sys.stdin)['messages']; "
        "print('\\n'.join(one['u']['username'] + ': ' + one['msg'] for one in reversed(said)))"
    )
    asked = (
        ("im.history", f"roomId={channel[1:]}")
        if channel.startswith("@")
        else ("channels.history", f"roomName={channel.removeprefix('#')}")
    )
    read = _words("office", "rocketchat", "GET", *asked)
    return f"set -o pipefail; {read} | {_words('python3', '-c', show)}"


def _share(given: Arguments) -> str:
    fields = {
        "path": "/" + str(given["path"]).lstrip("/"),
        "shareType": "0",
        "shareWith": given["username"],
        "permissions": given.get("permissions", "1"),
    }
    sent = [
        word for key, value in fields.items() for word in ("--data-urlencode", f"{key}={value}")
    ]
    url = (
        "http://the-agent-company.com:8092/ocs/v1.php/apps/files_sharing/api/v1/shares?format=json"
    )
    return _words("curl", "-sS", "-u", "theagentcompany:theagentcompany", *sent, url)


def _write_cloud(given: Arguments) -> str:
    text = _words("printf", "%s", given["text"])
    return (
        f"{text} > /tmp/upload && {_words('office', 'files', 'put', '/tmp/upload', given['path'])}"
    )


def _files(action: str, *keys: str) -> Callable[[Arguments], str]:
    return lambda given: _words("office", "files", action, *(given[key] for key in keys))


_CHAT = (
    _request(
        "send_message",
        "Say something in a channel or to a person.",
        "rocketchat POST chat.postMessage channel text",
    ),
    _tool("read_messages", "Read what was said there.", "channel", _read_chat),
)
TOOLS_OF: dict[ToolSet, tuple[OfficeTool, ...]] = {
    "edit": (
        _tool(
            "edit",
            "Work on a file of your machine. command is view (lines such as 1-40), create (with "
            "new), replace (old, which must be there once, by new) or insert (new after the line "
            "lines).",
            "command path old? new? lines?",
            _edit,
        ),
    ),
    "http": (
        _tool(
            "http",
            "Send an HTTP request and see the answer with its head; headers such as 'Accept: */*'.",
            "method url headers[]? body?",
            _http,
        ),
    ),
    "browse": (
        _tool(
            "browse",
            "Read a page of a service as text, with links in brackets.",
            "url",
            lambda given: _words("office", "page", given["url"]),
        ),
    ),
    "chat": _CHAT,
    "rocketchat": (
        *_CHAT,
        _request("list_channels", "Every channel.", "rocketchat GET channels.list count=0"),
        _request(
            "list_people", "Every account, with its bio.", "rocketchat GET users.list count=0"
        ),
        _request(
            "create_channel", "Make a channel.", "rocketchat POST channels.create name members[]?"
        ),
        _request(
            "channel_members",
            "Who is in a channel.",
            "rocketchat GET channels.members?roomName={name}&count=0",
        ),
        _request(
            "set_topic",
            "Set a channel's topic.",
            "rocketchat POST channels.setTopic roomName topic",
        ),
        _request(
            "invite",
            "Add someone to a channel.",
            "rocketchat POST channels.invite roomName username",
        ),
    ),
    "gitlab": (
        _request("gitlab_projects", "Every project.", "gitlab GET projects per_page=100"),
        _request(
            "gitlab_issues",
            "The issues of a project.",
            "gitlab GET projects/{project}/issues per_page=100 search? state?",
        ),
        _request(
            "gitlab_create_issue",
            "Open an issue.",
            "gitlab POST projects/{project}/issues title description? labels?",
        ),
        _request(
            "gitlab_update_issue",
            "Change an issue; state_event is close or reopen.",
            "gitlab PUT projects/{project}/issues/{number} title? description? labels? "
            "state_event?",
        ),
        _request(
            "gitlab_comment",
            "Comment on an issue.",
            "gitlab POST projects/{project}/issues/{number}/notes body",
        ),
        _request(
            "gitlab_files",
            "The files of a repository.",
            "gitlab GET projects/{project}/repository/tree recursive=true per_page=100 path?",
        ),
        _request(
            "gitlab_create_file",
            "Commit a new file.",
            "gitlab POST projects/{project}/repository/files/{file} branch content commit_message",
        ),
        _request(
            "gitlab_update_file",
            "Commit a changed file.",
            "gitlab PUT projects/{project}/repository/files/{file} branch content commit_message",
        ),
        _request(
            "gitlab_merge_requests",
            "The merge requests of a project.",
            "gitlab GET projects/{project}/merge_requests state?",
        ),
        _request(
            "gitlab_create_merge_request",
            "Open a merge request.",
            "gitlab POST projects/{project}/merge_requests source_branch target_branch title",
        ),
        _request(
            "gitlab_merge",
            "Merge a merge request.",
            "gitlab PUT projects/{project}/merge_requests/{number}/merge",
        ),
        _request(
            "gitlab_create_wiki_page",
            "Make a page in the wiki.",
            "gitlab POST projects/{project}/wikis title content",
        ),
        _request(
            "gitlab_create_release",
            "Make a release.",
            "gitlab POST projects/{project}/releases tag_name name? ref? description?",
        ),
    ),
    "plane": (
        _request("plane_projects", "Every project.", "plane GET projects/"),
        _request("plane_issues", "The issues of a project.", "plane GET projects/{board}/issues/"),
        _request("plane_states", "The states of a project.", "plane GET projects/{board}/states/"),
        _request("plane_cycles", "The cycles of a project.", "plane GET projects/{board}/cycles/"),
        _request("plane_members", "Every member.", "plane GET members/"),
        _request(
            "plane_create_issue",
            "Make an issue.",
            "plane POST projects/{board}/issues/ name state? priority? assignees[]? target_date?",
        ),
        _request(
            "plane_update_issue",
            "Change an issue; state is the id of a state.",
            "plane PATCH projects/{board}/issues/{issue}/ name? state? priority? assignees[]? "
            "target_date?",
        ),
        _request(
            "plane_add_to_cycle",
            "Put issues into a cycle.",
            "plane POST projects/{board}/cycles/{cycle}/cycle-issues/ issues[]",
        ),
    ),
    "owncloud": (
        _tool("cloud_list", "What a folder has.", "path", _files("list", "path")),
        _tool(
            "cloud_download",
            "Download a file into the workspace, or to a path there.",
            "path to?",
            lambda given: _words(
                "office", "files", "get", *(given[k] for k in ("path", "to") if k in given)
            ),
        ),
        _tool(
            "cloud_upload", "Upload a file of your machine.", "path to", _files("put", "path", "to")
        ),
        _tool("cloud_write", "Write a text file.", "path text", _write_cloud),
        _tool("cloud_mkdir", "Make a folder.", "path", _files("mkdir", "path")),
        _tool("cloud_move", "Move a file or folder.", "path to", _files("move", "path", "to")),
        _tool("cloud_delete", "Delete a file or folder.", "path", _files("delete", "path")),
        _tool(
            "cloud_share",
            "Share a file with someone; permissions 1 is to read.",
            "path username permissions?",
            _share,
        ),
    ),
}
"""Tools by the word that asks for them; bash, finish and answer are the shell's."""
BY_NAME = {tool.spec.name: tool for tools in TOOLS_OF.values() for tool in tools}


def specs_of(sets: Sequence[ToolSet]) -> list[ToolSpec]:
    """The tools that some words ask for, each once; bash is among the shell's own."""
    asked = [tool.spec for one in sets for tool in TOOLS_OF.get(one, ())]
    return list({spec.name: spec for spec in asked}.values())


def script_of(name: str, arguments: Arguments) -> str:
    """The script that a call becomes; `ValueError` where there is no such tool."""
    tool = BY_NAME.get(name)
    if tool is None:
        raise ValueError(f"there is no tool {name!r}")
    return tool.script(arguments)
