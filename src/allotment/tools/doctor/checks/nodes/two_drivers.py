"""Two programs on a node that are drivers of one name: ours and the vendor's own."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.vendors import our_driver
from allotment.tools.doctor.wording import about, remedy, unique
from allotment.vocabulary.driver_detection import vendors_driver


def find(case: Case) -> Iterable[Sign]:
    """By driver, all nodes together."""
    ours: dict[tuple[str, str], Pod] = {}
    others: dict[tuple[str, str], Pod] = {}
    for pod in case.pods:
        owner = next((one for one in pod.metadata.owner_references if one.controller), None)
        if owner is None or owner.kind != "DaemonSet" or not pod.spec.node_name or is_finished(pod):
            continue
        mine = our_driver(pod)
        if mine:
            ours[pod.spec.node_name, mine] = pod
            continue
        for word in (owner.name, *(one.image for one in pod.spec.containers)):
            others[pod.spec.node_name, vendors_driver(word)] = pod
    for driver in unique(name for _, name in ours):
        nodes = unique(node for node, name in ours if name == driver and (node, name) in others)
        if not nodes:
            continue
        both = [name_of(kind[nodes[0], driver]) for kind in (others, ours)]
        text = f"{about('node', nodes)}: {driver} runs twice, as pods {first_few(both)}: each removes the slices that the"
        text += " other publishes, and the kubelet knows the one that came last"
        namespace = ours[nodes[0], driver].metadata.namespace
        help_ = remedy(
            "Let one of the two run there: keep the other's DaemonSet off the node by its nodeSelector or affinity, or"
            " uninstall it.",
            f"kubectl get daemonsets -n {namespace}",
        )
        yield Sign.of("node", nodes, text, help_)


CHECK = Check(
    code="D208",
    severity="error",
    summary="two drivers of one name run on a node",
    why="A name stands for one program on a node: its sockets, its pool, its checkpoint. Claims that one has prepared"
    " are unknown to the other. The vendors' are known by the name of DaemonSet or image, ours by their labels; during"
    " an update of one of them two pods of it are right.",
    find=find,
    needs=("pods",),
)
