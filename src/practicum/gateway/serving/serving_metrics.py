"""`ServingMetrics`: what a server counts, as Prometheus reads it (text format 0.0.4).

Written here and not with `prometheus_client`: these few counters need no registry, and none of the
process's own, and the server stays free of a package that only its metrics would want.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Upper bounds of the histograms, in seconds."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]


class Histogram:
    """Counts of observations by bucket."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """One more observation."""
        self.counts[bisect_left(BUCKETS_S, value)] += 1
        self.total += value


class ServingMetrics:
    """Counters by model; changed on the event loop only."""

    def __init__(self) -> None:
        self.requests: dict[Labels, int] = defaultdict(int)
        """By route, model and status."""
        self.tokens: dict[Labels, int] = defaultdict(int)
        """By model and kind: prompt, cached (of the prompt), completion."""
        self.seconds: dict[Labels, Histogram] = defaultdict(Histogram)
        """By route and model: from the request's arrival to the end of its answer."""
        self.queue_seconds = Histogram()
        self.swaps: dict[Labels, int] = defaultdict(int)
        self.swap_failures: dict[Labels, int] = defaultdict(int)
        self.swap_seconds: dict[Labels, float] = {}
        self.recorded = 0
        self.feedback: dict[Labels, int] = defaultdict(int)
        """By kind: thumbs, score, correction."""

    def swapped(self, model: str, seconds: float) -> None:
        """A model has got other weights."""
        self.swaps[(model,)] += 1
        self.swap_seconds[(model,)] = seconds

    def swap_failed(self, model: str) -> None:
        """A model's new weights could not be read."""
        self.swap_failures[(model,)] += 1

    def sampled(self, model: str, *, prompt: int, cached: int, completion: int) -> None:
        """An answer was sampled."""
        for kind, count in (("prompt", prompt), ("cached", cached), ("completion", completion)):
            self.tokens[(model, kind)] += count

    def render(
        self, *, waiting: int, under_way: int, is_ready: bool, weights: Mapping[str, str]
    ) -> str:
        """Everything as text.

        Args:
            waiting: Requests that wait for their turn.
            under_way: Requests that are being answered.
            is_ready: Whether the weights are loaded.
            weights: Fingerprints by model.
        """
        one: dict[Labels, float] = {(): float(is_ready)}
        info: dict[Labels, float] = dict.fromkeys(weights.items(), 1)
        by_route = ("route", "model")
        lines = [
            *_family("practicum_ready", "gauge", "Whether the weights are loaded.", (), one),
            *_family("practicum_queue", "gauge", "Requests that wait.", (), {(): waiting}),
            *_family("practicum_under_way", "gauge", "Requests answered now.", (), {(): under_way}),
            *_family(
                "practicum_model_info",
                "gauge",
                "The weights of each model.",
                ("model", "fingerprint"),
                info,
            ),
            *_family(
                "practicum_requests_total",
                "counter",
                "Requests by outcome.",
                (*by_route, "status"),
                self.requests,
            ),
            *_family(
                "practicum_tokens_total",
                "counter",
                "Tokens read, found in the cache, and sampled.",
                ("model", "kind"),
                self.tokens,
            ),
            *_histogram("practicum_request_seconds", "Whole requests.", by_route, self.seconds),
            *_histogram(
                "practicum_queue_seconds", "Waiting for a turn.", (), {(): self.queue_seconds}
            ),
            *_family("practicum_swaps_total", "counter", "Swaps.", ("model",), self.swaps),
            *_family(
                "practicum_swap_failures_total",
                "counter",
                "Weights that could not be read.",
                ("model",),
                self.swap_failures,
            ),
            *_family(
                "practicum_swap_seconds", "gauge", "The last swap.", ("model",), self.swap_seconds
            ),
            *_family(
                "practicum_recorded_total", "counter", "Traces kept.", (), {(): self.recorded}
            ),
            *_family("practicum_feedback_total", "counter", "Feedback.", ("kind",), self.feedback),
        ]
        return "\n".join(lines) + "\n"


def _family(
    name: str,
    kind: str,
    text: str,
    labels: Sequence[str],
    values: Mapping[Labels, float],
) -> Iterable[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for key, value in values.items():
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        yield f"{name}{_labels(labels, key)} {shown}"


def _histogram(
    name: str, text: str, labels: Sequence[str], values: Mapping[Labels, Histogram]
) -> Iterable[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} histogram"
    for key, histogram in values.items():
        seen = 0
        bounds = [*(f"{bound:g}" for bound in BUCKETS_S), "+Inf"]
        for bound, count in zip(bounds, histogram.counts, strict=True):
            seen += count
            yield f"{name}_bucket{_labels((*labels, 'le'), (*key, bound))} {seen}"
        yield f"{name}_sum{_labels(labels, key)} {histogram.total:.6f}"
        yield f"{name}_count{_labels(labels, key)} {seen}"


def _labels(names: Sequence[str], values: Labels) -> str:
    r"""Labels between braces, escaped.

    >>> _labels(("model",), ('a"b',))
    '{model="a\\"b"}'
    """
    if not names:
        return ""
    escape = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    pairs = zip(names, values, strict=True)
    return "{" + ",".join(f'{name}="{value.translate(escape)}"' for name, value in pairs) + "}"
