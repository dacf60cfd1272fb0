"""What a report says of a study: what its seeds came to together, and how each stands."""

from practicum.analysis.alerts import alarm_lines
from practicum.analysis.run_view import RunView, read_runs
from practicum.analysis.wording import clock_time, training_words
from practicum.core.checkpoint import card_head
from practicum.core.errors import UserError
from practicum.engine.models.catalog import known_base
from practicum.evaluation.report import format_success
from practicum.evaluation.study_report import study_notes, study_rows
from practicum.reports.chart_svg import HELD_OUT, INK, Series, series_chart
from practicum.reports.document import Block, Document, Heading, Paragraph, Table
from practicum.reports.run_report import again_blocks, config_blocks, with_n
from practicum.store.run_dir import config_yaml
from practicum.store.study_dir import StudyDir
from practicum.workflows.studies import Study, reward_curve, success_curve


def report_on_study(folder: StudyDir) -> Document:
    """The report on a study as its folder shows it now."""
    study, facts = Study(folder), folder.facts()
    views, unreadable = read_runs(list(folder.runs().values()))
    config = study.config
    base, licence = known_base(config.model.name)
    seeds = ", ".join(map(str, study.seeds))
    subtitle = (
        f"{base} (licence {licence}) on {config.env_name}, seeds {seeds}, begun "
        f"{clock_time(facts.created_at)}; 95 % intervals throughout"
    )
    broken = [Paragraph(text=f"{one.name}: {one.reason}", is_strong=True) for one in unreadable]
    failed = [
        Paragraph(text=f"seed {seed} failed: {told}", is_strong=True)
        for seed, told in study.failures.items()
    ]
    return Document(
        title=f"Study {study.name}",
        subtitle=subtitle,
        front=tuple(card_head(base, licence, "peft")),
        blocks=(
            Paragraph(text=f"Trained {training_words(config).replace('`', '')}."),
            *_evidence(study),
            *broken,
            *failed,
            *_curves(study),
            *_seeds(views),
            *config_blocks(config_yaml(config).decode()),
            *_again(study),
        ),
    )


def _evidence(study: Study) -> list[Block]:
    told: list[Block] = [Heading(text="Evidence over seeds and held-out tasks")]
    try:
        report = study.report()
    except UserError as error:
        return [*told, Paragraph(text=str(error))]
    rows = [(name, with_n(found)) for name, found in study_rows(report)]
    each = [
        (f"seed {seed}", f"{format_success(one, digits=2)}, n = {len(one.tasks)} tasks")
        for seed, one in zip(report.seeds, report.reports, strict=True)
    ]
    caption = f"{len(report.seeds)} seeds on the same {report.n_tasks} held-out tasks"
    told.append(
        Table(head=("score", "value [95 % interval]"), rows=(*rows, *each), caption=caption)
    )
    return [*told, *(Paragraph(text=note) for note in study_notes(report))]


def _curves(study: Study) -> list[Block]:
    """Means over seeds, with bands over them."""
    if not study.runs:
        return []
    told: list[Block] = []
    n = len(study.runs)
    for title, points, color in (
        ("training reward", reward_curve(study), INK),
        ("held-out success", success_curve(study), HELD_OUT),
    ):
        if len(points) > 1:
            caption = f"{title}: mean of {n} seeds at each step, with a 95 % interval"
            series = Series(label="mean of seeds", points=points, color=color)
            told.append(series_chart(title, f"{caption}.", [series]))
    return [Heading(text="Curves"), *told] if told else []


def _seeds(views: list[RunView]) -> list[Block]:
    """How each seed stands, and its alarms."""
    rows = tuple(
        (view.name, view.status.value, f"{view.steps_done} of {view.steps_total}", _gain(view))
        for view in views
    )
    head = ("run", "status", "steps", "held-out success, before and after")
    told: list[Block] = [Heading(text="Seeds"), Table(head=head, rows=rows)]
    alarms = [f"{view.name}, {line}" for view in views for line in alarm_lines(view)]
    if not alarms:
        return [*told, Paragraph(text="No alarm in any of them.")]
    return [*told, *(Paragraph(text=line, is_strong=True) for line in alarms)]


def _gain(view: RunView) -> str:
    points = (view.before, view.after)
    known = [with_n(point.success or point.reward) for point in points if point is not None]
    return " to ".join(known) or "not evaluated yet"


def _again(study: Study) -> list[Block]:
    name, seeds = study.name, ",".join(map(str, study.seeds))
    lines = [
        f"# the config above, saved as {name}.yaml",
        f"practicum train {name}.yaml --seeds {seeds}{',' * (len(study.seeds) == 1)} "
        f"--name {name}-again",
        f"practicum compare runs/{name} runs/{name}-again",
    ]
    told = (
        "practicum report runs/RUN writes the same of a single seed, with examples of its episodes."
    )
    return again_blocks(lines, told)
