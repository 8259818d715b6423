"""Kubelets with a release that is too old or too new for the API server or for claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.wording import minor_of, named, remedy

#: Maximum number of minor releases that a kubelet may be older than the API server.
_SKEW: Final = 3
#: The first kubelet in which claims are stable.
_STABLE: Final = 34


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Nodes by the problem of their kubelet's version."""
    version = cluster.snapshot.version
    server = minor_of(version)
    newer: list[str] = []
    older: list[str] = []
    early: list[str] = []
    for name, node in cluster.nodes.items():
        kubelet = minor_of(node.status.node_info.kubelet_version)
        if kubelet is None:
            continue
        if server is not None and kubelet > server:
            newer.append(name)
        elif server is not None and kubelet < server - _SKEW:
            older.append(name)
        elif kubelet < _STABLE and name in cluster.drivers_on:
            early.append(name)
    for names, problem, words in (
        (newer, f"which is newer than the API server ({version}) and therefore not supported",
         "Upgrade the API server."),
        (older, f"which is more than {_SKEW} minor releases older than the API server ({version})",
         "Upgrade the kubelets."),
        (early, "in which dynamic resource allocation is disabled by default; a driver publishes devices there",
         "Upgrade the kubelets to 1.34 or newer."),
    ):  # fmt: skip
        if names:
            kubelet_version = cluster.nodes[names[0]].status.node_info.kubelet_version
            run = "runs" if len(names) == 1 else "run"
            text = f"{named('node', names)} {run} kubelet {kubelet_version}, {problem}"
            severity: Severity | None = "warning" if names is early else None
            yield Symptom.of("node", names, text, remedy(words, "kubectl get nodes"), severity)


CHECK = ClusterCheck(
    code="D103",
    severity="error",
    summary="kubelets run a release that is incompatible with the API server or with claims",
    why="A kubelet may be up to three minor releases older than the API server, but not newer (Kubernetes' version skew"
    " policy). A kubelet before 1.34 prepares claims only if its feature gate DynamicResourceAllocation is enabled, "
    "and uses an older protocol to communicate with drivers.",
    find=find,
    needs=("nodes",),
)
