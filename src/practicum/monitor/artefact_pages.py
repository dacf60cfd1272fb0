"""The page of artefacts: checkpoints with what they scored, served versions with their lineage."""

from typing import Any

from starlette.responses import Response

from practicum.core.errors import UserError
from practicum.monitor.page_parts import Asked, Monitor
from practicum.store.checkpoints import CheckpointStore, read_manifest
from practicum.store.served_versions import list_served


def artefacts_page(monitor: Monitor, asked: Asked) -> Response:
    """Every checkpoint of every run, and every served version."""
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    views, _ = monitor.runs.views()
    for study in monitor.runs.studies():
        views |= monitor.runs.seeds(study)
    for name, view in views.items():
        scores = {point.step: point for point in view.evaluations}
        store = CheckpointStore(view.path)
        for step in view.checkpoints.steps:
            try:
                manifest = read_manifest(store.path(step))
            except UserError as error:
                problems.append(f"{name}: {error}")
                continue
            point = scores.get(step)
            rows.append(
                {
                    "run": name,
                    "step": step,
                    "marks": [
                        mark
                        for mark, at in (
                            ("latest", view.checkpoints.latest),
                            ("best", view.checkpoints.best),
                        )
                        if at == step
                    ],
                    "base": view.config.model.name,
                    "fingerprint": manifest.fingerprint,
                    "bytes": sum(one.size for one in manifest.files.values()),
                    "sums": {path: one.sha256 for path, one in sorted(manifest.files.items())},
                    "success": point.success if point else None,
                }
            )
    return monitor.page(
        "artefacts.html",
        rows=rows,
        problems=problems,
        served=_served(monitor, problems),
        served_dir=str(monitor.served),
    )


def _served(monitor: Monitor, problems: list[str]) -> list[dict[str, Any]]:
    found = []
    for model in list_served(monitor.served):
        try:
            current: str | None = model.current.version
        except UserError as error:
            current = None
            problems.append(str(error))
        found.append(
            {
                "name": model.name,
                "current": current,
                "versions": model.versions(),
                "history": model.history()[-10:],
            }
        )
    return found
