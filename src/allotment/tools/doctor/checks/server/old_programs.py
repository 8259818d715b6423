"""kube-scheduler and kube-controller-manager with another release than the API server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.control_plane import kube_programs
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.wording import minor_of, remedy

#: Maximum number of minor releases that these programs may be older than the API server.
_SKEW: Final = 1
_COMMAND: Final = "kubectl get pods -n kube-system -o wide"


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """A symptom for each program."""
    version = cluster.snapshot.version
    server = minor_of(version)
    if server is None:
        return
    for program in kube_programs(cluster.pods):
        minor = minor_of(program.version)
        if program.name == "kube-apiserver" or minor is None or minor == server:
            continue
        severity: Severity = "error"
        if minor > server:
            why, words = "which is newer and therefore not supported", "Upgrade the API server."
        elif minor < server - _SKEW:
            why, words = f"which is more than {_SKEW} minor release older", f"Upgrade {program.name}."
        else:
            severity = "note"
            why, words = "which is supported during an upgrade", f"Finish the upgrade of {program.name}."
            if cluster.rules and not program.enabled("DRADeviceTaintRules"):
                severity = "warning"
                why += "; but its gate DRADeviceTaintRules is off, and the cluster has DeviceTaintRules"
        text = f"{program.name} runs {program.version} and the API server {version}, {why}"
        yield Symptom(f"pod {program.pod}", text, remedy(words, _COMMAND), severity, (program.pod,))


CHECK = ClusterCheck(
    code="D106",
    severity="error",
    summary="control plane programs run another release than the API server",
    why="These programs may be one minor release older than the API server, but not newer (Kubernetes' version skew "
    "policy). An older one does not know the versions, fields and feature gates that are new in the release of the "
    "server: kube-scheduler 1.36 allocates devices that a DeviceTaintRule of a 1.37 cluster taints. The releases are "
    "those of the images of the pods in kube-system; other control planes are not checked.",
    find=find,
    needs=("pods",),
)
