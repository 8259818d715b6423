"""Nodes with two drivers of the same name: Allotment's and the vendor's."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.vendors import allotment_driver
from allotment.tools.doctor.wording import named, remedy, unique
from allotment.vocabulary.driver_detection import vendor_driver


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """One symptom per driver for all such nodes."""
    allotment: dict[tuple[str, str], Pod] = {}
    others: dict[tuple[str, str], Pod] = {}
    for pod in cluster.pods:
        owner = next((ref for ref in pod.metadata.owner_references if ref.controller), None)
        if owner is None or owner.kind != "DaemonSet" or not pod.spec.node_name or is_finished(pod):
            continue
        driver = allotment_driver(pod)
        if driver:
            allotment[pod.spec.node_name, driver] = pod
            continue
        for word in (owner.name, *(container.image for container in pod.spec.containers)):
            others[pod.spec.node_name, vendor_driver(word)] = pod
    for driver in unique(name for _, name in allotment):
        nodes = unique(node for node, name in allotment if name == driver and (node, name) in others)
        if not nodes:
            continue
        both = [name_of(kind[nodes[0], driver]) for kind in (others, allotment)]
        text = f"{driver} runs twice on {named('node', nodes)}, as pods {' and '.join(both)}. Each deletes the"
        text += " other's slices, and the kubelet knows only the one that registered last"
        namespace = allotment[nodes[0], driver].metadata.namespace
        help_ = remedy(
            "Run only one of them on the node: exclude the node from the other DaemonSet with nodeSelector or affinity,"
            " or uninstall it.",
            f"kubectl get daemonsets -n {namespace}",
        )
        yield Symptom.of("node", nodes, text, help_)


CHECK = ClusterCheck(
    code="D208",
    severity="error",
    summary="two drivers with the same name run on a node",
    why="Only one program on a node can use a driver name and its sockets, pool and checkpoint. Claims that one has "
    "prepared are unknown to the other. Vendors' drivers are recognized by the name of the DaemonSet or image, "
    "Allotment's by labels; two pods of the same DaemonSet during an update are not reported.",
    find=find,
    needs=("pods",),
)
