"""A benchmark of three small tasks in the format of TheAgentCompany, made by the tests."""

import json
from pathlib import Path

EVAL = """
import argparse, importlib.util, json, os, sys
from scoring import Result
words = argparse.ArgumentParser()
words.add_argument("--trajectory_path")
words.add_argument("--result_path")
given = words.parse_args()
key = int(os.environ["DECRYPTION_KEY"])
hidden = open("/utils/evaluator.py.enc", "rb").read()
with open("/utils/evaluator.py", "wb") as file:
    file.write(bytes(byte ^ key for byte in hidden))
spec = importlib.util.spec_from_file_location("evaluator", "/utils/evaluator.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
result = module.grade_checkpoints(open(given.trajectory_path).read())
assert isinstance(result, Result)
json.dump(result.to_dict(), open(given.result_path, "w"))
"""
ENCRYPT = """
key_bytes = b'7'
content = open("/utils/evaluator.py", "rb").read()
open("/utils/evaluator.py.enc", "wb").write(bytes(byte ^ int(key_bytes) for byte in content))
"""
SCORING = """
class Result:
    def __init__(self, checkpoints, final_is_all=False):
        self.checkpoints, self.final_is_all = checkpoints, final_is_all
    def to_dict(self):
        total = sum(all_ for all_, _ in self.checkpoints)
        result = sum(given for _, given in self.checkpoints)
        if self.final_is_all and self.checkpoints[-1][0] == self.checkpoints[-1][1]:
            result = total
        points = [{"total": all_, "result": given} for all_, given in self.checkpoints]
        return {"checkpoints": points, "final_score": {"total": total, "result": result}}
"""
COMMON = """
import json, urllib.request
ROOT = "http://the-agent-company.com:3000/api/v1/"
def call(route, data=None, login=None):
    head = {"Content-Type": "application/json", **(login or {})}
    body = None if data is None else json.dumps(data).encode()
    with urllib.request.urlopen(urllib.request.Request(ROOT + route, body, head)) as answer:
        return json.load(answer)
def login():
    given = call("login", {"user": "theagentcompany", "password": "theagentcompany"})["data"]
    return {"X-Auth-Token": given["authToken"], "X-User-Id": given["userId"]}
def messages(channel):
    own = login()
    room = call("channels.info?roomName=" + channel, login=own)["channel"]["_id"]
    return [one["msg"] for one in call("channels.history?roomId=" + room, login=own)["messages"]]
def evaluate_with_llm(content, predicate):
    import os
    url = os.environ["LITELLM_BASE_URL"] + "/chat/completions"
    told = [{"role": "user", "content": content}]
    asked = {"model": os.environ["LITELLM_MODEL"], "messages": told}
    head = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(asked).encode(), head)) as a:
        return "yes" in json.load(a)["choices"][0]["message"]["content"]
"""
GREET = """
from common import messages
from scoring import Result
def grade_checkpoints(trajectory=""):
    said = messages("general")
    golden = open("/utils/golden.txt").read().strip()
    try:
        kept = open("/workspace/kept.txt").read()
    except OSError:
        kept = ""
    return Result(
        [
            (1, int("channel/general" in trajectory)),
            (1, int("populated" in said and kept == "copied\\nmade\\n")),
            (2, 2 * int(golden in said)),
        ],
        final_is_all=True,
    )
"""
POPULATE = """
from common import call, login
call("chat.postMessage", {"channel": "#general", "text": "populated"}, login())
open("/workspace/order.txt", "a").write("populate_data\\n")
"""
ASK = """
from common import call, login, evaluate_with_llm
from scoring import Result
def grade_checkpoints(trajectory=""):
    talk = call("im.history?roomId=ann_lee", login=login())["messages"]
    said = " ".join(one["msg"] for one in talk)
    return Result([(1, int("4711" in said)), (1, int(bool(said) and evaluate_with_llm(said, "x")))])
"""
READ = """
from scoring import Result
def grade_checkpoints(trajectory=""):
    return Result([(1, int("budget" in trajectory))])
"""
BASE_DOCKERFILE = "FROM python:3.12\nRUN mkdir -p /utils\n"
ON_TOP = "FROM ghcr.io/theagentcompany/task-base-image:1.0.0\n"


def write_benchmark(root: Path) -> Path:
    """Write the benchmark into a folder, and return the folder."""
    people = [("Ann", "Lee", "CTO"), ("Bo", "Cruz", "Engineer")]
    defined = [
        {"first_name": f, "last_name": n, "occupation": job, "slack_channels": "#general"}
        for f, n, job in people
    ]
    logins = {f"{f} {n}": {"username": f"{f}_{n}".lower(), "password": "x"} for f, n, _ in people}
    base = {
        "Dockerfile": BASE_DOCKERFILE,
        "common.py": COMMON,
        "encrypt.py": ENCRYPT,
        "eval.py": EVAL,
        "scoring.py": SCORING,
        "npc/npc_credential.json": json.dumps(logins),
    }
    greet = {
        "task.md": "Say the word of the day in #general at http://the-agent-company.com:3000/home",
        "dependencies.yml": "- rocketchat",
        "Dockerfile": ON_TOP
        + "COPY golden.txt /utils\nCOPY kept.txt /workspace\n"
        + "RUN echo made >> kept.txt\n",
        "evaluator.py": GREET,
        "golden.txt": "good morning",
        "kept.txt": "copied\n",
        "populate_data.py": POPULATE,
        "pre_init.sh": "echo pre_init >> /workspace/order.txt",
        "post_init.py": "open('/workspace/order.txt', 'a').write('post_init\\n')",
    }
    scenario = {
        "Ann Lee": {
            "extra_info": "Someone will ask you for your locker number.",
            "strategy_hint": "Tell them your locker number is 4711.",
        }
    }
    ask = {
        "task.md": "Ask Ann Lee for her locker number at http://the-agent-company.com:3000/home",
        "dependencies.yml": "- rocketchat",
        "Dockerfile": ON_TOP + "COPY scenarios.json /npc\n",
        "evaluator.py": ASK,
        "scenarios.json": json.dumps(scenario),
    }
    read = {
        "task.md": "Read budget.pdf at http://the-agent-company.com:8092 and say the sum.",
        "dependencies.yml": "- owncloud",
        "Dockerfile": ON_TOP,
        "evaluator.py": READ,
    }
    _write(root / "servers/rocketchat/npc", {"npc_definition.json": json.dumps(defined)})
    _write(root / "workspaces/base_image", base)
    for name, files in (("admin-ask", ask), ("finance-read", read), ("pm-greet", greet)):
        _write(root / "workspaces/tasks" / name, files)
    return root


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
