"""Pods that hold devices which none of their containers sees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of, results_of
from allotment.tools.doctor.vendors import VENDORS
from allotment.tools.doctor.wording import remedy
from allotment.tools.doctor.workload_groups import pods_text

#: Drivers that give devices to containers. Others, of networks for example, give them to the pod as a whole.
_TO_CONTAINERS: Final = frozenset(vendor.driver for vendor in VENDORS)


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All of them together."""
    blind: dict[str, str] = {}
    held = 0
    for pod in cluster.pods:
        if is_finished(pod) or not pod.spec.node_name:
            continue
        used = {
            claim.name
            for container in (*pod.spec.init_containers, *pod.spec.containers)
            for claim in container.resources.claims
        }
        for entry, claim in cluster.claims_of(pod):
            own = any(entry == one.name for one in pod.spec.resource_claims)
            results = [one for one in results_of(claim) if one.driver in _TO_CONTAINERS and not one.admin_access]
            if own and entry not in used and results:
                blind[name_of(pod)] = entry
                held += len(results)
    if not blind:
        return
    names = list(blind)
    verb = "has" if len(names) == 1 else "have"
    text = (
        f"{pods_text(cluster, names)} {verb} claim {blind[names[0]]} in spec.resourceClaims, and no container lists it under"
    )
    text += f" resources.claims: {counted(held, 'device')} held, and seen by nobody"
    words = f"Add resources: {{claims: [{{name: {blind[names[0]]}}}]}} to the container, in whatever makes the pod."
    look = "allot check FILE finds this in manifests"
    yield Symptom.of("pod", names, text, remedy(f"{words} {look}."))


CHECK = ClusterCheck(
    code="D608",
    severity="warning",
    summary="a pod has a GPU that none of its containers lists",
    why="A claim belongs to the pod; a container sees only what it lists itself. Without that the GPU is paid for, and"
    " the program says that there is none.",
    find=find,
    needs=("pods", "resourceclaims"),
)
