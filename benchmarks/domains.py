"""What is learned in each domain, and in several at once: held-out families, seeds, intervals.

`learn` trains SmolLM2-135M by the config of each domain, a study of three seeds, and shows held-out
success before, after imitation and after practice, with paired gains. Tasks are of families that
are never trained on. `mixed` trains one run for each of math, code and business and one over all
three with 1.5 times their steps, and shows each run in each domain: what carries over, and what a
domain loses by company. Intervals are over seeds and tasks.

    python benchmarks/domains.py learn --device cuda --parallel 3
    python benchmarks/domains.py mixed --device cuda --parallel 3
    python benchmarks/domains.py learn --domains science --set stages.1.steps=80

Typed again with the same --runs it goes on where it was stopped, and trains nothing twice.
"""

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from report import print_table
from stage_gains import last_steps, pooled, text

import practicum as pr
from practicum.analysis.evaluations import read_evaluations
from practicum.core.checkpoint import EvalReport
from practicum.evaluation.report import report_from_json, report_to_json
from practicum.evaluation.study_report import StudyEvidence, build_study_report, compare_studies
from practicum.store.run_dir import RunDir

CONFIGS = Path(__file__).parents[1] / "configs"
DOMAINS = ("code", "writing", "business", "science")
MIXED = ("math", "code", "business")
MORE_STEPS = 1.5
"""Of a run over several domains, times the steps of a run of one."""
SHARED = (
    "lora={preset: full, r: 32, alpha: 64}",
    "rollouts={tasks_per_step: 12, group_size: 8, max_turns: 8, max_tokens: 160}",
)
STAGES = (
    "stages=[{{steps: {imitation}, data: {{source: reference, n: 960}}, "
    "algorithm: {{name: sft, lr: 5.0e-4, batch: 32, schedule: linear}}}}, "
    "{{steps: {practice}, algorithm: {{name: grpo, lr: 1.0e-4, schedule: linear}}}}]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the command line asks for."""

    model: str
    device: str
    folder: Path
    seeds: tuple[int, ...]
    parallel: int
    n: int
    steps: tuple[int, int]
    """Of imitation and practice in a run of one domain; of `mixed` alone."""
    more: tuple[str, ...]

    def train(self, name: str, *words: str) -> dict[int, RunDir]:
        """The runs of a study; what is there already goes on."""
        folder = self.folder / name
        if folder.is_dir():
            asked = ["--resume", str(folder)]
        else:
            asked = [
                *words,
                *(f"model={self.model}", f"model.device={self.device}"),
                *(f"eval.n={self.n}", f"runs_dir={self.folder}", *self.more),
                *("--seeds", ",".join(map(str, self.seeds)), "--name", name),
            ]
        parallel = ["--parallel", str(self.parallel)] if self.parallel else []
        command = [sys.executable, "-m", "practicum.cli.main", "train", *asked, *parallel]
        done = subprocess.run(command, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{name}: practicum train ended with {done.returncode}; see {folder}")
        return {seed: RunDir(folder / f"seed_{seed}") for seed in self.seeds}

    def evaluated(self, policy: str, domains: Sequence[str], file: Path) -> EvalReport:
        """A policy at held-out tasks of several domains; kept in a file and not made twice."""
        if not file.is_file():
            env = [environment(name) for name in domains]
            rollouts = {"rollouts.max_turns": 8, "rollouts.max_tokens": 160}
            device = {"model.device": self.device}
            n = self.n * len(domains)
            found = pr.evaluate(policy, n=n, env=env, quiet=True, **rollouts, **device)
            file.write_text(json.dumps(report_to_json(found.report)), encoding="utf-8")
        return report_from_json(json.loads(file.read_text(encoding="utf-8")))


def environment(domain: str) -> dict[str, object]:
    return {"name": domain, "level": 1}


def learn(bench: Bench, domains: Sequence[str]) -> None:
    """Each domain by its own config."""
    summary = [("domain", "seeds", "n", "before", "after", "gain", "of it practice", "above 0")]
    for domain in domains:
        config = str(CONFIGS / f"{domain}_smollm2.yaml")
        runs = bench.train(domain, config, "env.heldout=kinds")
        reports = {str(seed): read_evaluations(run) for seed, run in runs.items()}
        ends = {str(seed): last_steps(run, reports[str(seed)]) for seed, run in runs.items()}
        print(f"\n{domain}: families that were never trained on")
        print_table(pooled(reports, ends))
        summary.append(summed(domain, reports, ends))
    print("\nall domains")
    print_table(summary)


def summed(
    domain: str, reports: Mapping[str, dict[int, EvalReport]], ends: Mapping[str, dict[str, int]]
) -> tuple[str, ...]:
    """A domain's line: the whole gain, and practice's alone over what imitation left."""
    stages = list(next(iter(ends.values())))
    at = {stage: study(stage, [r[ends[s][stage]] for s, r in reports.items()]) for stage in stages}
    first, last = build_study_report(at[stages[0]]), build_study_report(at[stages[-1]])
    whole = compare_studies(at[stages[0]], at[stages[-1]]).success_difference
    practice = compare_studies(at[stages[-2]], at[stages[-1]]).success_difference
    shown = (text(first.success), text(last.success), text(whole, "+"), text(practice, "+"))
    size = (str(len(reports)), str(last.n_tasks))
    return (domain, *size, *shown, "yes" if whole.low > 0 else "no")


def mixed(bench: Bench, domains: Sequence[str]) -> None:
    """A run of each domain, one of all, and each in every domain."""
    trained = {name: bench.train(f"only_{name}", *words(bench, [name], 1.0)) for name in domains}
    trained["all"] = bench.train("all", *words(bench, domains, MORE_STEPS))
    base = bench.evaluated(bench.model, domains, bench.folder / "base.json")
    found = {"base": dict.fromkeys(bench.seeds, base)} | {
        name: {
            seed: bench.evaluated(str(run.path), domains, run.path / "all_domains.json")
            for seed, run in runs.items()
        }
        for name, runs in trained.items()
    }
    scores = {
        (name, domain): study(name, [of_domain(one, domain) for one in reports.values()])
        for (name, reports), domain in itertools.product(found.items(), domains)
    }
    lines = [("trained on", *(f"{domain}, gain over base" for domain in domains))]
    for name in found:
        cells = [transfer(scores["base", domain], scores[name, domain]) for domain in domains]
        lines.append((name, *cells))
    print(f"\nheld-out success; {len(bench.seeds)} seeds, {bench.n} tasks of each domain")
    print_table(lines)
    lines = [("domain", "all over its own run", "is not below by more than its interval")]
    for domain in domains:
        own, company = scores[domain, domain], scores["all", domain]
        difference = compare_studies(own, company).success_difference
        lines.append((domain, text(difference, "+"), "yes" if difference.high >= 0 else "no"))
    print_table(lines)


def words(bench: Bench, domains: Sequence[str], times: float) -> tuple[str, ...]:
    """What `practicum train` is told for a run over some domains."""
    imitation, practice = (round(times * steps) for steps in bench.steps)
    env = ", ".join(f"{{name: {one}, level: 1}}" for one in domains)
    return (f"[{env}]", STAGES.format(imitation=imitation, practice=practice), *SHARED)


def of_domain(report: EvalReport, domain: str) -> EvalReport:
    """A report's tasks of one domain, as a report."""
    # Where there is one environment alone, tasks are not told apart.
    tasks = tuple(one for one in report.tasks if one.env in (domain, ""))
    masked = sum(success is None for one in tasks for success in one.successes)
    return replace(report, env=domain, tasks=tasks, masked=masked)


def study(name: str, reports: Sequence[EvalReport]) -> StudyEvidence:
    return StudyEvidence(name=name, reports=dict(enumerate(reports)))


def transfer(base: StudyEvidence, after: StudyEvidence) -> str:
    success = text(build_study_report(after).success)
    if after.name == base.name:
        return success
    return f"{success}, {text(compare_studies(base, after).success_difference, '+')}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["learn", "mixed"])
    parser.add_argument("--domains", nargs="+", metavar="NAME", help="instead of all")
    parser.add_argument("--model", default="smollm2-135m", help="or another, or tiny")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"])
    parser.add_argument("--seeds", type=int, default=3, help="how many, counted from 0")
    parser.add_argument("--parallel", type=int, default=0, help="seeds at once; 0: what fits")
    parser.add_argument("--n", type=int, default=200, help="held-out tasks of a domain")
    parser.add_argument("--steps", type=int, nargs=2, default=(60, 40), metavar="STEPS",
                        help="of imitation and of practice, for mixed")  # fmt: skip
    parser.add_argument(
        "--set", dest="more", nargs="+", default=[], metavar="KEY=VALUE", help="for every run"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/domains"), help="kept there")
    args = parser.parse_args()
    args.runs.mkdir(parents=True, exist_ok=True)
    bench = Bench(
        model=args.model,
        device=args.device,
        folder=args.runs / args.what,
        seeds=tuple(range(args.seeds)),
        parallel=args.parallel,
        n=args.n,
        steps=tuple(args.steps),
        more=tuple(args.more),
    )
    bench.folder.mkdir(exist_ok=True)
    if args.what == "learn":
        learn(bench, args.domains or DOMAINS)
    else:
        mixed(bench, args.domains or MIXED)


if __name__ == "__main__":
    main()
