"""The alerts as a Prometheus rule file and as a PrometheusRule object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.exporter.alerts.alert import Alert
from allotment.exporter.alerts.cluster import CLUSTER
from allotment.exporter.alerts.components import COMPONENTS
from allotment.model.trees import Tree

#: Default location of the page that explains what to do for each alert.
RUNBOOKS: Final = "docs/reference/metrics.md"
#: By group name.
ALERTS: Final[Mapping[str, tuple[Alert, ...]]] = {"allotment-cluster": CLUSTER, "allotment-components": COMPONENTS}


def rules(runbooks: str = RUNBOOKS) -> Tree:
    """Return the rule file for ``rule_files`` of Prometheus."""
    return {
        "groups": [
            {"name": name, "rules": [_rule(alert, runbooks) for alert in alerts]} for name, alerts in ALERTS.items()
        ]
    }


def prometheus_rule(runbooks: str = RUNBOOKS) -> Tree:
    """Return the rules as an object for the Prometheus operator."""
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
        "for": alert.duration,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{runbooks}#{alert.name.lower()}",
        },
    }
