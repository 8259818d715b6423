"""Claims that are reserved for pods that are gone, or finished."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.resource import ResourceClaimConsumerReference
from allotment.phrases import counted, first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import is_finished, name_of, results_of
from allotment.tools.doctor.wording import about, remedy


def find(case: Case) -> Iterable[Sign]:
    """Claims of which every consumer is gone hold their devices for nobody."""
    stale: dict[str, list[str]] = {}
    held = 0
    for claim in case.claims.values():
        consumers = claim.status.reserved_for
        if not consumers or not case.is_old(claim.metadata.creation_timestamp):
            continue
        states = [_state(case, one) for one in consumers]
        if all(states):
            stale[name_of(claim)] = [f"pod {one.name} ({state})" for one, state in zip(consumers, states, strict=True)]
            held += sum(1 for _ in results_of(claim))
    if not stale:
        return
    names = list(stale)
    verb = "is" if len(names) == 1 else "are"
    text = f"{about('claim', names)} {verb} reserved for {first_few([p for pods in stale.values() for p in pods])}, and hold"
    text += f"{'s' if len(names) == 1 else ''} {counted(held, 'device')}"
    help_ = remedy(
        "The claim controller takes such entries away: see whether kube-controller-manager runs, and what it logs of"
        " resourceclaims.",
        "kubectl get lease -n kube-system kube-controller-manager",
    )
    yield Sign.of("claim", names, text, help_)


def _state(case: Case, consumer: ResourceClaimConsumerReference) -> str:
    """Why a consumer needs its devices no more; empty if it does, or nobody can tell."""
    if consumer.resource != "pods" or consumer.api_group:
        return ""
    pod = case.pods_by_uid.get(consumer.uid)
    if pod is None:
        return "gone"
    if is_finished(pod) and all(case.is_old(one.last_transition_time) for one in pod.status.conditions):
        return pod.status.phase.lower()
    return ""


CHECK = Check(
    code="D505",
    severity="error",
    summary="a claim is reserved for pods that are gone or finished",
    why="As soon as a pod is gone, Succeeded or Failed, the claim controller (of kube-controller-manager) takes it out"
    " of reservedFor, and gives the devices back after the last one. Where that stays undone for more than a minute,"
    " the controller does not run or cannot write.",
    find=find,
    needs=("resourceclaims", "pods"),
    fleeting=True,
)
