"""Frees claims that keep a group from being scheduled: those that no node can use, and those it holds for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.model import pod_groups
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.scheduler.attempt import NoNode
from allotment.scheduler.binding.claim_writer import ClaimWriter
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger
from allotment.scheduler.group_hierarchy import GroupHierarchy
from allotment.scheduler.groups import status
from allotment.scheduler.groups.simulation import GroupResult, PodResult
from allotment.scheduler.pending_pods import PendingPods
from allotment.scheduler.reporting import fit_error

_NO_KEY: Final = ObjectKey("", "")


class GroupClaims:
    """Frees claims of the pods of a group, and of the group itself."""

    def __init__(
        self,
        hierarchy: GroupHierarchy,
        ledger: ClaimLedger,
        claims: ClaimWriter,
        pending_pods: PendingPods,
        features: Features,
    ) -> None:
        self._hierarchy = hierarchy
        self._ledger = ledger
        self._claims = claims
        self._start = pending_pods.start_or_retry
        self._groups_have_claims = features.enabled(pod_groups.GATE)

    def free(self, result: GroupResult) -> str:
        """Free claims that no node can use, and those that were left behind by earlier attempts."""
        keeps_claims = False
        for found in result.pods:
            pod = found.pod
            left = self._ledger.known.get(self._ledger.extended_claims.get(pod.uid, _NO_KEY))
            freed = next(
                (c for c in _unavailable(found) if all(user.get("uid") == pod.uid for user in c.users)), None
            )  # fmt: skip
            if freed is not None:
                self._start(pod, self._claims.deallocate(freed, pod.uid), f"deallocate claim {freed.key}")
            elif left is not None:
                self._start(pod, self._claims.discard(left), f"discard claim {left.key}")
            else:
                keeps_claims = keeps_claims or bool(found.claims)
        if keeps_claims and self._groups_have_claims and not self._hierarchy.scheduled(result.group.key):
            return self._free_group_claims(result) or status.DEALLOCATED
        return status.DEALLOCATED

    def _free_group_claims(self, result: GroupResult) -> str:
        """Free a claim of the group, of which no pod has a node; return the text of what was done."""
        name, uid = result.group.key.name, str(result.group.tree["metadata"].get("uid"))
        for found in result.pods:
            for claim in _unavailable(found):
                if all(user.get("uid") == uid for user in claim.users):
                    self._start(found.pod, self._claims.deallocate(claim, uid), f"deallocate claim {claim.key}")
                    return status.GROUP_DEALLOCATED
        for found in result.pods:
            for claim in found.claims:
                if claim.allocation is not None and any(user.get("uid") == uid for user in claim.users):
                    self._start(found.pod, self._claims.unreserve(claim, name), f"unreserve claim {claim.key}")
                    return fit_error.UNRESERVED
        return ""


def _unavailable(found: PodResult) -> Iterable[CachedClaim]:
    return found.outcome.unavailable if isinstance(found.outcome, NoNode) else ()
