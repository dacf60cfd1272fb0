"""Evaluation reports: built from task results, shown as tables, written to JSON and back."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import Any, TypeVar

from rich.table import Table
from rich.text import Text

from practicum.core.checkpoint import (
    Comparison,
    EvalReport,
    HeldOutSuccess,
    Interval,
    TaskResult,
    are_many_masked,
    beside_success,
    masked_as_failed,
)
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import EpisodesFailed, UserError
from practicum.core.task import JSON
from practicum.evaluation.compare import compare_reports, is_difference, is_zero_or_one
from practicum.stats.intervals import mean_interval, pass_at_k_interval, share_interval

T = TypeVar("T")

SCHEMA = 1
"""Version of the JSON format."""

NEXT_TO_NOTHING = 0.1
"""Upper bound of success up to which a risen reward has not been paid for the task."""


def build_report(
    results: Sequence[TaskResult],
    *,
    policy: str,
    env: str,
    fingerprint: str,
    seed: int,
    duration_s: float = 0.0,
    first_failure: str = "",
) -> EvalReport:
    """The report of one policy's task results.

    Masked and unscored attempts are left out of the scores. Success is also told as if they had
    failed, and where they are many that is the one that counts. Where all of them are masked,
    `first_failure` says why.
    """
    if not results:
        raise UserError("no task was evaluated; ask for at least one with --n 1")
    attempts = max(len(task.successes) for task in results)
    scored = [task for task in results if _scored(task.successes)]
    rewards = [sum(kept) / len(kept) for task in results if (kept := _scored(task.rewards))]
    if not rewards:
        reason = f"the first: {first_failure}; mend that" if first_failure else "look at the traces"
        raise EpisodesFailed(
            f"none of the {len(results)} tasks has a score: every attempt failed or was left "
            f"unscored; {reason}"
        )
    as_share = is_zero_or_one(results)
    masked = sum(_masked(task, bool(scored)) for task in results)
    are_many = are_many_masked(masked, sum(len(task.successes) for task in results))
    failed = masked_as_failed(results)
    counted = failed if are_many else scored
    levels = sorted({task.level for task in counted})
    envs = list(dict.fromkeys(task.env for task in counted))
    return EvalReport(
        policy=policy,
        env=env,
        fingerprint=fingerprint,
        seed=seed,
        attempts_per_task=attempts,
        success=_success(counted, attempts) if scored else None,
        reward=share_interval(rewards, attempts) if as_share else mean_interval(rewards),
        pass_at_k=_pass_at_powers(counted, attempts) if scored else {},
        success_by_level={
            level: _success([task for task in counted if task.level == level], attempts)
            for level in (levels if scored else ())
        },
        success_by_env={
            name: _success([task for task in counted if task.env == name], attempts)
            for name in (envs if scored and len(envs) > 1 else ())
        },
        masked=masked,
        tasks=tuple(results),
        duration_s=duration_s,
        success_scored=_success(scored, attempts) if scored else None,
        success_if_masked_failed=_success(failed, attempts) if scored else None,
    )


def _scored(values: Sequence[float | bool | None]) -> list[float]:
    return [float(value) for value in values if value is not None]


def _success(tasks: Sequence[TaskResult], attempts: int) -> Interval:
    shares = [sum(kept) / len(kept) for task in tasks if (kept := _scored(task.successes))]
    return share_interval(shares, attempts)


def _pass_at_powers(tasks: Sequence[TaskResult], attempts: int) -> dict[int, Interval]:
    """pass@1, 2, 4, ... up to the most scored attempts of a task."""
    most = max(len(_scored(task.successes)) for task in tasks)
    successes = [task.successes for task in tasks]
    powers = [2**i for i in range(attempts.bit_length()) if 2**i <= most]
    return {k: pass_at_k_interval(successes, k) for k in powers}


def _masked(task: TaskResult, is_success_known: bool) -> int:
    pairs = zip(task.successes, task.rewards, strict=True)
    return sum(
        reward is None or (is_success_known and success is None) for success, reward in pairs
    )


def verdict(comparison: Comparison) -> str:
    """The result of the significance test in one sentence."""
    score, gain = comparison.decisive
    shown = f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], p = {_p(comparison.p_value)}"
    tasks = "the 1 task" if comparison.n_tasks == 1 else f"the {comparison.n_tasks} tasks"
    if not is_difference(comparison):
        return (
            f"No difference in {score} is shown between {comparison.policy} and "
            f"{comparison.against} on {tasks} ({shown})."
        )
    if comparison.success_difference is None:
        word = "more" if gain.value > 0 else "less"
        return f"{comparison.policy} earns {word} on {tasks} than {comparison.against} ({shown})."
    word = "more" if gain.value > 0 else "fewer"
    return f"{comparison.policy} solves {word} of {tasks} than {comparison.against} ({shown})."


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def format_interval(interval: Interval, *, signed: bool = False, digits: int = 3) -> str:
    """An estimate and its bounds as text.

    >>> format_interval(Interval(value=0.9, low=0.826, high=0.945, n=100, method="wilson"))
    '0.900 [0.826, 0.945]'
    """
    form = f"{'+' if signed else ''}.{digits}f"
    value = f"{interval.value:{form}}"
    if not math.isfinite(interval.low) or not math.isfinite(interval.high):
        return f"{value} (no interval: one task)"
    if interval.method == "all equal":
        return f"{value} (all equal)"
    return f"{value} [{interval.low:{form}}, {interval.high:{form}}]"


def format_success(found: HeldOutSuccess, digits: int = 3) -> str:
    """Success with its bounds, and with what it would be if the masked had failed."""
    if found.success is None:
        return "unknown"
    return format_interval(found.success, digits=digits) + beside_success(found, digits)


def render_report(report: EvalReport) -> Table:
    """A table of one report: scores with n and 95 % interval."""
    table = Table(
        title=f"{report.policy} on {report.env}, held-out tasks",
        title_justify="left",
        caption=Text(_caption(report)),
        caption_justify="left",
    )
    table.add_column("score")
    table.add_column("value [95 % interval]", no_wrap=True)
    table.add_column("tasks", justify="right")
    for name, interval in _rows(report):
        table.add_row(name, Text(format_interval(interval)), str(interval.n))
        other = report.success_scored if report.counts_masked else report.success_if_masked_failed
        if name == "success" and report.masked and other is not None:
            what = "of the scored alone" if report.counts_masked else "if the masked had failed"
            table.add_row(f"  {what}", Text(format_interval(other)), str(other.n))
    return table


def _rows(report: EvalReport) -> list[tuple[str, Interval]]:
    rows = [("success", report.success)] if report.success else []
    rows.append(("mean reward", report.reward))
    # pass@1 is the success share, which has its row already.
    rows += [(f"pass@{k}", report.pass_at_k[k]) for k in sorted(report.pass_at_k) if k > 1]
    rows += list(report.success_by_env.items())
    if len(report.success_by_level) > 1:
        rows += [
            (f"level {n}", interval) for n, interval in sorted(report.success_by_level.items())
        ]
    return rows


def _caption(report: EvalReport) -> str:
    attempts = report.attempts_per_task
    parts = [f"{attempts} attempt{'' if attempts == 1 else 's'} a task", f"seed {report.seed}"]
    if report.masked:
        parts.append(masked_words(report.masked, report.attempts))
    if report.success is None:
        parts.append(UNKNOWN)
    if report.not_comparable:
        parts.append(not_comparable_words(report))
    if report.duration_s:
        parts.append(f"{report.duration_s:.0f} s")
    return ", ".join(parts)


def not_comparable_words(report: EvalReport) -> str:
    """How many of its tasks rest on stand-ins, and on which."""
    kinds = Counter(one for task in report.tasks for one in task.stand_ins)
    named = [one for one, _ in kinds.most_common(MOST_STAND_INS)]
    more = f" and {len(kinds) - len(named)} more" if len(kinds) > len(named) else ""
    return (
        f"NOT COMPARABLE with scores from where the tasks come from: {report.not_comparable} of "
        f"{len(report.tasks)} tasks rest on stand-ins ({', '.join(named)}{more})"
    )


MOST_STAND_INS = 3
"""Stand-ins that are named one by one."""
UNKNOWN = "success is unknown: say what counts with reward.success_at=SCORE"
"""Where neither the environment nor the config says whether a task was done."""


def masked_words(masked: int, attempts: int) -> str:
    """How many held-out attempts have no score, and from `MASKED_HIGH` on what that means.

    >>> masked_words(2, 100)
    '2 of 100 attempts (2%) masked'
    """
    share = masked / attempts if attempts else 0.0
    said = f"{masked} of {attempts} attempts ({share:.0%}) masked"
    if not are_many_masked(masked, attempts):
        return said
    return f"ALARM: {said} and counted as failed, for nobody knows what they would have come to"


def find_masked(kept: str) -> str:
    """How to find the masked episodes in the run folder or file that keeps them.

    >>> find_masked("runs/demo")
    'find out what failed: practicum traces list --store runs/demo --where "purpose = eval and ...
    """
    command = f"practicum traces list --store {quote(kept)}"
    return f'find out what failed: {command} --where "purpose = eval and score = none"'


def render_comparison(report: EvalReport, against: EvalReport, comparison: Comparison) -> Table:
    """A table of two reports on the same tasks, with paired differences and verdict.

    `against`, the baseline, is the first column.
    """
    table = Table(
        title=f"{report.env}: {against.policy} and {report.policy} on the same "
        f"{comparison.n_tasks} held-out tasks, 95 % intervals",
        title_justify="left",
        caption=_comparison_caption(report, against, comparison),
        caption_justify="left",
    )
    for heading in ("score", against.policy, report.policy, "difference"):
        table.add_column(Text(heading), overflow="fold")
    differences = {
        "success": comparison.success_difference,
        "mean reward": comparison.reward_difference,
        **comparison.difference_by_env,
    }
    others = dict(_rows(against))
    for name, interval in _rows(report):
        if name in others:
            gain = differences.get(name)
            table.add_row(
                name,
                Text(format_interval(others[name], digits=2)),
                Text(format_interval(interval, digits=2)),
                Text(format_interval(gain, signed=True, digits=2) if gain else ""),
            )
    return table


def stage_ends(
    config: RunConfig, reports: Mapping[int, EvalReport]
) -> list[tuple[str, EvalReport]]:
    """The evaluations before training and after each stage, each with its name."""
    named, last = {0: "before training"}, 0
    for stage in config.all_stages:
        last += stage.steps
        named[last] = f"after {stage.steps} steps of {stage.algorithm.label}"
    return [(label, reports[step]) for step, label in named.items() if step in reports]


def render_stages(course: Sequence[tuple[str, EvalReport]]) -> Table:
    """A table of the same tasks after each stage of a run, and each stage's own gain."""
    first = course[0][1]
    title = f"{first.env}: the same {len(first.tasks)} held-out tasks, 95 % intervals"
    table = Table(title=title, title_justify="left")
    score, _ = first.decisive
    for heading in ("", "success", "mean reward", f"gain in {score}"):
        table.add_column(heading, overflow="fold")
    before: EvalReport | None = None
    for label, report in course:
        gain = compare_reports(report, before).decisive[1] if before else None
        table.add_row(
            label,
            Text(format_success(report, digits=2)),
            Text(format_interval(report.reward, digits=2)),
            Text(format_interval(gain, signed=True, digits=2) if gain else ""),
        )
        before = report
    return table


