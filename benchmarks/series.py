"""How cost grows: series over prompt length, group size, turns and model size, as JSON and PNG.

    python benchmarks/series.py --series prompt=128,512,2048 --series group=4,8,16 --out charts
    python benchmarks/series.py --tree-ratio 2 4 8 20 --unique 8192 --out charts

A series changes one field of the case and measures the update, sampling, or both at each value. The
ideal line of an update is the padded batch's time divided by the row tokens for each unique token;
that of sampling is the roofline. `--tree-ratio` keeps the unique tokens and changes how many times
the rows repeat them: a speed-up equal to the ratio would be perfect. `--draw` makes the charts of
an earlier measurement, which may come from another computer.
"""

import argparse
import dataclasses
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cases import Case, Series, arguments
from episodes import sizes_at_ratio
from report import describe, print_table, seconds_text, show
from sampling import measure as measure_sampling
from update import measure as measure_update
from update import work_arguments

from practicum.engine.compute_thread import pin_threads

__all__ = ["measure_series", "measure_tree_ratio"]

MEASURES = {"update": measure_update, "sampling": measure_sampling}

DEFAULT_SERIES = ("prompt=128,512,2048", "group=4,8,16", "turns=1,2,4", "model=tiny,llama-6m")

RATIO_GROUP = 32
"""Episodes of the group whose sharing is varied; it must be larger than the largest ratio."""


def measure_series(what: str, series: Series, case: Case) -> dict[str, Any]:
    """The measure at each value, with the ideal beside it."""
    points = []
    for value, changed in series.cases(case):
        found = MEASURES[what](changed)
        points.append({"value": value, "ideal_s": _ideal(what, found), **found})
    return {"what": what, "field": series.field, "points": points}


def _ideal(what: str, found: dict[str, Any]) -> float | None:
    if what == "sampling":
        steps = 1e-3 * found["roofline_ms_a_step"] * (found["completion"] - 1)
        return float(found["roofline_prefill_s"] + steps)
    padded = found["seconds"].get("padded")
    return None if padded is None else float(padded / found["ideal"])


def measure_tree_ratio(case: Case, ratios: list[float], unique: int) -> list[dict[str, Any]]:
    """Updates of the same unique tokens whose rows repeat them more and more."""
    points = []
    for wanted in ratios:
        prompt, completion = sizes_at_ratio(unique, wanted, RATIO_GROUP)
        sized = dataclasses.replace(
            case, prompt=prompt, completion=completion, group=RATIO_GROUP, prompts=1, turns=1
        )
        found = measure_update(sized)
        speed_up = found["ratio"].get("padded")
        share = None if speed_up is None else speed_up / found["ideal"]
        points.append({**found, "speed_up": speed_up, "share_of_ideal": share})
    return points


def draw(found: dict[str, Any], folder: Path) -> list[Path]:
    """All charts of what was measured."""
    files = [draw_series(one, folder) for one in found["series"]]
    return files + ([draw_tree_ratio(found["tree_ratio"], folder)] if found["tree_ratio"] else [])


def draw_series(found: dict[str, Any], folder: Path) -> Path:
    """One curve for each side, and the ideal."""
    points = found["points"]
    values = [point["value"] for point in points]
    sides = dict.fromkeys(name for point in points for name in point["seconds"])
    curves = {name: [point["seconds"].get(name) for point in points] for name in sides}
    curves["ideal"] = [point["ideal_s"] for point in points]
    model = "" if found["field"] == "model" else f"{points[0]['model']}, "
    labels = (found["field"], "seconds", f"{found['what']}: {model}{points[0]['hardware']}")
    file = f"{found['what']}-{found['field'].replace('_', '-')}.png"
    return _draw(curves, values, labels, folder / file)


