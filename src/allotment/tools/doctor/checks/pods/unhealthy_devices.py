"""Pods whose devices have fallen ill."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.wording import kubectl_args, remedy, unique
from allotment.tools.doctor.workload_groups import pods_text


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All of them together."""
    ill: list[str] = []
    devices: list[str] = []
    messages: list[str] = []
    for pod in cluster.pods:
        if is_finished(pod):
            continue
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            for status in container.allocated_resources_status:
                for one in status.resources:
                    if one.health == "Unhealthy":
                        ill.append(name_of(pod))
                        devices.append(f"{one.resource_id or status.name} on {pod.spec.node_name}")
                        messages.append(one.message)
    if not ill:
        return
    names = unique(ill)
    verb = "has" if len(names) == 1 else "have"
    text = f"{pods_text(cluster, names)} {verb} unhealthy devices: {first_few(unique(devices))}"
    message_ = next(filter(None, messages), "")
    text += f". The driver says: {message_}" if message_ else ""
    words = (
        "The pod goes on with it. Look at the node's hardware; to move the work, delete the pod (what it does is lost)."
    )
    look = f"kubectl describe pod {kubectl_args(names[0])}"
    yield Symptom.of("pod", names, text, remedy(words, look))


CHECK = ClusterCheck(
    code="D607",
    severity="error",
    summary="a pod runs on a device that its driver calls unhealthy",
    why="Drivers that watch their hardware tell the kubelet, which writes it into allocatedResourcesStatus of the"
    " container (KEP-4680). Nobody restarts the pod, or moves it.",
    find=find,
    needs=("pods",),
)
