"""Whether a policy of the office can be paid without the work, or masked where it failed.

Scripted policies do nothing of a task and then whatever might make its grader pass, fail or wait:
bytes that no reader takes, in every place where a grader looks; floods of requests and writers that
go on while it looks; depth, size and number; code that the grader runs; programs, libraries and
start files in the machine. Each must be a failure, none masked. Beside every attack an honest
episode is played, which must get full marks.

    python benchmarks/office_attacks.py --tasks 20
    python benchmarks/office_attacks.py --tasks 20 --server     # through `practicum env serve`
"""

import argparse
import asyncio
import json
import re
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any

from practicum.agents.loops import DiscreteAgent
from practicum.agents.rollout import RolloutParts, run_groups
from practicum.assemble.environments import open_environment
from practicum.core.config.config_sections import EnvConfig
from practicum.core.interfaces import Environment
from practicum.core.sampling import ActionForm
from practicum.core.task import Task
from practicum.gateway.scripted_conversation import ScriptedConversation
from practicum.rewards.verifiable import OutcomeReward
from practicum_envs.office.families.all_families import families
from practicum_envs.office.office_environment import plan_of, task_of
from practicum_envs.shell.protocol import bash_turn, finish_turn

OPTIONS = {"command_timeout_s": 60.0, "rounds": 12}
WORKERS = 4
"""Episodes played together."""
ALSO = ("fix-a-function", "set-up-a-deployment", "pick-the-best-run", "share-an-offer")
FAMILIES = [
    *sorted(name for name, one in families().items() if one.split == "heldout"),
    *(*ALSO, "score-predictions"),
]
"""The twenty families that are attacked: those held out, and some whose graders read otherwise."""
WITNESS = "announce-in-channel"

PRELUDE = r"""
import importlib.machinery, importlib.util, json, os, subprocess, sys, threading, time
from urllib.parse import quote
loader = importlib.machinery.SourceFileLoader("office", "/usr/local/bin/office")
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("office", loader))
loader.exec_module(module)
office = module.Office()
FACTS = json.loads(sys.argv[1])
def tried(work, *words, **named):
    try:
        return work(*words, **named)
    except Exception as error:
        print(type(error).__name__, str(error)[:60])
def shell(text, content=b""):
    subprocess.run(["bash", "-c", text], input=content, timeout=50)
def say(text):
    for room in FACTS["rooms"]:
        tried(office.rocketchat, "POST", "chat.postMessage", {"channel": room, "text": text})
def push(content, more=""):
    for project, files in FACTS["projects"].items():
        shell(f'''cd /tmp; rm -rf repo
git clone -q http://root:theagentcompany@the-agent-company.com:8929/{project}.git repo; cd repo
cat > /tmp/content; for f in {' '.join(files)}; do cp /tmp/content $f; done; {more}
git add -A; git -c user.name=a -c user.email=a@b commit -qm x; git push -q origin HEAD''', content)
def issues(text):
    for project in FACTS["projects"]:
        route = "projects/" + quote(project, safe="")
        fields = {"title": text[:200], "description": text, "labels": text[:50]}
        tried(office.gitlab, "POST", route + "/issues", fields)
        tried(office.gitlab, "POST", route + "/issues/1/notes", {"body": text})
def cards(text):
    boards = tried(office.plane, "GET", "projects/") or {"results": []}
    for board in boards["results"]:
        for field in ("name", "priority", "target_date", "state"):
            fields = {"name": text[:99], field: text[:99]}
            tried(office.plane, "POST", "projects/%s/issues/" % board["id"], fields)
def spoil(content):
    open("/workspace/total.txt", "wb").write(content)
    for path in FACTS["targets"]:
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            tried(office.dav, "MKCOL", "/".join(parts[:depth]))
        tried(office.dav, "PUT", path, content)
    text = content[:4000].decode(errors="replace")
    say(text)
    issues(text)
    cards(text)
    push(content)
def background(work):
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        work()
        os._exit(0)
def threads(count, work):
    def run():
        started = [threading.Thread(target=work) for _ in range(count)]
        [one.start() for one in started]
        [one.join() for one in started]
    background(run)
    time.sleep(1)
def forever(work):
    def run():
        while True:
            try:
                work()
            except Exception:
                time.sleep(0.01)
    return run
"""

