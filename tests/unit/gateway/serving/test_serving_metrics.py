"""What Prometheus reads is what was counted."""

from practicum.gateway.serving.serving_metrics import BUCKETS_S, ServingMetrics


def rendered(metrics: ServingMetrics) -> list[str]:
    weights = {'a"b': "f1"}
    text = metrics.render(waiting=2, under_way=3, is_ready=True, weights=weights)
    return text.splitlines()


def test_counters_and_gauges_have_their_labels() -> None:
    metrics = ServingMetrics()
    metrics.requests[("/v1/messages", "a", "200")] += 2
    metrics.sampled("a", prompt=10, cached=4, completion=5)
    metrics.swapped("a", 0.25)
    lines = rendered(metrics)
    for line in (
        "practicum_ready 1",
        "practicum_queue 2",
        "practicum_under_way 3",
        'practicum_model_info{model="a\\"b",fingerprint="f1"} 1',
        'practicum_requests_total{route="/v1/messages",model="a",status="200"} 2',
        'practicum_tokens_total{model="a",kind="cached"} 4',
        'practicum_swaps_total{model="a"} 1',
        'practicum_swap_seconds{model="a"} 0.25',
    ):
        assert line in lines


def test_a_histogram_counts_up_to_its_last_bucket() -> None:
    metrics = ServingMetrics()
    for seconds in (0.05, 0.2, 1000.0):
        metrics.seconds[("/solve", "a")].add(seconds)
    lines = [line for line in rendered(metrics) if line.startswith("practicum_request_seconds")]
    counts = [int(line.rsplit(" ", 1)[1]) for line in lines if "_bucket" in line]
    assert counts == [1, 1, 2, *[2] * (len(BUCKETS_S) - 3), 3]
    assert lines[-1].endswith(" 3")


def test_every_family_is_described_once() -> None:
    lines = rendered(ServingMetrics())
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    samples = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    known = {f"{name}{end}" for name in types for end in ("", "_bucket", "_sum", "_count")}
    assert samples <= known
