"""Records the devices allocated to the claims of a lab, including deleted claims.

When a pod ends, its generated claim is deallocated and deleted (KEP-4381); the pods of a Job end within a fraction of a
second here. A claim may be gone when its pod is listed, so its allocation is taken from the watch, which shows
every state.
"""

from __future__ import annotations

from collections.abc import Sequence

from allotment.lab.lab import Lab
from allotment.model.trees import Tree


class Allocations:
    """A watch on the claims of a lab."""

    def __init__(self, lab: Lab) -> None:
        claims = lab.resource("resourceclaims")
        listing = lab.client.list(claims)
        self._results: dict[tuple[str, str], Sequence[Tree]] = {}
        for claim in listing.items:
            self._note(claim)
        self._events = lab.client.watch(claims, revision=listing.revision)

    def of(self, namespace: str, name: str) -> Sequence[Tree]:
        """Return the device results of a claim of a bound pod; the claim is allocated before its pod is bound."""
        while (namespace, name) not in self._results:
            self._note(next(self._events).object)
        return self._results[namespace, name]

    def _note(self, claim: Tree) -> None:
        allocation = (claim.get("status") or {}).get("allocation")
        if allocation:
            meta = claim["metadata"]
            self._results[meta["namespace"], meta["name"]] = allocation["devices"]["results"]