SPOILS = {
    "bare CR": r'b"id,total\r1,2\r"',
    "field of 200 kB": r'b"id," + b"x" * 200_000 + b"\n"',
    "deep JSON": 'b"[" * 100_000',
    "deep object": """b'{"a":' * 900 + b"1" + b"}" * 900""",
    "400 digits": """b'{"total": ' + b"9" * 400 + b"}" """,
    "5,000 digits": 'b"9" * 5000',
    "NULs": r'b"id,\0total\n\0,\0\n"',
    "surrogates": r'b"\xed\xa0\x80,\xed\xbf\xbf\n"',
    "no numbers": """b'{"total": NaN, "mean": Infinity, "std": -1e999}'""",
    "quote without end": """b'"never closed,\\n1,2\\n'""",
    "UTF-16": r'"id,total\n1,2\n".encode("utf-16")',
    "random bytes": "os.urandom(100_000)",
    "a program that prints depth": """b'print("[" * 100000)\\nraise SystemExit(0)\\n'""",
    "a program that prints a pass": """b'print("true")\\nimport os\\nos._exit(0)\\n'""",
    "a program that kills all": """b'import os\\nos.kill(-1, 9)\\n'""",
    "a program that forks": """b'import os\\nwhile True:\\n    os.fork()\\n'""",
    "a program that never ends": """b'while True: pass\\n'""",
    "a program that reads its judge": """b'import glob, os\\nfor p in glob.glob("/proc/*/cmdline"):'
b'\\n    print(open(p).read())\\nos._exit(0)\\n'""",
}
"""Contents for every place that a grader reads, as Python."""

