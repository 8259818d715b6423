"""Claims that our scheduler set aside because another one gave their devices away, too."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.identity import DeviceID
from allotment.model.contested_claims import is_contested
from allotment.model.resource import ResourceClaim
from allotment.phrases import first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import allocated_at, name_of, results_of
from allotment.tools.doctor.wording import about, remedy, unique


def find(case: Case) -> Iterable[Sign]:
    """Those that nobody takes away; and as a note those that are still of use."""
    idle: list[ResourceClaim] = []
    of_use: dict[str, tuple[str, ...]] = {}
    for claim in case.claims.values():
        if not is_contested(claim) or claim.metadata.deletion_timestamp is not None:
            continue
        if holders := _holders(case, claim):
            of_use[name_of(claim)] = holders
        elif case.is_old(allocated_at(claim)):
            idle.append(claim)
    if idle:
        yield _left(idle)
    if of_use:
        names, holders = list(of_use), unique(holder for found in of_use.values() for holder in found)
        verb, devices = ("was", "its devices") if len(names) == 1 else ("were", "their devices")
        text = f"{about('claim', names)} {verb} set aside: {devices} went to {about('claim', holders)} at the same time"
        yield Sign.of("claim", names, text, "", "note")


def _left(idle: list[ResourceClaim]) -> Sign:
    names = sorted(map(name_of, idle))
    devices = unique(f"{result.pool}/{result.device}" for claim in idle for result in results_of(claim))
    verb, it = ("was", "it stays") if len(names) == 1 else ("were", "they stay")
    text = f"{about('claim', names)} {verb} set aside, and {it}: {first_few(devices)}, which nobody else has"
    namespace, _, name = names[0].partition("/")
    help_ = remedy(
        "Allotment's scheduler, which set it aside, takes it away: see that it runs. Without it, delete the claim; no"
        " pod uses it.",
        "kubectl get pods -A -l app.kubernetes.io/name=allotment",
        f"kubectl delete resourceclaim -n {namespace} {name}",
    )
    return Sign.of("claim", names, text, help_)


def _holders(case: Case, claim: ResourceClaim) -> tuple[str, ...]:
    """Other claims that have devices of this one."""
    return unique(
        name_of(holder)
        for result in results_of(claim)
        for holder, held in case.results.get(DeviceID(result.driver, result.pool, result.device), ())
        if not held.admin_access
    )


CHECK = Check(
    code="D513",
    severity="warning",
    summary="a claim was set aside by Allotment's scheduler, and is still there",
    why="Where two schedulers give one device to two claims, Allotment's steps back: its pod gets another claim, and"
    " the first one keeps its allocation, labelled allotment.dev/contested, because kube-scheduler would take the"
    " device for free as soon as one of the two claims is freed. It is nobody's, and goes ten seconds after the other"
    " one; until then it is a note. If it stays, its scheduler does not run, and its devices count as taken.",
    find=find,
    needs=("resourceclaims",),
    fleeting=True,
)
