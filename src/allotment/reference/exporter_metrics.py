"""The metrics of the exporter, and of every component."""

from __future__ import annotations

from typing import Any

from allotment.exporter.definitions import COMPONENTS, GROUPS


def metrics() -> list[dict[str, Any]]:
    """Return the definition of each metric: name, type, help, labels, the number of its series, and group.

    The keys of a metric: ``name``, ``type``, ``help``, ``labels``, ``series``, ``group``.
    """
    return [
        {
            "name": metric.name,
            "type": metric.kind,
            "help": metric.help,
            "labels": list(metric.labels),
            "series": metric.cardinality,
            "group": group,
        }
        for group, metrics in {**GROUPS, "Every component": COMPONENTS}.items()
        for metric in metrics
    ]
