"""Checks for manifests that Helm or Argo CD manage, which would revert the changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from allotment.phrases import first_few
from allotment.tools.migrate.preflight.check import Check
from allotment.tools.migrate.preflight.facts import Facts
from allotment.tools.views import at, mapping


def check_charts(facts: Facts) -> Iterator[Check]:
    """Report the charts and applications that changed workloads come from."""
    changed = {(workload.file, workload.kind, workload.name) for workload in facts.moving if workload.decision.changes}
    helm: dict[str, None] = {}
    argo: dict[str, None] = {}
    for document in facts.migration.before:
        if (document.file, document.kind, document.name) not in changed:
            continue
        labels = mapping(at(document.tree, ("metadata", "labels")))
        annotations = mapping(at(document.tree, ("metadata", "annotations")))
        if labels.get("helm.sh/chart") or labels.get("app.kubernetes.io/managed-by") == "Helm":
            helm[str(labels.get("helm.sh/chart") or document.name)] = None
        if _tracked(labels, annotations):
            argo[document.name] = None
    if helm:
        text = (
            f"Rendered from {first_few(tuple(helm), 4)}: the next helm upgrade would revert the changes, so make "
            "them in the chart's values or templates, or in a post-renderer."
        )
        yield Check(state="to do", title="Helm", text=text)
    if argo:
        text = (
            f"Argo CD manages {first_few(tuple(argo), 4)} and reverts changes made elsewhere, so commit the new "
            "files to the source repository."
        )
        yield Check(state="to do", title="Argo CD", text=text)


def _tracked(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> bool:
    return "argocd.argoproj.io/tracking-id" in annotations or "argocd.argoproj.io/instance" in labels