def _comparison_caption(report: EvalReport, against: EvalReport, comparison: Comparison) -> Text:
    lines = [verdict(comparison)]
    most = report.success.high if report.success else 1.0
    if comparison.reward_difference.low > 0 and most < NEXT_TO_NOTHING:
        lines.append(
            f"ALARM: reward rose to {report.reward.value:.2f} and next to nothing is solved: what "
            "pays is not the task, or more steps are needed; see docs/collapse.md."
        )
    lines += [
        f"{side.policy}: success {format_success(side, digits=2)}; "
        f"{masked_words(side.masked, side.attempts)}."
        for side in (against, report)
        if side.masked
    ]
    if report.not_comparable:
        lines.append(f"{not_comparable_words(report)}.")
    return Text("\n".join(lines))


def report_to_json(report: EvalReport) -> dict[str, JSON]:
    """The report as JSON values; `report_from_json` reads it back."""
    return {
        "schema": SCHEMA,
        "policy": report.policy,
        "env": report.env,
        "fingerprint": report.fingerprint,
        "seed": report.seed,
        "attempts_per_task": report.attempts_per_task,
        "success": report.success.to_json() if report.success else None,
        "reward": report.reward.to_json(),
        "pass_at_k": _table_to_json(report.pass_at_k),
        "success_by_level": _table_to_json(report.success_by_level),
        **_by_env("success_by_env", report.success_by_env),
        "masked": report.masked,
        "attempts": report.attempts,
        "counts_masked": report.counts_masked,
        "not_comparable": report.not_comparable,
        **_beside_to_json(report),
        "duration_s": report.duration_s,
        "tasks": [
            {
                "task_id": task.task_id,
                "level": task.level,
                "successes": list(task.successes),
                "rewards": list(task.rewards),
                "turns": list(task.turns),
                **({"stand_ins": list(task.stand_ins)} if task.stand_ins else {}),
                **({"env": task.env} if task.env != report.env else {}),
            }
            for task in report.tasks
        ],
    }


