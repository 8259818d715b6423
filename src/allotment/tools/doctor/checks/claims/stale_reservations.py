"""Claims that are reserved for deleted or finished pods."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.resource import ResourceClaimConsumerReference
from allotment.phrases import counted, first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of, results_of
from allotment.tools.doctor.wording import named, remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Claims without any remaining consumer, as one symptom."""
    stale: dict[str, list[str]] = {}
    held = 0
    for claim in cluster.claims.values():
        consumers = claim.status.reserved_for
        if not consumers or not cluster.is_old(claim.metadata.creation_timestamp):
            continue
        states = [_state(cluster, consumer) for consumer in consumers]
        if all(states):
            stale[name_of(claim)] = [
                f"pod {consumer.name} ({state})" for consumer, state in zip(consumers, states, strict=True)
            ]
            held += sum(1 for _ in results_of(claim))
    if not stale:
        return
    names = list(stale)
    is_, hold = ("is", "holds") if len(names) == 1 else ("are", "hold")
    pods = first_few([pod for consumers in stale.values() for pod in consumers])
    text = f"{named('claim', names)} {is_} reserved for {pods} and {hold} {counted(held, 'device')}"
    help_ = remedy(
        "The claim controller removes such reservations: check whether kube-controller-manager is running, and look "
        "for messages about resourceclaims in its log.",
        "kubectl get lease -n kube-system kube-controller-manager",
    )
    yield Symptom.of("claim", names, text, help_)


def _state(cluster: ClusterIndex, consumer: ResourceClaimConsumerReference) -> str:
    """The reason why a consumer no longer needs its devices; empty if it does or if that is unknown."""
    if consumer.resource != "pods" or consumer.api_group:
        return ""
    pod = cluster.pods_by_uid.get(consumer.uid)
    if pod is None:
        return "deleted"
    if is_finished(pod) and all(cluster.is_old(condition.last_transition_time) for condition in pod.status.conditions):
        return pod.status.phase.lower()
    return ""


CHECK = ClusterCheck(
    code="D505",
    severity="error",
    summary="a claim is reserved for deleted or finished pods",
    why="When a pod is deleted, Succeeded or Failed, the claim controller of kube-controller-manager removes the pod "
    "from reservedFor, and releases the devices after the last pod was removed. If that does not happen within a "
    "minute, the controller is not running or cannot update claims.",
    find=find,
    needs=("resourceclaims", "pods"),
    transient=True,
)
