"""API servers without resource.k8s.io, or with beta versions only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import minor_of, remedy

#: The first minor release in which resource.k8s.io/v1 is on by default.
_STABLE: Final = 34
_TURN_ON: Final = "The API has been disabled: check resource.k8s.io/v1 in --runtime-config of kube-apiserver."
_COMMAND = "kubectl api-resources --api-group=resource.k8s.io"


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """A symptom if the API server serves no version, or only beta versions."""
    if cluster.snapshot.served is None:
        return
    release = cluster.snapshot.version or "(unknown release)"
    versions = cluster.snapshot.served.get("resourceclaims", ())
    turned_off = (minor_of(cluster.snapshot.version) or 0) >= _STABLE
    if not versions:
        text = f"Kubernetes {release} serves no ResourceClaims: dynamic resource allocation is not available"
        if turned_off:
            yield Symptom("server", text, remedy(_TURN_ON, _COMMAND))
            return
        words = (
            "Upgrade to 1.34 or newer, where it is enabled by default. In 1.32 and 1.33, set --runtime-config on "
            "kube-apiserver, and"
        )
        words += " --feature-gates=DynamicResourceAllocation=true on every component."
        yield Symptom("server", text, remedy(words, _COMMAND))
    elif "v1" not in versions:
        text = f"Kubernetes {release} serves resource.k8s.io only as {', '.join(versions)}"
        if turned_off:
            yield Symptom("server", text, remedy(_TURN_ON, _COMMAND), "warning")
            return
        words = "Upgrade to 1.34 or newer before drivers and manifests require v1; v1beta1 is removed in 1.38."
        yield Symptom("server", text, remedy(words, _COMMAND), "warning")


CHECK = ClusterCheck(
    code="D101",
    severity="error",
    summary="the API server does not serve resource.k8s.io, or only in beta versions",
    why="Dynamic resource allocation has been stable and enabled by default since Kubernetes 1.34 (KEP-4381). In "
    "earlier releases it is disabled by default and must be enabled in the API server, the scheduler, the "
    "controller manager and every kubelet.",
    find=find,
    needs=("served",),
)
