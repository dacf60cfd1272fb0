"""Words, URLs and small curves of the pages, and what a request may ask for."""

import math

import pytest

from practicum.core.checkpoint import Interval
from practicum.core.errors import UserError
from practicum.monitor.page_parts import Asked, interval_words, link, make_templates, spark, strip
from practicum.monitor.rollout_pages import condition_of
from practicum.store.where import parse_where


def asked(**query: str) -> Asked:
    return Asked(path="/", query=query, several={})


def test_a_curve_has_no_more_points_than_can_be_told_apart() -> None:
    points = spark([float(step) for step in range(10_000)]).split()
    assert len(points) <= 61
    assert points[0].startswith("0.0,")
    heights = [float(point.partition(",")[2]) for point in points]
    assert heights == sorted(heights, reverse=True)  # up is less in an SVG


def test_a_curve_leaves_out_what_is_not_known() -> None:
    assert spark([1.0]) == spark([None, math.nan]) == ""
    assert len(spark([1.0, None, 2.0, math.inf]).split()) == 2
    assert len(spark([3.0, 3.0]).split()) == 2


def test_an_interval_has_its_n_and_one_without_bounds_says_so() -> None:
    found = Interval(value=0.5, low=0.3, high=0.7, n=24, method="wilson")
    assert interval_words(found) == "0.50 [0.30, 0.70] (n = 24)"
    assert strip(found) == (30.0, pytest.approx(40.0), 50.0)
    single = Interval(value=2.0, low=-math.inf, high=math.inf, n=1, method="one task")
    assert interval_words(single) == "2.00 (no interval, n = 1)"
    assert interval_words(None) == "not known"


def test_urls_quote_what_they_are_given() -> None:
    assert link("/run", name="a&b=<c>", step=None, text="") == "/run?name=a%26b%3D%3Cc%3E"
    assert link("/compare", of=["a", "b"]) == "/compare?of=a&of=b"


@pytest.mark.parametrize("given", ["-1", "1.5", "x", "²", "1" * 5000, "1001"])
def test_numbers_of_a_url_are_bounded(given: str) -> None:
    with pytest.raises(UserError, match="from 0 to 1000"):
        asked(skip=given).number("skip", 0, 1000)


def test_the_filter_is_one_condition_whatever_is_typed() -> None:
    both = asked(where="turns > 1 or label = none", success="no", stop="max_turns", least="0.5")
    condition = parse_where(condition_of(both))
    assert condition.values[:1] == (1.0,)
    assert condition.values[1:] == (0, "max_turns", 0.5)
    assert parse_where(condition_of(asked())).sql == "1"
    hostile = asked(purpose='train" or purpose != "x')
    assert parse_where(condition_of(hostile)).values == ('train" or purpose != "x',)
    with pytest.raises(UserError):
        parse_where(condition_of(asked(level="1) or (1 = 1")))


def test_templates_escape_all_and_miss_nothing() -> None:
    made = make_templates()
    assert made.from_string("{{ x }}").render(x="<b>\"'") == "&lt;b&gt;&#34;&#39;"
    sources = [path for path in made.list_templates() if path.endswith(".html")]
    assert len(sources) > 10
    for name in sources:
        assert made.loader is not None
        source = made.loader.get_source(made, name)[0]
        for unsafe in ("|safe", "| safe", "autoescape", "style=", "<script>", " on"):
            attributes = unsafe if unsafe != " on" else " onclick="
            assert attributes not in source, name
