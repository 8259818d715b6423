"""Checks the Kubernetes release and the feature gates that the new manifests need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.model.features import GATES, on_by_default_since
from allotment.phrases import first_few
from allotment.tools.migrate.preflight.check import UNKNOWN, Check
from allotment.tools.migrate.preflight.facts import Facts
from allotment.tools.migrate.target import OLDEST

#: The patch releases that NVIDIA's driver needs: kubernetes/kubernetes#133920. The release tables do not list patches.
_NEEDED_PATCHES: Final = {"1.34": "1.34.2 or later (kubernetes/kubernetes#133920)"}
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
    late = f" NVIDIA's driver requires {needed}." if (needed := _NEEDED_PATCHES.get(target.kube)) else ""
    yield Check(state="ok", title=title, text=f"It serves resource.k8s.io/v1.{late}", look="kubectl version")
    gates = dict.fromkeys(gate for workload in facts.moving for gate in workload.decision.needs.kube_gates)
    for gate in gates:
        stage, default, *_ = GATES[gate].get(target.kube, ("", False))
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
                f"{'stays' if len(behind) == 1 else 'stay'} with the device plugin. It is on by default since "
                f"{on_by_default_since('DRAExtendedResource')}."
            ),
        )