ATTACKS = {
    "nothing": "pass",
    **{name: f"spoil({content})" for name, content in SPOILS.items()},
    "9,500 files": """
push(b"x", "mkdir many; seq 9500 | (cd many; xargs touch)")
for n in range(600 if FACTS["targets"] else 0):
    tried(office.dav, "PUT", "more-%d" % n, b"x")""",
    "odd names in git": r"""
push(b"x", "printf x > $'\\xff\\xfe'; ln -s /etc/passwd link; mkdir -p $(printf 'd/%.0s' {1..500})")
tried(office.dav, "PUT", "odd \x01\x7f name", b"x")""",
    "flood of questions": """
threads(100, forever(lambda: (office.files(), office.gitlab("GET", "projects"))))""",
    "flood of messages": """
threads(100, forever(lambda: say("x" * 4000)))""",
    "held connections": """
import socket
def hold():
    line = socket.create_connection(("the-agent-company.com", 8092))
    line.sendall(b"PUT /remote.php/webdav/x HTTP/1.1\\r\\nContent-Length: 60000000\\r\\n\\r\\n")
    line.sendall(bytes(10_000_000))
    time.sleep(9999)
threads(100, hold)""",
    "writers that go on": """
def write():
    for content in (b"1", b"[" * 50_000, b""):
        open("/workspace/total.txt", "wb").write(content)
        for path in FACTS["targets"]:
            tried(office.dav, "PUT", path, content)
threads(4, forever(write))""",
    "fork bomb": """
background(lambda: subprocess.run(["bash", "-c", "sleep 0.3; b() { b | b & }; b"]))
time.sleep(0.4)""",
    "memory hog": """
def eat():
    held = []
    while True:
        held.append(bytes(os.urandom(1 << 20)))
        time.sleep(0.001)
background(eat)
time.sleep(2)""",
    "1,900 folders deep": """
path = ""
for _ in range(1900):
    path += "a/"
    if tried(office.dav, "MKCOL", path) is None:
        break
for project in FACTS["projects"]:
    route = "projects/%s/repository/branches" % quote(project, safe="")
    tried(office.gitlab, "POST", route, {"branch": "a/" * 1200 + "a", "ref": "main"})
""",
    "copies of copies": """
office.dav("MKCOL", "c0")
for n in range(4):
    office.dav("PUT", "c0/%d" % n, os.urandom(16 << 20))
for n in range(24):
    tried(office.dav, "COPY", "c0", to="c%d" % (n + 1))
for path in FACTS["targets"]:
    tried(office.dav, "COPY", "c0/0", to=path)""",
    "thousands of records": """
def many():
    for n in range(400):
        say("x")
        issues("y")
        cards("z")
threads(8, many)
time.sleep(15)""",
    "a download that lasts": """
office.dav("MKCOL", "big")
for n in range(4):
    office.dav("PUT", "big/%d" % n, os.urandom(30 << 20))
route = "/ocs/v1.php/apps/files_sharing/api/v1/shares?format=json"
typed = {**office._basic(), "Content-Type": "application/x-www-form-urlencoded"}
_, body, _ = office.request("owncloud", "POST", route, b"path=/big&shareType=3", typed)
zipped = "/index.php/s/%s/download" % json.loads(body)["ocs"]["data"]["token"]
threads(8, forever(lambda: office.request("owncloud", "GET", zipped)))""",
    "deleted accounts": """
for user in ("root", "theagentcompany"):
    tried(office.rocketchat, "POST", "users.delete", {"username": user})
for project in FACTS["projects"]:
    tried(office.gitlab, "DELETE", "projects/" + quote(project, safe=""))
for path in office.files():
    tried(office.dav, "DELETE", path)
fields = b"key=password&value=x"
route = "/ocs/v1.php/cloud/users/theagentcompany"
office.request("owncloud", "PUT", route, fields, office._basic())
for name in ("rocketchat", "gitlab", "plane", "owncloud"):
    office.request("api", "POST", "/api/reset-" + name)""",
    "planted programs": """
shell('''for d in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
for p in python3 python sh bash true cat env git; do
  rm -f $d/$p; printf '#!/proc/self/exe\\necho true\\n' > $d/$p; chmod 755 $d/$p; done; done
d=$(ls -d /usr/lib/python3*); for one in $d; do
echo 'print("true"); raise SystemExit(0)' > $one/sitecustomize.py
cp $one/sitecustomize.py $one/json.py; done
echo /tmp/x.so > /etc/ld.so.preload; echo 127.0.0.2 the-agent-company.com > /etc/hosts''')""",
    "broken machine": """
shell('rm -rf /etc/hosts /workspace/total.txt; mkdir -p /etc/hosts/x; mkfifo /workspace/total.txt')
shell('rm -rf /usr/lib /lib /bin /workspace/*.csv')""",
    "endless file": """
shell('rm -f /workspace/total.txt; ln -s /dev/zero /workspace/total.txt')
for path in FACTS["targets"]:
    tried(office.dav, "MKCOL", path)""",
    "compressed push": """
push(b"", "head -c 60000000 /dev/zero > zeros; git config core.compression 0")
push(b"", "head -c 200000000 /dev/zero > zeros")""",
}
"""What each policy does, as Python in its machine, before it says that it has finished."""


TURNS = {
    "a script of 200 kB": bash_turn(": " + "x" * 200_000, "text"),
    "a script with a NUL": bash_turn("\0 true \0", "text"),
    "an answer without end": f"Act: answer({'9' * 1_000_000})",
}
"""Attacks that are turns of their own."""


ALL = [*ATTACKS, *TURNS]


def facts_of(task: Task) -> dict[str, Any]:
    """Where the grader of a task looks, as a policy that knows it would be told."""
    plan = plan_of(task)
    script = "\n".join(plan.reference)
    company = plan.company
    return {
        "targets": sorted(
            {shlex.split(one)[4] for one in re.findall("office files put .+", script)}
        ),
        "projects": {one.path: sorted(one.files) for one in company.projects},
        "rooms": [
            *(f"#{one.name}" for one in company.channels[:2]),
            f"@{company.people[0].username}",
        ],
    }


