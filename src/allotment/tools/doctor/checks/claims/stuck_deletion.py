"""Claims that are being deleted but still exist."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.resource import FINALIZER, ResourceClaim
from allotment.phrases import first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.wording import is_or_are, kubectl_args, named, remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Claims by what blocks the deletion: pods that use them, the claim controller, or other finalizers."""
    used: list[ResourceClaim] = []
    left: list[ResourceClaim] = []
    foreign: dict[str, list[ResourceClaim]] = {}
    for claim in cluster.claims.values():
        if claim.metadata.deletion_timestamp is None or not cluster.is_old(claim.metadata.deletion_timestamp):
            continue
        others = [finalizer for finalizer in claim.metadata.finalizers if finalizer != FINALIZER]
        if others:
            foreign.setdefault(others[0], []).append(claim)
        elif claim.status.reserved_for:
            used.append(claim)
        else:
            left.append(claim)
    if used:
        names = [name_of(claim) for claim in used]
        pods = [f"{pod.name} ({_state(cluster, pod.uid)})" for claim in used for pod in claim.status.reserved_for]
        text = (
            f"{named('claim', names)} {is_or_are(names)} being deleted but still in use by {first_few(pods)}; the "
            "deletion completes when the last pod has ended, and new pods cannot use the claim"
        )
        namespace = used[0].metadata.namespace
        words = "Wait for the pods to finish, or delete them (their work is lost)."
        look = f"kubectl get pods -n {namespace} {' '.join(pod.name for pod in used[0].status.reserved_for[:3])}"
        yield Symptom.of("claim", names, text, remedy(words, look))
    if left:
        names = [name_of(claim) for claim in left]
        text = (
            f"{named('claim', names)} {is_or_are(names)} being deleted and no longer used by any pod, but "
            f"finalizer {FINALIZER} has not been removed"
        )
        words = "The claim controller of kube-controller-manager removes this finalizer: check whether the controller"
        words += " is running."
        look = "kubectl get lease -n kube-system kube-controller-manager"
        yield Symptom.of("claim", names, text, remedy(words, look), "error")
    for finalizer, claims in foreign.items():
        names = [name_of(claim) for claim in claims]
        text = f"{named('claim', names)} {is_or_are(names)} being deleted, but the deletion is blocked by finalizer"
        text += f" {finalizer}"
        words = (
            f"The controller of {finalizer.partition('/')[0]} removes this finalizer: check whether it is running. If"
        )
        words += " it was uninstalled, remove the finalizer manually; the controller's cleanup is then skipped."
        look = f"kubectl edit resourceclaim {kubectl_args(names[0])}"
        yield Symptom.of("claim", names, text, remedy(words, look))


def _state(cluster: ClusterIndex, uid: str) -> str:
    pod = cluster.pods_by_uid.get(uid)
    if pod is None:
        return "deleted"
    return (
        "terminating" if pod.metadata.deletion_timestamp and not is_finished(pod) else (pod.status.phase or "?").lower()
    )


CHECK = ClusterCheck(
    code="D507",
    severity="warning",
    summary="a claim is being deleted but still exists",
    why="An allocated claim has a finalizer, so that its devices are released before it is removed. The claim "
    "controller removes this finalizer when the last pod that uses the claim has ended; other finalizers are removed "
    "by their "
    "own controllers.",
    find=find,
    needs=("resourceclaims", "pods"),
)
