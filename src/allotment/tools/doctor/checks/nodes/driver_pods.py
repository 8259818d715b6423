"""Driver pods that are not ready."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from allotment.phrases import counted, first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import condition_of, is_down, is_finished, name_of
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.vendors import is_driver
from allotment.tools.doctor.wording import named, remedy, unique

_MIN_AGE: Final = timedelta(minutes=2)


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Driver pods that are not ready, by DaemonSet."""
    by_set: dict[str, list[Pod]] = {}
    for pod in cluster.pods:
        owner = next((ref for ref in pod.metadata.owner_references if ref.controller), None)
        if owner is None or owner.kind != "DaemonSet" or not is_driver(pod, owner.name):
            continue
        if pod.metadata.deletion_timestamp is not None or is_finished(pod) or _is_silent(cluster, pod):
            continue
        if condition_of(pod, "Ready") != "True" and cluster.is_old(pod.metadata.creation_timestamp, _MIN_AGE):
            by_set.setdefault(f"{pod.metadata.namespace}/{owner.name}", []).append(pod)
    for set_, pods in by_set.items():
        nodes = unique(pod.spec.node_name or "no node" for pod in pods)
        states = unique(filter(None, (_state(pod) for pod in pods)))
        states_text = first_few(states) or pods[0].status.phase or "no status"
        publishing = sum(node in cluster.drivers_on for node in nodes)
        are = "is" if len(pods) == 1 else "are"
        text = f"{named('pod', [name_of(pod) for pod in pods])} of DaemonSet {set_} {are} not ready: {states_text}."
        if publishing:
            text += (
                f" Devices on {counted(publishing, 'node')} are still published and allocated, but pods that use them"
            )
            text += " cannot start"
        else:
            have = "has" if len(nodes) == 1 else "have"
            text += f" {counted(len(nodes), 'node')} {have} no devices of this driver"
        namespace, name = pods[0].metadata.namespace, pods[0].metadata.name
        help_ = remedy(
            "Find out why it fails:", f"kubectl logs -n {namespace} {name} --all-containers --tail=50",
            f"kubectl describe pod -n {namespace} {name}",
        )  # fmt: skip
        names = [name_of(pod) for pod in pods]
        yield Symptom.of("pod", names, text, help_)


def _is_silent(cluster: ClusterIndex, pod: Pod) -> bool:
    """Whether the pod's state is unknown because its node does not exist or is not Ready; other checks report that."""
    node = cluster.nodes.get(pod.spec.node_name)
    return bool(pod.spec.node_name and cluster.nodes) and (node is None or is_down(node))


def _state(pod: Pod) -> str:
    """The reason why a container is not ready; empty if it is unknown."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.state.waiting is not None and status.state.waiting.reason:
            restarts = f", {counted(status.restart_count, 'restart')}" if status.restart_count else ""
            return f"container {status.name} is in {status.state.waiting.reason}{restarts}"
    return next((f"container {s.name} is not ready" for s in pod.status.container_statuses if not s.ready), "")


CHECK = ClusterCheck(
    code="D202",
    severity="error",
    summary="a driver pod is not ready",
    why="Without the driver, no claim can be prepared on the node: published devices are still allocated, and pods stay"
    " in ContainerCreating. A driver is recognized by `dra` in the name of its DaemonSet or image, or by the host "
    "paths that it mounts: the kubelet's plugins_registry together with a CDI or NRI directory. Allotment's drivers "
    "are recognized"
    " by labels.",
    find=find,
    needs=("pods",),
)
