"""Views of a run, read from its folder and nothing else."""

from practicum.monitor.canvas import Canvas
from practicum.monitor.evaluations import report_path
from practicum.monitor.json_form import brief_to_json, view_to_json
from practicum.monitor.listing import Unreadable, read_runs, render_runs, render_whole_run
from practicum.monitor.reader import RunStatus, RunView, read_run
from practicum.monitor.terminal import render_run

__all__ = [
    "Canvas",
    "RunStatus",
    "RunView",
    "Unreadable",
    "brief_to_json",
    "read_run",
    "read_runs",
    "render_run",
    "render_runs",
    "render_whole_run",
    "report_path",
    "view_to_json",
]
