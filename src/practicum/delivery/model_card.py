"""What is written beside an exported model: its card, and its figures as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from practicum.core.checkpoint import (
    Comparison,
    EvalReport,
    Interval,
    beside_success,
    card_head,
)
from practicum.core.task import JSON
from practicum.delivery.agreement import Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where an export comes from."""

    base: str
    """By the name others know it."""
    model: str
    """By the name that Practicum loads it by."""
    base_fingerprint: str
    policy: str
    """The run and checkpoint, or the model itself."""
    fingerprint: str
    """Of the base and the adapter together."""
    env: str
    """Whose held-out tasks it was checked on; `none` where it was only compared token by token."""
    training: str
    """What it learned by and from; empty where it was not trained, or nobody knows how."""
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One file or folder that was written and checked."""

    kind: str
    """`adapter`, `merged`, or a type of .gguf file."""
    name: str
    bytes: int
    sha256: str = ""
    """Of a single file."""
    agreement: Agreement | None = None
    report: EvalReport | None = None
    """On the held-out tasks, run as its users will run it."""
    comparison: Comparison | None = None
    """With the model it was made from, task by task."""
    fallbacks: tuple[str, ...] = ()
    prompt_speed: float = 0.0
    """Tokens of prompts a second."""
    sampling_speed: float = 0.0
    """Tokens one by one a second."""
    outside: tuple[str, ...] = ()
    """What was outside the limits of its type."""
    is_forced: bool = False
    """Whether it is kept all the same."""

    @property
    def refused(self) -> tuple[str, ...]:
        """Why it is not kept; empty where it is."""
        return () if self.is_forced else self.outside


def results_to_json(
    lineage: Lineage, original: EvalReport | None, exports: Sequence[Exported]
) -> dict[str, JSON]:
    """All figures of an export."""
    return {
        "lineage": {
            "base": lineage.base,
            "model": lineage.model,
            "base_fingerprint": lineage.base_fingerprint,
            "policy": lineage.policy,
            "fingerprint": lineage.fingerprint,
            "environment": lineage.env,
            "training": lineage.training,
            "licence": lineage.licence,
        },
        "original": None if original is None else _scores(original),
        "exports": [_export_to_json(export) for export in exports],
    }


def _export_to_json(export: Exported) -> dict[str, JSON]:
    difference = export.comparison.decisive[1] if export.comparison else None
    return {
        "kind": export.kind,
        "name": export.name,
        "bytes": export.bytes,
        "sha256": export.sha256,
        "agreement": export.agreement.to_json() if export.agreement else None,
        "scores": _scores(export.report) if export.report else None,
        "difference_to_original": _bounds(difference) if difference else None,
        "outside_limits": list(export.outside),
        "kept": not export.refused,
        "fallbacks": list(export.fallbacks),
        "prompt_tokens_per_second": round(export.prompt_speed, 1),
        "sampled_tokens_per_second": round(export.sampling_speed, 1),
    }


def _scores(report: EvalReport) -> dict[str, JSON]:
    failed = report.success_if_masked_failed
    return {
        "n": len(report.tasks),
        "success": _bounds(report.success) if report.success else None,
        "success_if_masked_failed": _bounds(failed) if failed else None,
        "masked": report.masked,
        "reward": _bounds(report.reward),
    }


def _bounds(interval: Interval) -> dict[str, JSON]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}


def write_card(
    lineage: Lineage,
    original: EvalReport | None,
    exports: Sequence[Exported],
    settings: Mapping[str, JSON],
) -> str:
    """The model card: front matter for the hub, lineage, scores and how they were got."""
    is_adapter = all(export.kind == "adapter" for export in exports)
    front = card_head(lineage.base, lineage.licence, "peft" if is_adapter else "transformers")
    trained = f", trained with Practicum {lineage.training}" if lineage.training else ""
    other = "" if f"`{lineage.env}`" in lineage.training else ", which it was not trained on"
    figures = f" Figures are for held-out tasks of `{lineage.env}`{other}, with 95 % intervals."
    told = f"{lineage.base}{trained}.{figures if original else ''}"
    body = [f"# {lineage.policy}", "", told, ""]
    if original is not None:
        body += [
            f"The model it was exported from: success {_success(original)}, mean reward "
            f"{_words(original.reward)}, n = {len(original.tasks)}.",
            "",
        ]
    names = ["file", "MB", "success", "difference", "log-probability gap", "KL"]
    names += ["same likeliest token", "prompt tok/s", "tok/s"]
    kept = [export for export in exports if not export.refused]
    body += [f"| {' | '.join(names)} |", "|---" * len(names) + "|", *map(_row, kept), ""]
    body += [
        f"{export.name} is outside the limits of its type and was kept by force: "
        f"{'; '.join(export.outside)}.\n"
        for export in kept
        if export.outside
    ]
    body += [
        f"{export.name}: {len(export.fallbacks)} tensors are in an older type, because their rows "
        "do not divide by 256.\n"
        for export in kept
        if export.fallbacks
    ]
    body += [f"Base weights {lineage.base_fingerprint}, policy {lineage.fingerprint}.", ""]
    body += ["## How it was trained", "", "| key | value |", "|---|---|"] if settings else []
    body += [f"| `{key}` | `{value}` |" for key, value in settings.items()]
    return "\n".join([*front, *body]) + "\n"


def _row(export: Exported) -> str:
    found, compared = export.agreement, export.comparison
    told = [export.name, f"{export.bytes / 1e6:.0f}"]
    told.append(_success(export.report) if export.report else "-")
    told.append(_words(compared.decisive[1], "+") if compared else "-")
    if found is not None:
        told += [f"{found.gap:.4f}", f"{found.divergence:.4f}", f"{found.same_likeliest:.1%}"]
    else:
        told += ["-"] * 3
    told += [
        f"{speed:.0f}" if speed else "-" for speed in (export.prompt_speed, export.sampling_speed)
    ]
    return f"| {' | '.join(told)} |"


def _success(report: EvalReport) -> str:
    return _words(report.success) + beside_success(report, digits=2)


def _words(interval: Interval | None, sign: str = "") -> str:
    if interval is None:
        return "unknown"
    form = f"{sign}.2f"
    return f"{interval.value:{form}} [{interval.low:{form}}, {interval.high:{form}}]"
