"""Held-out scores with intervals, and paired comparisons."""

from practicum.evaluation.compare import compare_reports, is_difference
from practicum.evaluation.evaluate import Evaluation, evaluate
from practicum.evaluation.intervals import mean_interval, share_interval
from practicum.evaluation.passk import pass_at_k, pass_at_k_interval
from practicum.evaluation.report import (
    build_report,
    comparison_from_json,
    comparison_to_json,
    render_comparison,
    render_report,
    report_from_json,
    report_to_json,
    verdict,
)

__all__ = [
    "Evaluation",
    "build_report",
    "compare_reports",
    "comparison_from_json",
    "comparison_to_json",
    "evaluate",
    "is_difference",
    "mean_interval",
    "pass_at_k",
    "pass_at_k_interval",
    "render_comparison",
    "render_report",
    "report_from_json",
    "report_to_json",
    "share_interval",
    "verdict",
]
