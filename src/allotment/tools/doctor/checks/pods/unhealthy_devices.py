"""Pods with unhealthy devices."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.wording import kubectl_args, remedy, unique
from allotment.tools.doctor.workload_groups import pods_text


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All such pods as one symptom."""
    affected: list[str] = []
    devices: list[str] = []
    messages: list[str] = []
    for pod in cluster.pods:
        if is_finished(pod):
            continue
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            for status in container.allocated_resources_status:
                for resource in status.resources:
                    if resource.health == "Unhealthy":
                        affected.append(name_of(pod))
                        devices.append(f"{resource.resource_id or status.name} on {pod.spec.node_name}")
                        messages.append(resource.message)
    if not affected:
        return
    names = unique(affected)
    verb = "has" if len(names) == 1 else "have"
    text = f"{pods_text(cluster, names)} {verb} unhealthy devices: {first_few(unique(devices))}"
    message = next(filter(None, messages), "")
    text += f". The driver reports: {message}" if message else ""
    words = "The pod keeps running. Check the node's hardware; to move the workload, delete the pod (its work is lost)."
    look = f"kubectl describe pod {kubectl_args(names[0])}"
    yield Symptom.of("pod", names, text, remedy(words, look))


CHECK = ClusterCheck(
    code="D607",
    severity="error",
    summary="a pod runs on a device that its driver reports as unhealthy",
    why="Drivers can report the health of devices to the kubelet, which writes it to allocatedResourcesStatus of the"
    " container (KEP-4680). Kubernetes neither restarts nor moves the pod.",
    find=find,
    needs=("pods",),
)
