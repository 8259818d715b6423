"""Claims that were made for pods that are gone."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import counted
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import name_of, results_of
from allotment.tools.doctor.wording import about, of, remedy


def find(case: Case) -> Iterable[Sign]:
    """All of them together."""
    orphans = []
    for claim in case.claims.values():
        owner = next((one for one in claim.metadata.owner_references if one.controller and one.kind == "Pod"), None)
        if owner is None or owner.uid in case.pods_by_uid or claim.metadata.deletion_timestamp is not None:
            continue
        if case.is_old(claim.metadata.creation_timestamp):
            orphans.append((claim, owner))
    if not orphans:
        return
    names = [name_of(claim) for claim, _ in orphans]
    held = sum(1 for claim, _ in orphans for _ in results_of(claim))
    gone = f"a pod that is gone ({orphans[0][1].name})" if len(names) == 1 else "pods that are gone"
    text = f"{about('claim', names)} made for {gone}: {counted(held, 'device')} held"
    help_ = remedy(
        "The garbage collector of kube-controller-manager deletes them: see whether it runs. By hand, which loses"
        " nothing, for nobody can use them:",
        f"kubectl delete resourceclaim {of(names[0])}",
    )
    yield Sign.of("claim", names, text, help_)


CHECK = Check(
    code="D508",
    severity="warning",
    summary="a generated claim is left whose pod is gone",
    why="A claim that was generated from a template belongs to its pod and is collected with it. Another pod, even one"
    " of the same name, cannot use it.",
    find=find,
    needs=("resourceclaims", "pods"),
    fleeting=True,
)
