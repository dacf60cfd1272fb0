"""Templates about processes: started in the background, ended by number or by command."""

from shlex import quote

from practicum_envs.shell.generated.assertions import Process, Processes
from practicum_envs.shell.generated.step import Step, template, templates_among
from practicum_envs.shell.generated.task_draft import TaskDraft

QUIET = ">/dev/null 2>&1 </dev/null &"


def _seconds(draft: TaskDraft, count: int) -> list[int]:
    """Times to sleep that outlast any episode, each of them once."""
    return draft.rng.sample(range(3000, 9000), count)


@template("sleep", split="train")
def sleeper_started(draft: TaskDraft) -> Step:
    """A sleeping process in the background, its number in a file."""
    [seconds] = _seconds(draft, 1)
    pidfile = draft.new_path("pid")
    shown, quoted = draft.show(pidfile), quote(pidfile)
    return Step(
        instruction=draft.one_of(
            f"Start 'sleep {seconds}' in the background, leave it running and write its process "
            f"ID to {shown}.",
            f"A background process 'sleep {seconds}' must be running when you are done, and the "
            f"file {shown} must hold its PID and nothing else.",
            f"Run sleep with the argument {seconds} as a background job that outlives your shell; "
            f"store its PID in {shown}.",
        ),
        reference=f"sleep {seconds} {QUIET}\necho $! > {quoted}",
        near_misses=(
            f"sleep {seconds + 1} {QUIET}\necho $! > {quoted}",
            f"sleep {seconds} {QUIET}\necho $$ > {quoted}",
            f"sleep {seconds} {QUIET}\necho $! > {quoted}; kill $!",
        ),
        assertions=(Process(pidfile, ("sleep", str(seconds))),),
    )


@template("sleep", split="heldout")
def two_sleepers_started(draft: TaskDraft) -> Step:
    """Two sleeping processes in the background, each with a file of its own."""
    short, long = sorted(_seconds(draft, 2))
    one, other = draft.new_path("pid"), draft.new_path("pid")
    start = [
        f"sleep {seconds} {QUIET}\necho $! > {quote(path)}"
        for seconds, path in ((short, one), (long, other))
    ]
    return Step(
        instruction=draft.one_of(
            f"Start two background processes, 'sleep {short}' and 'sleep {long}', and keep both "
            f"running. PID of the first in {draft.show(one)}, PID of the second in "
            f"{draft.show(other)}.",
            f"Leave 'sleep {short}' and 'sleep {long}' running in the background; write their "
            f"process IDs to {draft.show(one)} and {draft.show(other)}, in this order.",
        ),
        reference="\n".join(start),
        near_misses=(
            start[0],
            f"{start[0]}\ncp {quote(one)} {quote(other)}",
            f"sleep {short} {QUIET}\necho $! > {quote(other)}\n"
            f"sleep {long} {QUIET}\necho $! > {quote(one)}",
        ),
        assertions=(
            Process(one, ("sleep", str(short))),
            Process(other, ("sleep", str(long))),
        ),
    )


@template("kill", split="train")
def process_ended_by_number(draft: TaskDraft) -> Step:
    """The process whose number is in a file ends, another one goes on."""
    ended, kept = _seconds(draft, 2)
    files = [f"{draft.root}/{draft.names.file('pid')}" for _ in range(2)]
    for seconds, path in zip((ended, kept), files, strict=True):
        draft.setup.append(f"sleep {seconds} {QUIET}\necho $! > {quote(path)}")
    one, other = (quote(path) for path in files)
    shown = draft.show(files[0])
    return Step(
        instruction=draft.one_of(
            f"End the process whose PID is in {shown}; the one whose PID is in "
            f"{draft.show(files[1])} goes on running.",
            f"The file {shown} holds the process ID of a job that hangs. Stop that job, and no "
            "other.",
            f"Kill the process that the PID file {shown} names. Do not touch other processes.",
        ),
        reference=f"kill $(cat {one})",
        near_misses=(
            f"rm {one}",
            f"kill $(cat {one} {other})",
            f"kill $(cat {other})",
            "pkill -x sleep",
        ),
        assertions=(
            Processes(("sleep", str(ended)), 0),
            Process(files[1], ("sleep", str(kept))),
        ),
    )


@template("kill", split="heldout")
def processes_ended_by_command(draft: TaskDraft) -> Step:
    """All processes of one command line end, those of another go on."""
    ended, kept = _seconds(draft, 2)
    count = draft.rng.randint(2, 3)
    draft.setup.extend(f"sleep {seconds} {QUIET}" for seconds in [*[ended] * count, kept])
    return Step(
        instruction=draft.one_of(
            f"End every process that was started as 'sleep {ended}'; 'sleep {kept}' must keep "
            "running.",
            f"Several 'sleep {ended}' processes are running. Stop them all, but not "
            f"'sleep {kept}'.",
            f"No process with the command line 'sleep {ended}' may be left; the process "
            f"'sleep {kept}' stays alive.",
        ),
        reference=f"pkill -x -f 'sleep {ended}'",
        near_misses=(
            "pkill -x sleep",
            f"kill $(pgrep -x -f 'sleep {ended}' | head -n 1)",
            f"pkill -x -f 'sleep {kept}'",
        ),
        assertions=(
            Processes(("sleep", str(ended)), 0),
            Processes(("sleep", str(kept)), 1),
        ),
    )


TEMPLATES = templates_among(globals())
