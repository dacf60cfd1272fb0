"""What every page is made with: the request that is answered, the templates, and words for numbers.

Templates escape whatever they are given, and no filter here marks anything as safe.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from practicum.analysis.wording import clock_time, format_age, format_duration, format_number
from practicum.core.checkpoint import Interval
from practicum.core.errors import UserError
from practicum.monitor.open_stores import StoreThreads
from practicum.monitor.run_folders import RunFolders

HERE = Path(__file__).parent
LONGEST = 19
"""Digits of the longest number that is read at all."""
SPARK_WIDTH, SPARK_HEIGHT = 120, 24
SPARK_POINTS = 60
"""Points of a sparkline: more cannot be told apart in its width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, as the pages need it."""

    path: str
    query: Mapping[str, str]
    several: Mapping[str, list[str]]
    """Every value of each name of the query."""
    form: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, otherwise: str = "") -> str:
        """A value of the query."""
        return self.query.get(name, otherwise)

    def number(self, name: str, otherwise: int, most: int) -> int:
        """A whole number of the query, from 0 to `most`."""
        given = self.query.get(name, "")
        if not given:
            return otherwise
        is_number = given.isascii() and given.isdigit() and len(given) <= LONGEST
        if not is_number or int(given) > most:
            raise UserError(f"{name} is {given[:40]!r}; give a whole number from 0 to {most}")
        return int(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor:
    """What pages read from, and whether they may write."""

    runs: RunFolders
    stores: StoreThreads
    served: Path
    """Where served models lie."""
    may_write: bool
    author: str
    """Whose labels are written."""
    templates: Environment

    def page(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """A page of a template."""
        own = {"may_write": self.may_write, "runs_dir": str(self.runs.path)}
        text = self.templates.get_template(template).render(**own, **values)
        return HTMLResponse(text.encode("utf-8", "replace"), status_code=status)


def make_templates() -> Environment:
    """The templates, with everything escaped and nothing forgotten silently."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=format_number,
        seconds=lambda value: "–" if value is None else format_duration(value),
        clock=clock_time,
        age=format_age,
        interval=interval_words,
        percent=lambda value: "–" if value is None else f"{100 * value:.0f} %",
        pretty=lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    )
    made.globals.update(link=link, spark=spark, strip=strip)
    return made


def link(path: str, **query: object) -> str:
    """A URL of this site; names without a value are left out."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def interval_words(found: Interval | None) -> str:
    """An estimate, its 95 % bounds and of how many."""
    if found is None:
        return "not known"
    if not (math.isfinite(found.low) and math.isfinite(found.high)):
        return f"{found.value:.2f} (no interval, n = {found.n})"
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}] (n = {found.n})"


def spark(values: Sequence[float | None]) -> str:
    """The points of a small curve, for an SVG polyline; empty for fewer than two values."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < 2:
        return ""
    size = max(1, math.ceil(len(known) / SPARK_POINTS))
    shown = [sum(part) / len(part) for part in _parts(known, size)]
    low, high = min(shown), max(shown)
    wide, high_or_1 = max(1, len(shown) - 1), (high - low) or 1.0
    return " ".join(
        f"{SPARK_WIDTH * place / wide:.1f},"
        f"{1 + (SPARK_HEIGHT - 2) * (1 - (value - low) / high_or_1):.1f}"
        for place, value in enumerate(shown)
    )


def _parts(values: Sequence[float], size: int) -> list[Sequence[float]]:
    return [values[start : start + size] for start in range(0, len(values), size)]


def strip(found: Interval) -> tuple[float, float, float]:
    """Where an interval of a share begins, how wide it is, and its estimate, in percent."""
    low, high, value = (
        100 * min(1.0, max(0.0, bound)) for bound in (found.low, found.high, found.value)
    )
    return low, high - low, value
