"""Claims that are deleted and do not go."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.resource import FINALIZER, ResourceClaim
from allotment.phrases import first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.wording import about, of, remedy


def find(case: Case) -> Iterable[Sign]:
    """By who holds them: pods that still use them, the claim controller, or somebody else's finalizer."""
    used: list[ResourceClaim] = []
    left: list[ResourceClaim] = []
    foreign: dict[str, list[ResourceClaim]] = {}
    for claim in case.claims.values():
        if claim.metadata.deletion_timestamp is None or not case.is_old(claim.metadata.deletion_timestamp):
            continue
        others = [one for one in claim.metadata.finalizers if one != FINALIZER]
        if others:
            foreign.setdefault(others[0], []).append(claim)
        elif claim.status.reserved_for:
            used.append(claim)
        else:
            left.append(claim)
    if used:
        names = [name_of(claim) for claim in used]
        pods = [f"{one.name} ({_state(case, one.uid)})" for claim in used for one in claim.status.reserved_for]
        text = (
            f"{about('claim', names)} deleted, and held by {first_few(pods)}: gone when the last pod has ended; no new pod"
        )
        text += " can use it meanwhile"
        namespace = used[0].metadata.namespace
        words = "Wait for the pods, or delete them (what they do is lost)."
        look = f"kubectl get pods -n {namespace} {' '.join(one.name for one in used[0].status.reserved_for[:3])}"
        yield Sign.of("claim", names, text, remedy(words, look))
    if left:
        names = [name_of(claim) for claim in left]
        text = (
            f"{about('claim', names)} deleted and used by nobody, but still there: finalizer {FINALIZER} is not removed"
        )
        words = "The claim controller of kube-controller-manager does that: see whether it runs."
        look = "kubectl get lease -n kube-system kube-controller-manager"
        yield Sign.of("claim", names, text, remedy(words, look), "error")
    for finalizer, claims in foreign.items():
        names = [name_of(claim) for claim in claims]
        text = f"{about('claim', names)} deleted, and held by finalizer {finalizer}"
        words = f"Whoever owns {finalizer.partition('/')[0]} removes it: look for its controller. If that is gone for"
        words += " good, remove the finalizer; what it would have cleaned up then stays behind."
        look = f"kubectl edit resourceclaim {of(names[0])}"
        yield Sign.of("claim", names, text, remedy(words, look))


def _state(case: Case, uid: str) -> str:
    pod = case.pods_by_uid.get(uid)
    if pod is None:
        return "gone"
    return "ending" if pod.metadata.deletion_timestamp and not is_finished(pod) else (pod.status.phase or "?").lower()


CHECK = Check(
    code="D507",
    severity="warning",
    summary="a claim is deleted and does not go",
    why="A claim that is allocated has a finalizer, so that its devices are given back before it vanishes. It goes"
    " when the last pod that uses it has ended and the claim controller has seen that; finalizers of others wait for"
    " those.",
    find=find,
    needs=("resourceclaims", "pods"),
)
