"""Pods whose devices have fallen ill."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.wording import of, remedy, unique
from allotment.tools.doctor.workload_groups import crowd


def find(case: Case) -> Iterable[Sign]:
    """All of them together."""
    ill: list[str] = []
    devices: list[str] = []
    messages: list[str] = []
    for pod in case.pods:
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
    text = f"{crowd(case, names)} {verb} unhealthy devices: {first_few(unique(devices))}"
    said = next(filter(None, messages), "")
    text += f". The driver says: {said}" if said else ""
    words = (
        "The pod goes on with it. Look at the node's hardware; to move the work, delete the pod (what it does is lost)."
    )
    look = f"kubectl describe pod {of(names[0])}"
    yield Sign.of("pod", names, text, remedy(words, look))


CHECK = Check(
    code="D607",
    severity="error",
    summary="a pod runs on a device that its driver calls unhealthy",
    why="Drivers that watch their hardware tell the kubelet, which writes it into allocatedResourcesStatus of the"
    " container (KEP-4680). Nobody restarts the pod, or moves it.",
    find=find,
    needs=("pods",),
)
