"""Detects devices that are allocated to two claims, from the objects in the API, while schedulers work.

Not every double allocation is a failure. Two claims may have the same device while neither pod, or only one of them,
has a node: one of the two schedulers may still give it up. When both pods have nodes, both are going to use it.

Allotment's scheduler can prevent that unless kube-scheduler allocates the device after Allotment's pod was bound, from
a state that is older than the settle time; then its pod is evicted (docs/explanation/scheduler-coexistence.md). On a
loaded machine that happens. Their resourceVersions, one sequence for all kinds, show which of the two was first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.model.contested_claims import LABEL
from allotment.model.trees import Tree

Device = tuple[str, str, str]


class DoubleUseDetector:
    """Watches claims and pods. All devices here are allocated exclusively. ``own``: Allotment's scheduler."""

    def __init__(self, pods: Cache[Any], claims: Cache[Any], own: str) -> None:
        self._pods = pods
        self._claims = claims
        self._own = own
        self._allocated: dict[str, int] = {}
        """The revision at which each claim (uid) was allocated."""
        self._bound: dict[str, int] = {}
        """The revision at which each pod (uid) was bound."""
        self._holders: dict[Device, set[tuple[str, str]]] = {}
        self._contested: set[Device] = set()
        self.double_allocations: set[frozenset[str]] = set()
        """Pairs of claims (uid) that had a device in common at some time."""
        self.used_twice: set[frozenset[str]] = set()
        """Those whose pods both had nodes at that time."""
        self.preventable: list[str] = []
        """Reports of the pairs that Allotment's scheduler could have prevented."""
        self.too_late: list[str] = []
        """Reports of the pairs in which another scheduler allocated the device after Allotment's pod was bound."""
        pods.on_change(self._pod_changed)  # first: when pods were bound is needed for claims
        claims.on_change(self._claim_changed)

    def _claim_changed(self, old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        for device in devices_of(old):
            holders = self._holders.get(device, set())
            holders.discard(old.key if old is not None else ("", ""))
            if len(holders) < 2:
                self._contested.discard(device)
        for device in devices_of(new):
            assert new is not None
            self._allocated.setdefault(new.uid, new.revision)
            holders = self._holders.setdefault(device, set())
            holders.add(new.key)
            if len(holders) > 1:
                self._contested.add(device)
        self._find()

    def _pod_changed(self, old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        if new is not None and new.spec.get("nodeName"):
            self._bound.setdefault(new.uid, new.revision)
        if self._contested:
            self._find()

    def _find(self) -> None:
        for device in self._contested:
            items = [item for key in self._holders[device] if (item := self._claims.item(*key)) is not None]
            for first in items:
                for second in items:
                    if first.uid < second.uid:
                        self._record(device, first, second)

    def _record(self, device: Device, first: CachedItem[Tree], second: CachedItem[Tree]) -> None:
        pair = frozenset((first.uid, second.uid))
        self.double_allocations.add(pair)
        users = [list(self._bound_users(item)) for item in (first, second)]
        if all(users) and pair not in self.used_twice:
            self.used_twice.add(pair)
            pods = [pod for found in users for pod in found]
            names = [f"{pod.name} ({pod.spec.get('schedulerName')})" for pod in pods]
            own = [self._bound[pod.uid] for pod in pods if pod.spec.get("schedulerName") == self._own]
            last = max(self._allocated[first.uid], self._allocated[second.uid])
            reports = self.too_late if len(own) == 1 and own[0] < last else self.preventable
            reports.append(f"{'/'.join(device)}: {', '.join(names)}")

    def _bound_users(self, claim: CachedItem[Tree]) -> Iterator[CachedItem[Tree]]:
        for user in claim.status.get("reservedFor") or ():
            pod = self._pods.item(claim.namespace, user["name"])
            if pod is not None and pod.uid == user["uid"] and pod.spec.get("nodeName"):
                yield pod


def devices_of(claim: CachedItem[Tree] | None) -> list[Device]:
    """The devices that are allocated to a claim."""
    if claim is None:
        return []
    results = ((claim.status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return [(result["driver"], result["pool"], result["device"]) for result in results]


def state_errors(pods: Iterable[Tree], claims: Iterable[Tree]) -> list[str]:
    """Errors in the state of a cluster in which nothing changes any more, from lists only."""
    existing = {pod["metadata"]["uid"]: pod for pod in pods}
    found: list[str] = []
    holders: dict[Device, str] = {}
    used: set[str] = set()
    for tree in claims:
        item: CachedItem[Tree] = CachedItem(tree)
        name = f"claim {item.namespace}/{item.name}"
        users = item.status.get("reservedFor") or []
        for device in devices_of(item) if LABEL not in item.labels else ():
            if device in holders:
                found.append(f"device {'/'.join(device)} is held by {holders[device]} and by {name}")
            holders[device] = name
        if devices_of(item) and not users and LABEL not in item.labels:
            found.append(f"{name} is allocated and not reserved")
        if devices_of(item) and not item.metadata.get("finalizers"):
            found.append(f"{name} is allocated and may vanish: it has no finalizer")
        for user in users:
            pod = existing.get(user["uid"])
            if pod is None:
                found.append(f"{name} is reserved for pod {user['name']}, which is gone")
            elif not pod["spec"].get("nodeName"):
                found.append(f"{name} is reserved for pod {user['name']}, which has no node")
            used.add(user["uid"])
    for uid, pod in existing.items():
        if pod["spec"].get("nodeName") and pod["spec"].get("resourceClaims") and uid not in used:
            found.append(f"pod {pod['metadata']['name']} has a node and no claim is reserved for it")
        if not pod["spec"].get("nodeName") and (pod.get("status") or {}).get("nominatedNodeName"):
            found.append(f"pod {pod['metadata']['name']} has no node, and one is nominated")
    return found