def report_from_json(value: Mapping[str, Any]) -> EvalReport:
    """A report that `report_to_json` wrote."""
    return _read(value, "evaluation report", _report_from_json)


def comparison_to_json(comparison: Comparison) -> dict[str, JSON]:
    """The comparison as JSON values, with its verdict; `comparison_from_json` reads it back."""
    gain = comparison.success_difference
    return {
        "schema": SCHEMA,
        "policy": comparison.policy,
        "against": comparison.against,
        "n_tasks": comparison.n_tasks,
        "success_difference": gain.to_json() if gain else None,
        "reward_difference": comparison.reward_difference.to_json(),
        "p_value": comparison.p_value,
        **_by_env("difference_by_env", comparison.difference_by_env),
        "is_difference": is_difference(comparison),
        "verdict": verdict(comparison),
    }


def comparison_from_json(value: Mapping[str, Any]) -> Comparison:
    """A comparison that `comparison_to_json` wrote."""
    return _read(value, "comparison", _comparison_from_json)


def _read(value: Mapping[str, Any], what: str, build: Callable[[Mapping[str, Any]], T]) -> T:
    if value.get("schema") != SCHEMA:
        raise UserError(
            f"this {what} has schema {value.get('schema')!r}, and schema {SCHEMA} is read; "
            "evaluate again with this version of practicum"
        )
    try:
        return build(value)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(
            f"this {what} cannot be read ({type(error).__name__}: {error}); evaluate again"
        ) from error


