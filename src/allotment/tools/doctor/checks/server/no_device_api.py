"""API servers that know no claims at all, or only by old versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import minor_of, remedy

#: The first release in which it is stable, and on.
_STABLE: Final = 34
_TURN_ON: Final = "Somebody has turned it off: look for resource.k8s.io/v1 in --runtime-config of kube-apiserver."
_ASK = "kubectl api-resources --api-group=resource.k8s.io"


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Nothing served, or nothing that is to stay."""
    if cluster.found.served is None:
        return
    release = cluster.found.version or "an unknown release"
    versions = cluster.found.served.get("resourceclaims", ())
    turned_off = (minor_of(cluster.found.version) or 0) >= _STABLE
    if not versions:
        text = f"Kubernetes {release} serves no ResourceClaims: there is no dynamic resource allocation here"
        if turned_off:
            yield Symptom("server", text, remedy(_TURN_ON, _ASK))
            return
        words = "Upgrade to 1.34 or newer, where it is on. In 1.32 and 1.33 kube-apiserver needs --runtime-config and"
        words += " every program --feature-gates=DynamicResourceAllocation=true."
        yield Symptom("server", text, remedy(words, _ASK))
    elif "v1" not in versions:
        text = f"Kubernetes {release} serves resource.k8s.io only as {', '.join(versions)}"
        if turned_off:
            yield Symptom("server", text, remedy(_TURN_ON, _ASK), "warning")
            return
        words = "Upgrade to 1.34 or newer before drivers and manifests ask for v1; v1beta1 ends with 1.38."
        yield Symptom("server", text, remedy(words, _ASK), "warning")


CHECK = ClusterCheck(
    code="D101",
    severity="error",
    summary="the API server has no resource.k8s.io, or only beta versions of it",
    why="Dynamic resource allocation is stable, and on, since Kubernetes 1.34 (KEP-4381). Before, it is beta and off"
    " unless somebody turned it on in the API server, the scheduler, the controller manager and every kubelet.",
    find=find,
    needs=("served",),
)
