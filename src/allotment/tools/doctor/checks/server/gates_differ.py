"""Feature gates of devices that differ between the API server and the other programs and kubelets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.model.features import DECLARED, GATES
from allotment.phrases import first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.control_plane import kube_programs
from allotment.tools.doctor.wording import minor_of, named, remedy

#: Gates of groups, which scheduler, controllers and API server must share.
_WORKLOADS: Final = frozenset({"GenericWorkload", "CompositePodGroup", "TopologyAwareWorkloadScheduling"})
#: The first kubelet that declares them.
_DECLARES: Final = 37
_NODE_COMMAND: Final = "kubectl get nodes -o yaml | grep -A9 declaredFeatures"
_COMMAND: Final = "kubectl get --raw /metrics | grep kubernetes_feature_enabled"


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """A symptom for each program, and one for each gate of kubelets."""
    gates = cluster.snapshot.gates or {}
    for program in kube_programs(cluster.pods):
        if program.name == "kube-apiserver" or program.gates is None:
            continue
        differing = [
            f"{gate}={str(not on).lower()}"
            for gate, on in gates.items()
            if _concerns_devices(gate) and program.enabled(gate) != on
        ]
        if differing:
            text = f"{program.name} has {first_few(differing)}, unlike the API server"
            words = f"Set the same feature {'gate' if len(differing) == 1 else 'gates'} in both programs."
            yield Symptom(f"pod {program.pod}", text, remedy(words, _COMMAND), objects=(program.pod,))
    for gate in DECLARED:
        if not gates.get(gate):
            continue
        names = [
            name
            for name, node in cluster.nodes.items()
            if name in cluster.drivers_on
            and (minor_of(node.status.node_info.kubelet_version) or 0) >= _DECLARES
            and gate not in node.status.declared_features
        ]
        if names:
            do = "does" if len(names) == 1 else "do"
            text = f"{gate} is enabled in the API server, but {named('node', names)} {do} not declare it"
            words = f"Enable it with --feature-gates={gate}=true in the kubelets, or disable it in the API server."
            yield Symptom.of("node", names, text, remedy(words, _NODE_COMMAND))


def _concerns_devices(gate: str) -> bool:
    return gate in GATES and (gate in _WORKLOADS or gate.startswith("DRA"))


CHECK = ClusterCheck(
    code="D107",
    severity="warning",
    summary="feature gates differ between the API server and other programs",
    why="A feature of devices works only if its gate is on in kube-apiserver, kube-scheduler, kube-controller-manager "
    "and the kubelets: a scheduler without the gate ignores the fields, and allocates devices as if they were not set. "
    "The gates of programs are read from the command lines of the pods in kube-system, those of kubelets from the "
    "features that a node declares (KEP-5328); other control planes are not checked.",
    find=find,
    needs=("pods", "nodes", "gates"),
)
