"""Generates the reference of metrics, causes and alerts: the second half of ``docs/reference/metrics.md``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from allotment.engine.refusal import CODES
from allotment.exporter.alerts import ALERTS, RUNBOOKS
from allotment.exporter.alerts.alert import Alert
from allotment.exporter.causes import CAUSES
from allotment.exporter.definitions import CLAIM_CONTROLLER, COMPONENTS, GROUPS
from allotment.exporter.metric import Metric

#: Path of the page from the project root, and the line after which the reference begins.
PAGE: Final = RUNBOOKS
MARK: Final = "<!-- Everything below is generated from allotment.exporter: definitions, causes, alerts. -->\n"

_TITLES: Final = {
    "allotment-cluster": "Alerts about devices, claims and pods",
    "allotment-components": "Alerts about Allotment's own components",
}


def page(before: str) -> str:
    """Return the page ``before`` with the reference updated."""
    lines = (*_metrics(), *_causes(), *_alerts())
    return before.partition(MARK)[0] + MARK + "\n".join(("", *lines)) + "\n"


def _metrics() -> Iterator[str]:
    yield "## All metrics"
    groups = {**GROUPS, "The claim controller": CLAIM_CONTROLLER, "All components": COMPONENTS}
    for title, metrics in groups.items():
        yield from ("", f"### {title}", "", "| metric | labels | meaning | series |", "|---|---|---|---|")
        yield from (_row(metric) for metric in metrics)


def _row(metric: Metric) -> str:
    kind = "" if metric.kind == "gauge" else f" ({metric.kind})"
    cells = (
        f"`{metric.name}`{kind}",
        " ".join(f"`{label}`" for label in metric.labels),
        metric.help,
        metric.cardinality,
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _causes() -> Iterator[str]:
    yield from (
        "",
        "## Causes",
        "",
        "The label `cause` is the code of the pod's first reason ([reasons.md](reasons.md)) or one of these values:",
        "",
        "| cause | meaning |",
        "|---|---|",
    )
    yield from (f"| `{name}` | {text} |" for name, text in CAUSES.items() if name not in CODES)
    yield from ("", "The reason codes:", "", ", ".join(f"`{name}`" for name in CODES) + ".")


def _alerts() -> Iterator[str]:
    for group, alerts in ALERTS.items():
        yield from ("", f"## {_TITLES[group]}")
        for alert in alerts:
            yield from _alert(alert)


def _alert(alert: Alert) -> Iterable[str]:
    lasting = "as soon as this is true" if alert.duration == "0m" else f"if this is true for {alert.duration}"
    return ("", f"### {alert.name}", "", f"{alert.severity}, {lasting}: `{alert.expression}`", "", alert.advice)
