"""Checks the Kubernetes release and the feature gates that the new manifests need."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.features import GATES
from allotment.phrases import first_few
from allotment.tools.migrate.preflight.check import UNKNOWN, Check
from allotment.tools.migrate.preflight.facts import Facts
from allotment.tools.migrate.target import OLDEST

_EVERYWHERE = "kube-apiserver, kube-scheduler, kube-controller-manager and every kubelet"


def check_release(facts: Facts) -> Iterator[Check]:
    """Check that the release serves the API, and report the gates that must be on."""
    target = facts.migration.target
    title = f"Kubernetes {target.kube}"
    if target.features is None:
        yield Check(
            state="to do",
            title=title,
            text=f"It does not serve resource.k8s.io/v1: upgrade to {OLDEST} or later, then migrate.",
            look="kubectl version",
        )
        return
    late = " NVIDIA's driver requires 1.34.2 or later (kubernetes/kubernetes#133920)." if target.kube == "1.34" else ""
    yield Check(state="ok", title=title, text=f"It serves resource.k8s.io/v1.{late}", look="kubectl version")
    gates = dict.fromkeys(gate for workload in facts.moving for gate in workload.decision.needs.kube_gates)
    for gate in gates:
        stage, default = GATES[gate].get(target.kube, ("", False))
        if default:
            yield Check(state="ok", title=gate, text=f"{stage} and on by default in {target.kube}.")
        else:
            yield Check(
                state=UNKNOWN,
                title=gate,
                text=f"{stage} and off by default in {target.kube}: enable it in {_EVERYWHERE}.",
                look="kubectl get --raw /metrics | grep kubernetes_feature_enabled",
            )
    behind = [
        workload.subject
        for workload in facts.migration.workloads
        if "DRAExtendedResource is off" in workload.decision.reason
    ]
    if behind:
        yield Check(
            state="ok",
            title="DRAExtendedResource",
            text=(
                f"It is off in {target.kube}, so {first_few(tuple(behind), 4)} "
                f"{'stays' if len(behind) == 1 else 'stay'} with the device plugin. It is on by default since 1.36."
            ),
        )