def draw_tree_ratio(points: list[dict[str, Any]], folder: Path) -> Path:
    """The speed-up over the padded batch, and the ratio itself."""
    ratios = [point["ideal"] for point in points]
    curves = {"practicum": [point["speed_up"] for point in points], "ideal": ratios}
    title = f"update: {points[0]['model']}, {points[0]['hardware']}"
    labels = ("row tokens for each unique token", "times as fast as the padded batch", title)
    return _draw(curves, ratios, labels, folder / "tree-ratio.png")


def _draw(
    curves: dict[str, list[float | None]],
    values: list[Any],
    labels: tuple[str, str, str],
    file: Path,
) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, heights in curves.items():
        known = [(x, y) for x, y in zip(values, heights, strict=True) if y is not None]
        if known:
            [line] = axes.plot(*zip(*known, strict=True), marker="o", label=name)
            if name == "ideal":
                line.set(linestyle="--", color="grey", marker="")
    axes.set(xlabel=labels[0], ylabel=labels[1], title=labels[2])
    axes.title.set_fontsize("medium")
    axes.set_xticks(values)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
    return file


def series_lines(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """A table of one series."""
    sides = list(dict.fromkeys(name for point in found["points"] for name in point["seconds"]))
    lines = [(f"{found['what']} by {found['field']}", *sides, "ideal")]
    for point in found["points"]:
        times = [*(point["seconds"].get(name) for name in sides), point["ideal_s"]]
        cells = ("" if taken is None else seconds_text(taken) for taken in times)
        lines.append((str(point["value"]), *cells))
    return lines


def ratio_lines(points: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A table of the sharing series."""
    lines: list[tuple[str, ...]] = [
        ("ratio", "unique tokens", "row tokens", "speed-up over padded", "of the ratio")
    ]
    for point in points:
        speed_up, share = point["speed_up"], point["share_of_ideal"]
        lines.append(
            (
                f"{point['ideal']:.2f}",
                str(point["unique_tokens"]),
                str(point["row_tokens"]),
                "" if speed_up is None else f"{speed_up:.2f} x",
                "" if share is None else f"{share:.0%}",
            )
        )
    return lines


def measure(case: Case, series: list[Series], args: argparse.Namespace) -> dict[str, Any]:
    """Every series that was asked for."""
    return {
        **describe(case),
        "series": [
            measure_series(what, one, case)
            for one in series
            for what in args.what
            if what == "update" or one.field != "turns"  # sampling has one turn
        ],
        "tree_ratio": measure_tree_ratio(case, args.tree_ratio, args.unique),
    }


def main() -> None:
    parser = arguments(__doc__.split("\n")[0])
    work_arguments(parser)
    add = parser.add_argument
    add("--history", choices=("single", "growing"), default="growing")
    add("--series", type=Series.of, action="append", help="field=value,value; may be repeated")
    add("--what", nargs="+", choices=MEASURES, default=list(MEASURES))
    add("--tree-ratio", type=float, nargs="+", default=[], help="ratios, such as 2 4 8 20")
    add("--unique", type=int, default=4096, help="unique tokens of the sharing series")
    add("--out", type=Path, default=Path("charts"), help="folder for JSON and PNG files")
    add("--draw", type=Path, help="measure nothing; draw the charts of this series.json")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.draw:
        print("wrote", *draw(json.loads(args.draw.read_text()), args.out))
        return
    pin_threads(args.threads)
    series = args.series or ([] if args.tree_ratio else [Series.of(s) for s in DEFAULT_SERIES])
    found = measure(Case.of(args), series, args)
    (args.out / "series.json").write_text(json.dumps(found) + "\n")
    tables = [series_lines(one) for one in found["series"]]
    tables += [ratio_lines(found["tree_ratio"])] if found["tree_ratio"] else []
    show(found, args, tables[0])
    if not args.json:
        for lines in tables[1:]:
            print_table(lines)
    if find_spec("matplotlib"):
        draw(found, args.out)
    elif not args.json:
        print(f"no charts without matplotlib; elsewhere: --draw {args.out / 'series.json'}")


if __name__ == "__main__":
    main()
