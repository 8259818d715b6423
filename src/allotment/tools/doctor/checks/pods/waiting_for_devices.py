"""Pods that wait for their claims, by cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from allotment.engine.refusal import BUSY, CODES, AllocationRefusal
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.checks.pods.claims_not_made import pods_without_claims
from allotment.tools.doctor.checks.pods.no_scheduler import unscheduled_pods
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import remedy
from allotment.tools.doctor.workload_groups import pods_text
from allotment.tools.explain import Answer

#: What other checks tell, with all that are concerned.
_ELSEWHERE = frozenset({"class-missing", "template-missing", "claim-missing", "wrong-namespace"})
#: What Kubernetes itself says of a node is no matter of what a pod says of nodes.
_OWN_STATE = re.compile(r"\b(is|are) (cordoned|not ready|unreachable|under|without)|taint node\.kubernetes\.io/")


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """By cause: a line for each, however many pods there are."""
    others = {name_of(pod) for pod in (*unscheduled_pods(cluster), *pods_without_claims(cluster))}
    waiting = {
        name
        for pod in cluster.pending_pods
        if (name := name_of(pod)) not in others and not pod.spec.scheduling_gates and cluster.requests_devices(pod)
    }
    groups: dict[tuple[str, str, str], list[Answer]] = {}
    for answer in cluster.explanation.answers:
        if answer.kind == "Pod" and answer.reasons is not None and answer.name in waiting:
            headline = answer.reasons.headline
            if headline.code not in _ELSEWHERE:
                groups.setdefault((headline.code, answer.owner or answer.name, _asked(headline)), []).append(answer)
    by_cause: dict[tuple[str, str], list[list[Answer]]] = {}
    for (code, _, asked), answers in groups.items():
        by_cause.setdefault((code, asked), []).append(answers)
    for (code, _), groups in by_cause.items():
        yield _sign(cluster, code, [answer for group in groups for answer in group])


def _asked(refused: AllocationRefusal) -> str:
    """What a pod asked for, as far as the cause tells: pods that ask for another kind of device wait for it alone."""
    return ", ".join(sorted({funnel.device_class for funnel in refused.funnels}))


def _sign(cluster: ClusterIndex, code: str, answers: Sequence[Answer]) -> Symptom:
    names = [answer.name for answer in answers]
    reasons = answers[0].reasons
    assert reasons is not None
    headline = reasons.headline
    verb = "waits" if len(names) == 1 else "wait"
    first = "" if len(names) == 1 else f"; of {names[0]}"
    text = f"{pods_text(cluster, names)} {verb}: {code}{first}: {headline.summary or CODES[code].summary}"
    namespace, _, name = names[0].partition("/")
    own = code == "node-not-eligible" and _OWN_STATE.search(text)
    words = "See why the nodes are not ready, or cordoned: kubectl get nodes." if own else CODES[code].advice
    help_ = remedy(words, f"allot explain pod/{name} -n {namespace}")
    return Symptom.of("pod", names, text, help_, "warning" if code in BUSY else "error")


CHECK = ClusterCheck(
    code="D602",
    severity="error",
    summary="pods wait for devices that they do not get",
    why="The cause is found as `allot explain` finds it, and pods that wait for the same thing are told together."
    " Where the devices exist and others have them it is a warning: waiting helps. Everything else needs a change."
    " Kubernetes says `cannot allocate all claims` for nearly all of these, or nothing at all.",
    find=find,
    needs=("nodes", "pods", "resourceclaims", "resourceslices", "deviceclasses", "resourceclaimtemplates"),
)
