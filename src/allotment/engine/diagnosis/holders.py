"""Who holds what: devices, shares and counters taken by allocated claims, with the names of claims and pods.

The engine's own state knows only that a device is taken; a reason must say by whom.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from allotment.engine.cluster.identity import DeviceID
from allotment.model import contested_claims
from allotment.model.pod_groups import GROUP, RESOURCE
from allotment.model.resource import ResourceClaim
from allotment.phrases import first_few, plural


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that holds devices, and the pods and PodGroups it is reserved for; or that was ``set_aside``."""

    claim: str
    pods: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    set_aside: bool = False

    def __str__(self) -> str:
        if self.set_aside:
            return f"claim {self.claim} ({contested_claims.DESCRIPTION})"
        users = [among(kind, names) for kind, names in (("pod", self.pods), ("PodGroup", self.groups)) if names]
        return f"claim {self.claim} ({', '.join(users)})" if users else f"claim {self.claim}"


def among(kind: str, names: tuple[str, ...]) -> str:
    """The first few of them.

    >>> among("pod", ("a",)), among("pod", ("a", "b", "c", "d"))
    ('pod a', 'pods a, b, c and 1 more')
    """
    return f"{kind if len(names) == 1 else plural(kind)} {first_few(names)}"


@dataclass(slots=True)
class Holdings:
    """Devices taken whole, and capacity taken of shareable ones (in nano units, by capacity name)."""

    whole: dict[DeviceID, Holder] = field(default_factory=dict)
    shares: dict[DeviceID, list[tuple[Holder, dict[str, int]]]] = field(default_factory=lambda: defaultdict(list))

    def taken(self, device: DeviceID) -> bool:
        """Whether the device counts as allocated for its counters."""
        return device in self.whole or device in self.shares

    def of(self, device: DeviceID) -> list[Holder]:
        """Everyone who holds the device or a share of it."""
        whole = [self.whole[device]] if device in self.whole else []
        return whole + [holder for holder, _ in self.shares.get(device, ())]


def holder(claim: ResourceClaim) -> Holder:
    """The claim's name with the pods and groups that reserve it."""
    pods = tuple(ref.name for ref in claim.status.reserved_for if ref.resource in ("pods", ""))
    groups = tuple(ref.name for ref in claim.status.reserved_for if (ref.api_group, ref.resource) == (GROUP, RESOURCE))
    meta = claim.metadata
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return Holder(name, pods, groups, contested_claims.is_contested(claim))


def holdings(claims: Iterable[ResourceClaim]) -> Holdings:
    """Everything that allocated claims hold; admin access holds nothing (KEP-5018)."""
    held = Holdings()
    for claim in claims:
        if claim.status.allocation is None:
            continue
        who = holder(claim)
        for result in claim.status.allocation.devices.results:
            if result.admin_access:
                continue
            device = DeviceID(result.driver, result.pool, result.device)
            if result.share_id is None:
                # Of two claims on a device the one that was set aside is not whose it is.
                if not who.set_aside or device not in held.whole:
                    held.whole[device] = who
            else:
                consumed = {name: quantity.nano for name, quantity in result.consumed_capacity.items()}
                held.shares[device].append((who, consumed))
    return held