def _report_from_json(value: Mapping[str, Any]) -> EvalReport:
    tasks = tuple(
        TaskResult(
            task_id=task["task_id"],
            level=task["level"],
            successes=tuple(task["successes"]),
            rewards=tuple(task["rewards"]),
            turns=tuple(task["turns"]),
            stand_ins=tuple(task.get("stand_ins", ())),
            env=task.get("env", value["env"]),
        )
        for task in value["tasks"]
    )
    told: dict[str, Any] = {
        key: value[key] for key in ("policy", "env", "fingerprint", "seed", "duration_s")
    }
    if "success_if_masked_failed" not in value:  # an older one, whose success left the masked out
        return build_report(tasks, **told)

    def known(key: str) -> Interval | None:
        return interval_from_json(value[key]) if value[key] else None

    return EvalReport(
        **told,
        tasks=tasks,
        attempts_per_task=value["attempts_per_task"],
        success=known("success"),
        reward=interval_from_json(value["reward"]),
        pass_at_k=_table_from_json(value["pass_at_k"]),
        success_by_level=_table_from_json(value["success_by_level"]),
        success_by_env=_from_by_env(value.get("success_by_env", {})),
        masked=value["masked"],
        success_scored=known("success_scored"),
        success_if_masked_failed=known("success_if_masked_failed"),
    )


def _comparison_from_json(value: Mapping[str, Any]) -> Comparison:
    gain = value["success_difference"]
    return Comparison(
        policy=value["policy"],
        against=value["against"],
        n_tasks=value["n_tasks"],
        success_difference=interval_from_json(gain) if gain else None,
        reward_difference=interval_from_json(value["reward_difference"]),
        p_value=value["p_value"],
        difference_by_env=_from_by_env(value.get("difference_by_env", {})),
    )


def _by_env(key: str, found: Mapping[str, Interval]) -> dict[str, JSON]:
    """Under a key of its own where there are several environments, else nothing."""
    table: dict[str, JSON] = {env: interval.to_json() for env, interval in found.items()}
    return {key: table} if table else {}


def _from_by_env(table: Mapping[str, Any]) -> dict[str, Interval]:
    return {env: interval_from_json(found) for env, found in table.items()}


def _table_to_json(table: Mapping[int, Interval]) -> dict[str, JSON]:
    return {str(key): interval.to_json() for key, interval in sorted(table.items())}


def _table_from_json(value: Mapping[str, Any]) -> dict[int, Interval]:
    return {int(key): interval_from_json(interval) for key, interval in value.items()}


def _beside_to_json(report: EvalReport) -> dict[str, JSON]:
    scored, failed = report.success_scored, report.success_if_masked_failed
    return {
        "success_scored": scored.to_json() if scored else None,
        "success_if_masked_failed": failed.to_json() if failed else None,
    }


def interval_from_json(value: Mapping[str, Any]) -> Interval:
    """What `Interval.to_json` wrote."""
    low, high = value["low"], value["high"]
    return Interval(
        value=float(value["value"]),
        low=-math.inf if low is None else float(low),
        high=math.inf if high is None else float(high),
        n=int(value["n"]),
        method=str(value.get("method", "")),
    )


def report_to_row(report: EvalReport) -> dict[str, Any]:
    """What `metrics.jsonl` says of an evaluation."""

    def interval(part: Interval) -> dict[str, Any]:
        return {"value": part.value, "low": part.low, "high": part.high, "n": part.n}

    return {
        "success": interval(report.success) if report.success else None,
        "reward": interval(report.reward),
        "masked": report.masked,
        "attempts": report.attempts,
        **_beside_to_json(report),
        "fingerprint": report.fingerprint,
        "duration_s": report.duration_s,
    }