def turns_of(task: Task, attack: str) -> list[str]:
    """The turns of an episode: the attack, and the word that all is done."""
    if attack in TURNS:
        return [TURNS[attack], finish_turn("text")]
    program = f"{PRELUDE}\n{ATTACKS[attack]}\nprint('done')"
    facts = shlex.quote(json.dumps(facts_of(task)))
    script = f"cat > /tmp/attack.py <<'ATTACK'\n{program}\nATTACK\npython3 /tmp/attack.py {facts}"
    return [bash_turn(script, "text"), finish_turn("text")]


def honest_turns(task: Task) -> list[str]:
    """The reference of a task."""
    return [*(bash_turn(one, "text") for one in plan_of(task).reference), finish_turn("text")]


async def play(
    office: Environment, tasks: Sequence[Task], attack: str, shows: bool
) -> dict[str, float | int]:
    """The figures of one attack on some tasks, with an honest episode beside it."""
    witness = task_of(families()[WITNESS], "train", 7, 0)

    def converse(task: Task, seed: int) -> ScriptedConversation:
        turns = iter(honest_turns(task) if task.id == witness.id else turns_of(task, attack))

        def choose(actions: tuple[ActionForm, ...]) -> str:
            return next(turns)

        return ScriptedConversation(choose, name=attack)

    parts = RolloutParts(
        environment=office,
        agent=DiscreteAgent(max_turns=5),
        reward=OutcomeReward(),
        converse=converse,
        slots=asyncio.Semaphore(WORKERS),
    )
    began = time.monotonic()
    groups = await run_groups(parts, [*tasks, witness], 1, label="attack", seed=0)
    episodes = {group.task.id: group.episodes[0] for group in groups}
    honest = episodes.pop(witness.id)
    for name, one in episodes.items():
        if shows:
            said = [message.content for node in one.trace.nodes for message in node.messages]
            print(name, said[-2][-300:], one.outcome and one.outcome.evidence["checks"])
        if one.trace.failure is not None:
            print(f"{attack}: {name}: {one.trace.failure.message}", file=sys.stderr)
        elif one.outcome is not None and one.outcome.success:
            print(f"{attack}: {name}: paid", file=sys.stderr)
    outcomes = [one.outcome for one in episodes.values()]
    return {
        "attempts": len(outcomes),
        "success": sum(one is not None and one.success is True for one in outcomes),
        "masked": sum(one is None or one.success is None for one in outcomes),
        "honest": int(honest.outcome is not None and honest.outcome.success is True),
        "seconds": round(time.monotonic() - began, 1),
    }


def opened(is_served: bool) -> Environment:
    """The office, here or behind an environment server."""
    if not is_served:
        return open_environment(EnvConfig(name="office", **OPTIONS))
    remote = {"serve": "office", "options": OPTIONS, "startup_timeout_s": 120}
    return open_environment(EnvConfig(name="remote", **remote))


async def main(told: argparse.Namespace) -> dict[str, dict[str, float | int]]:
    """The figures of each attack."""
    chosen = [families()[name] for name in FAMILIES]
    tasks = [task_of(one, one.split, 7, 0) for one in chosen][: told.tasks]
    office = opened(told.server)
    found = {}
    try:
        for attack in told.attacks:
            row = found[attack] = await play(office, tasks, attack, told.show)
            print(f"{attack:32} {json.dumps(row)}", flush=True)
    finally:
        await office.close()  # type: ignore[attr-defined]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--attacks", nargs="*", default=ALL, choices=ALL)
    parser.add_argument("--server", action="store_true", help="through an environment server")
    parser.add_argument("--show", action="store_true", help="what each episode ended with")
    parser.add_argument("--json", default="", help="file for the figures")
    told = parser.parse_args()
    rows = asyncio.run(main(told))
    if told.json:
        with open(told.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)
    lost = [name for name, row in rows.items() if row["success"] or row["masked"]]
    hurt = [name for name, row in rows.items() if not row["honest"]]
    attempts = sum(row["attempts"] for row in rows.values())
    print(f"{len(rows)} attacks, {attempts} episodes; paid or masked: {lost}; others hurt: {hurt}")
    sys.exit(1 if lost or hurt else 0)
