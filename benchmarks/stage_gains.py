"""What each stage of a run brought: held-out success, and the paired gain over the stage before.

    python benchmarks/stage_gains.py runs/shell_warm --chart docs/charts/shell-warm.png

Reads evaluations that `practicum train` made; nothing is trained. Several runs are drawn together
and get a table each, and one for all of them as seeds of one config: its intervals are over seeds
and tasks. A stage that was not evaluated at its end, or is still under way, is shown by
the last evaluation within it.
"""

import argparse
import itertools
from pathlib import Path

from report import print_table

from practicum.analysis.evaluations import read_evaluations
from practicum.core.checkpoint import EvalReport, Interval
from practicum.evaluation.compare import compare_reports
from practicum.evaluation.study_report import (
    StudyEvidence,
    build_study_report,
    compare_studies,
)
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir


def last_steps(run: RunDir, reports: dict[int, EvalReport]) -> dict[str, int]:
    """The last evaluated step of each stage, in their order; "before" where that was evaluated."""
    rows = [row for row in read_metrics(run.metrics_path).rows if row.kind == "step"]
    stages = {0: "before"} | {row.step: str(row.values.get("stage")) for row in rows}
    return {stages[step]: step for step in sorted(reports) if step in stages}


def text(interval: Interval, sign: str = "") -> str:
    return f"{interval.value:{sign}.2f} [{interval.low:{sign}.2f}, {interval.high:{sign}.2f}]"


def lines(reports: dict[int, EvalReport], steps: dict[str, int]) -> list[tuple[str, ...]]:
    """The table of one run."""
    first = reports[min(reports)]
    levels = [f"level {level}" for level in first.success_by_level]
    head = ("after", "step", "n", "held-out success", *levels, "paired gain over the stage before")
    found = [head]
    earlier: EvalReport | None = None
    for stage, step in steps.items():
        report = reports[step]
        gain = compare_reports(report, earlier).success_difference if earlier else None
        by_level = (text(one) for one in report.success_by_level.values())
        size = str(report.success.n)
        shown = text(gain, "+") if gain else ""
        found.append((stage, str(step), size, text(report.success), *by_level, shown))
        earlier = report
    return found


def pooled(
    runs: dict[str, dict[int, EvalReport]], ends: dict[str, dict[str, int]]
) -> list[tuple[str, ...]]:
    """The table of all runs together, for the stages that each of them has."""
    stages = [
        stage for stage in next(iter(ends.values())) if all(stage in e for e in ends.values())
    ]
    evidence = {
        stage: StudyEvidence(
            name=stage,
            reports={n: runs[name][ends[name][stage]] for n, name in enumerate(runs)},
        )
        for stage in stages
    }
    found = [("after", "seeds", "n", "held-out success", "paired gain over the stage before")]
    for before, stage in zip([None, *stages], stages, strict=False):
        report = build_study_report(evidence[stage])
        gain = compare_studies(evidence[before], evidence[stage]) if before else None
        shown = text(gain.success_difference, "+") if gain else ""
        found.append((stage, str(len(runs)), str(report.n_tasks), text(report.success), shown))
    return found


def draw(runs: dict[str, dict[int, EvalReport]], ends: dict[str, int], file: Path) -> None:
    """Held-out success by step with its interval, and where stages ended."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, reports in runs.items():
        steps = sorted(reports)
        successes = [reports[step].success for step in steps]
        [line] = axes.plot(steps, [s.value for s in successes], marker="o", label=name)
        band = ([s.low for s in successes], [s.high for s in successes])
        axes.fill_between(steps, *band, alpha=0.15, color=line.get_color())
    for (_, begin), (stage, end) in itertools.pairwise({"": 0, **ends}.items()):
        axes.axvline(end, color="grey", linestyle=":")
        axes.annotate(stage, ((begin + end) / 2, 0.97), ha="center", va="top", color="grey")
    axes.set(xlabel="step", ylabel="held-out success, 95 % interval", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs")
    parser.add_argument("--chart", type=Path, help="a PNG to draw; needs matplotlib")
    args = parser.parse_args()
    evaluated = {path.name: read_evaluations(RunDir(path)) for path in args.runs}
    ends: dict[str, dict[str, int]] = {}
    for path in args.runs:
        reports = evaluated[path.name]
        if not reports:
            parser.error(f"{path} has no evaluations; train with eval.n=300 eval.every=25")
        ends[path.name] = last_steps(RunDir(path), reports)
        print(path.name)
        print_table(lines(reports, ends[path.name]))
    if len(args.runs) > 1:
        print("all together")
        print_table(pooled(evaluated, ends))
    if args.chart:
        last = ends[args.runs[-1].name]
        draw(evaluated, {stage: step for stage, step in last.items() if step}, args.chart)
        print(f"drew {args.chart}")


if __name__ == "__main__":
    main()
