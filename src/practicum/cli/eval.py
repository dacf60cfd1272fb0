"""`practicum eval`: held-out scores with intervals, and paired comparisons."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from practicum.cli.arguments import takes_options
from practicum.core.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.assemble.policies import PolicyHandle
    from practicum.core.checkpoint import EvalReport
    from practicum.core.config.run_config import RunConfig
    from practicum.core.interfaces import Environment
    from practicum.core.sample import Episode, Group
    from practicum.store.unfinished_evaluation import UnfinishedEvaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """What an evaluation is told."""

    policy: Annotated[
        str,
        typer.Argument(
            metavar="RUN|CHECKPOINT|MODEL", help="What to evaluate; also reference or random."
        ),
    ]
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Config values, such as env.level=2."),
    ] = None
    env: Annotated[str | None, typer.Option(help="Environment; a run's own unless given.")] = None
    n: Annotated[int, typer.Option(min=1, help="Held-out tasks.")] = 100
    k: Annotated[int, typer.Option(min=1, help="Attempts at each task.")] = 1
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, help="0 takes the likeliest action; the default if k is 1, else 1."),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER", help="Compare pairwise with another policy; `base` is a run's model."
        ),
    ] = None
    store: Annotated[
        str, typer.Option(metavar="FILE", help="Keep all episodes there, not only failed ones.")
    ] = ""
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with one that was cut off, typed alike.")
    ] = False
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


@takes_options(EvalOptions)
def evaluate(told: EvalOptions) -> None:
    """Evaluate a policy on tasks it has not been trained on.

    practicum eval runs/demo                                    a run's newest checkpoint

    practicum eval runs/demo/best --against base --n 200        before and after, task by task

    practicum eval smollm2-135m --env math env.level=2          a model as it is

    practicum eval my-adapter --env math                        an exported adapter or model

    practicum eval my.gguf --env math model.runtime=llama.cpp   as llama.cpp's users run it

    practicum eval runs/demo --n 500 --resume                   go on with one that was cut off

    practicum eval reference --env math                         the environment's own solution
    """
    from rich.console import Console

    from practicum.api import find_checkpoint, policy_config
    from practicum.assemble.environments import open_environment
    from practicum.environments.registry import heldout_tasks
    from practicum.evaluation.study_report import ONE_SEED

    options = told.options or []
    _refuse_ignored(options)
    warmth = told.temperature if told.temperature is not None else float(told.k > 1)
    words = [f"eval.n={told.n}", f"eval.k={told.k}", f"eval.temperature={warmth}"]
    config = policy_config(told.policy, told.env, [*words, *options])
    environment = open_environment(config.env)
    heldout_tasks(environment, config.eval.n, config.eval.seed)  # before a model is loaded
    console = Console(stderr=True)
    found = _evaluate(told.policy, config, environment, console, told)
    other = None
    if told.against is not None:
        named = config.model.name if told.against == "base" else told.against
        other = _evaluate(named, config, environment, console, told)
    _show(found, other, told.json_output)
    if not told.json_output and find_checkpoint(told.policy) is not None:
        Console().print(ONE_SEED, highlight=False)


USED = ("agent", "env", "reward", "model.device", "model.dtype", "model.runtime", "eval.seed")
USED_OF_ROLLOUTS = ("max_turns", "max_tokens", "top_p", "top_k", "answer_timeout_s")
"""Keys of a config that an evaluation goes by; `agent` stands for all that is in it."""


def _refuse_ignored(options: list[str]) -> None:
    """Raise `UserError` for an override that would change nothing."""
    used = {*USED, "eval.n", "eval.k", "eval.temperature"}
    used |= {f"rollouts.{key}" for key in USED_OF_ROLLOUTS}
    for word in options:
        key = word.partition("=")[0]
        if "=" in word and key not in used and key.partition(".")[0] not in used:
            raise UserError(
                f"{key} changes nothing in an evaluation, which goes by {', '.join(USED)} and "
                f"rollouts.{', rollouts.'.join(USED_OF_ROLLOUTS)}; leave it out"
            )


class _Evaluated(NamedTuple):
    """A report, and the file with episodes of it that masked ones can be looked for in."""

    report: "EvalReport"
    kept: str


def _evaluate(
    policy: str,
    config: "RunConfig",
    environment: "Environment",
    console: "Console",
    told: EvalOptions,
) -> _Evaluated:
    from practicum.api import find_checkpoint, open_policy
    from practicum.assemble.policies import evaluate_policy, keep_evaluated, unfinished_evaluation
    from practicum.cli.progress import EpisodeBar
    from practicum.engine.compute_thread import run_to_end
    from practicum.environments.registry import run_and_close

    def tell(sentence: str) -> None:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    found = find_checkpoint(policy)
    if found is not None:
        for damaged in found.damaged:
            tell(f"warning: passed over: {damaged.reason}")
        tell(f"taking {found.checkpoint.path}")
    handle: PolicyHandle = open_policy(policy, config, environment)
    kept = ""

    def keep(groups: "Sequence[Group]") -> None:
        nonlocal kept
        count, kept = keep_evaluated(groups, handle.fingerprint, told.store)
        if kept:
            what = "episodes" if told.store else "failed episodes"
            shown = f"practicum traces list --store {quote(kept)}"
            tell(f"{count} {what} kept; look at them: {shown}")

    total = config.eval.n * config.eval.k
    with (
        unfinished_evaluation(handle, config, resume=told.resume) as unfinished,
        EpisodeBar(console, f"evaluating {policy}", total) as bar,
    ):
        _tell_of_earlier(unfinished, tell, total, resumes=told.resume)

        def episode_done(episode: "Episode") -> None:
            unfinished.keep(episode)
            bar.episode_done(episode)

        work = evaluate_policy(
            handle,
            environment,
            config,
            episode_done,
            policy,
            on_groups=keep,
            done=dict(unfinished.done),
        )
        report = run_to_end(run_and_close(environment, work)).report
    return _Evaluated(report, kept)


def _tell_of_earlier(
    unfinished: "UnfinishedEvaluation", tell: Callable[[str], None], total: int, *, resumes: bool
) -> None:
    """Say what is gone on with, or could have been."""
    if resumes and not unfinished.done:
        tell("nothing to go on with: no evaluation like this was cut off; it begins anew")
    elif resumes:
        tell(f"going on: {len(unfinished.done)} of {total} episodes are there")
    elif unfinished.was_cut_off:
        tell("one like this was cut off before; it begins anew, --resume would have gone on")


def _show(found: _Evaluated, other: _Evaluated | None, json_output: bool) -> None:
    import json

    from rich.console import Console

    from practicum.evaluation.compare import compare_reports
    from practicum.evaluation.report import (
        comparison_to_json,
        find_masked,
        render_comparison,
        render_report,
        report_to_json,
    )

    comparison = compare_reports(found.report, other.report) if other is not None else None
    if json_output:
        shown = {"report": report_to_json(found.report), "episodes": found.kept or None}
        if other is not None and comparison is not None:
            shown |= {
                "against": report_to_json(other.report),
                "comparison": comparison_to_json(comparison),
            }
        print(json.dumps(shown))
        return
    console = Console()
    console.print(render_report(found.report))
    if other is not None and comparison is not None:
        console.print(render_comparison(found.report, other.report, comparison))
    for side in (found, other):
        if side is not None and side.report.masked and side.kept:
            told = find_masked(side.kept)  # not in a table, which would break the line
            console.print(f"{side.report.policy}: {told}", markup=False, soft_wrap=True)
