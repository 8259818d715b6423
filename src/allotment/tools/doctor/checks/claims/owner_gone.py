"""Claims that were generated for deleted pods."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of, results_of
from allotment.tools.doctor.wording import kubectl_args, named, remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All such claims as one symptom."""
    orphans = []
    for claim in cluster.claims.values():
        owner = next((ref for ref in claim.metadata.owner_references if ref.controller and ref.kind == "Pod"), None)
        if owner is None or owner.uid in cluster.pods_by_uid or claim.metadata.deletion_timestamp is not None:
            continue
        if cluster.is_old(claim.metadata.creation_timestamp):
            orphans.append((claim, owner))
    if not orphans:
        return
    names = [name_of(claim) for claim, _ in orphans]
    held = sum(1 for claim, _ in orphans for _ in results_of(claim))
    pods = f"deleted pod {orphans[0][1].name}" if len(names) == 1 else "deleted pods"
    were, hold, exist = ("was", "holds", "exists") if len(names) == 1 else ("were", "hold", "exist")
    kept = f"{hold} {counted(held, 'device')}" if held else exist
    text = f"{named('claim', names)} {were} generated for {pods} and still {kept}"
    help_ = remedy(
        "The garbage collector of kube-controller-manager deletes such claims: check whether it is running. You can "
        "safely delete them manually, because no pod can use them:",
        f"kubectl delete resourceclaim {kubectl_args(names[0])}",
    )
    yield Symptom.of("claim", names, text, help_)


CHECK = ClusterCheck(
    code="D508",
    severity="warning",
    summary="a generated claim still exists although its pod was deleted",
    why="A claim that was generated from a template belongs to its pod and is garbage-collected with it. Another pod,"
    " even with the same name, cannot use it.",
    find=find,
    needs=("resourceclaims", "pods"),
    transient=True,
)
