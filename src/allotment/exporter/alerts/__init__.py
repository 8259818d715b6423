"""The alerts, as Prometheus and its operator read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.exporter.alerts.alert import Alert
from allotment.exporter.alerts.cluster import CLUSTER
from allotment.exporter.alerts.components import COMPONENTS
from allotment.model.trees import Tree

#: Where the page with what to do is, unless somebody says otherwise.
RUNBOOKS: Final = "docs/metrics.md"
#: By the name of their group.
ALERTS: Final[Mapping[str, tuple[Alert, ...]]] = {"allotment-cluster": CLUSTER, "allotment-components": COMPONENTS}


def rules(runbooks: str = RUNBOOKS) -> Tree:
    """The rule file, as ``rule_files`` of Prometheus names it."""
    return {
        "groups": [
            {"name": name, "rules": [_rule(alert, runbooks) for alert in alerts]} for name, alerts in ALERTS.items()
        ]
    }


def prometheus_rule(runbooks: str = RUNBOOKS) -> Tree:
    """The same as an object for Prometheus' operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "allotment", "labels": {"app.kubernetes.io/name": "allotment"}},
        "spec": rules(runbooks),
    }


def _rule(alert: Alert, runbooks: str) -> Tree:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{runbooks}#{alert.name.lower()}",
        },
    }
