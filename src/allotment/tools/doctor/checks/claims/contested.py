"""Claims that Allotment's scheduler set aside because another scheduler allocated the same devices."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.identity import DeviceID
from allotment.model.contested_claims import is_contested
from allotment.model.resource import ResourceClaim
from allotment.phrases import first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import allocated_at, name_of, results_of
from allotment.tools.doctor.wording import named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Claims that were set aside and should have been deleted; as notes, those that are still needed."""
    idle: list[ResourceClaim] = []
    needed: dict[str, tuple[str, ...]] = {}
    for claim in cluster.claims.values():
        if not is_contested(claim) or claim.metadata.deletion_timestamp is not None:
            continue
        if holders := _holders(cluster, claim):
            needed[name_of(claim)] = holders
        elif cluster.is_old(allocated_at(claim)):
            idle.append(claim)
    if idle:
        yield _left(idle)
    if needed:
        names, holders = list(needed), unique(holder for found in needed.values() for holder in found)
        verb, devices = ("was", "its devices") if len(names) == 1 else ("were", "their devices")
        text = f"{named('claim', names)} {verb} set aside: {devices} were also allocated to {named('claim', holders)}"
        yield Symptom.of("claim", names, text, "", "note")


def _left(idle: list[ResourceClaim]) -> Symptom:
    names = sorted(map(name_of, idle))
    devices = unique(f"{result.pool}/{result.device}" for claim in idle for result in results_of(claim))
    verb, still = ("was", "still exists") if len(names) == 1 else ("were", "still exist")
    text = f"{named('claim', names)} {verb} set aside and {still}, although no other claim holds {first_few(devices)}"
    namespace, _, name = names[0].partition("/")
    help_ = remedy(
        "Allotment's scheduler deletes claims that it has set aside: check whether it is running. If it was "
        "uninstalled, delete the claim; no pod uses it.",
        "kubectl get pods -A -l app.kubernetes.io/name=allotment",
        f"kubectl delete resourceclaim -n {namespace} {name}",
    )
    return Symptom.of("claim", names, text, help_)


def _holders(cluster: ClusterIndex, claim: ResourceClaim) -> tuple[str, ...]:
    """Other claims that hold devices of this one."""
    return unique(
        name_of(holder)
        for result in results_of(claim)
        for holder, held in cluster.results.get(DeviceID(result.driver, result.pool, result.device), ())
        if not held.admin_access
    )


CHECK = ClusterCheck(
    code="D513",
    severity="warning",
    summary="a claim was set aside by Allotment's scheduler and still exists",
    why="If two schedulers allocate one device to two claims, Allotment's scheduler yields: its pod gets another "
    "claim, and the original claim keeps its allocation and gets the label allotment.dev/contested, because "
    "kube-scheduler would"
    " consider the device free as soon as one of the two claims is deallocated. No pod uses the original claim, and "
    "it is deleted ten seconds after the other one; until then this is only a note. If the original claim remains, "
    "Allotment's scheduler is not running, and the claim's devices count as in use.",
    find=find,
    needs=("resourceclaims",),
    transient=True,
)
