"""Checks for other users of the old resource names: metrics, pod autoscalers and node autoscalers."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.phrases import first_few
from allotment.tools.migrate.preflight.check import UNKNOWN, Check
from allotment.tools.migrate.preflight.facts import Facts
from allotment.tools.views import mapping, text

_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
#: Labels by which node autoscalers choose machines.
_CLOUD_LABELS = ("cloud.google.com/", "karpenter.k8s.aws/", "k8s.amazonaws.com/", "kubernetes.azure.com/")


def check_dependents(facts: Facts) -> Iterator[Check]:
    """Check metrics and autoscalers."""
    if not facts.moving:
        return
    if "gpu.nvidia.com" in facts.drivers:
        scaled = tuple(_scaled(facts))
        scaled_note = f" {first_few(scaled, 4)} may scale on these metrics." if scaled else ""
        yield Check(
            state=UNKNOWN,
            title="per-pod metrics",
            text=(
                "DCGM exporter (4.4 or later) adds pod labels to metrics of claimed GPUs only if "
                "KUBERNETES_ENABLE_DRA=true."
                f"{scaled_note}"
            ),
            look="kubectl get daemonset -A -o yaml | grep KUBERNETES_ENABLE_DRA",
            routine=not scaled,
        )
    labels = tuple(
        dict.fromkeys(
            label.term for workload in facts.moving for label in workload.labels if label.term.startswith(_CLOUD_LABELS)
        )
    )
    chosen = f" Node autoscalers can no longer select machines by {first_few(labels, 4)}." if labels else ""
    yield Check(
        state=UNKNOWN,
        title="node autoscaling",
        text=(
            "cluster-autoscaler supports claims with --enable-dynamic-resource-allocation (always on since 1.35), "
            "but only in node groups with a running node. Karpenter ignores pods with claims unless it runs with "
            f"--ignore-dra-requests=false.{chosen}"
        ),
        look="kubectl get deployment -A -o yaml | grep -E 'dynamic-resource|ignore-dra'",
        routine=not labels,
    )


def _scaled(facts: Facts) -> Iterator[str]:
    """The pod autoscalers in the files that target migrated workloads."""
    names = {(workload.kind, workload.name) for workload in facts.moving}
    for document in facts.migration.before:
        target = mapping(mapping(document.tree.get("spec")).get("scaleTargetRef"))
        if document.kind in _SCALERS and (text(target.get("kind")) or "Deployment", text(target.get("name"))) in names:
            yield f"{document.kind} {document.name}"
