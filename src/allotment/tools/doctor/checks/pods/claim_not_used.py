"""Pods with devices that none of their containers uses."""

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

#: Drivers that prepare devices for containers. Others, for example of networks, prepare them for the whole pod.
_TO_CONTAINERS: Final = frozenset(vendor.driver for vendor in VENDORS)


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All such pods as one symptom."""
    unused: dict[str, str] = {}
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
            in_spec = any(entry == claim_.name for claim_ in pod.spec.resource_claims)
            results = [r for r in results_of(claim) if r.driver in _TO_CONTAINERS and not r.admin_access]
            if in_spec and entry not in used and results:
                unused[name_of(pod)] = entry
                held += len(results)
    if not unused:
        return
    names = list(unused)
    verb = "has" if len(names) == 1 else "have"
    text = (
        f"{pods_text(cluster, names)} {verb} claim {unused[names[0]]} in spec.resourceClaims, but no container lists it"
        " under resources.claims"
        f"; {counted(held, 'device')} {'is' if held == 1 else 'are'} allocated but not used"
    )
    words = f"Add resources: {{claims: [{{name: {unused[names[0]]}}}]}} to the container in the pod's workload."
    look = "allot check FILE finds this mistake in manifests"
    yield Symptom.of("pod", names, text, remedy(f"{words} {look}."))


CHECK = ClusterCheck(
    code="D608",
    severity="warning",
    summary="a pod has a GPU that none of its containers uses",
    why="A claim belongs to the pod; a container gets only the devices of claims that it lists. If no container lists "
    "the claim, the GPU is allocated, but no program can use it.",
    find=find,
    needs=("pods", "resourceclaims"),
)
