"""The claims and pods that hold devices and shares, for the text of reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.diagnosis.reader import EVERYTHING, Reader
from allotment.model import contested_claims
from allotment.model.pod_groups import GROUP, RESOURCE
from allotment.model.resource import ResourceClaim
from allotment.phrases import first_few, plural


@dataclass(frozen=True, slots=True)
class ClaimHolder:
    """A claim that holds devices, and the pods and PodGroups for which it is reserved, or that was ``set_aside``."""

    claim: str
    pods: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    set_aside: bool = False
    is_hidden: bool = False
    """Whether the reader of the reasons may not see its namespace."""

    def __str__(self) -> str:
        if self.is_hidden:
            return "a claim of another namespace"
        if self.set_aside:
            return f"claim {self.claim} ({contested_claims.DESCRIPTION})"
        users = [
            kind_and_names(kind, names) for kind, names in (("pod", self.pods), ("PodGroup", self.groups)) if names
        ]
        return f"claim {self.claim} ({', '.join(users)})" if users else f"claim {self.claim}"


def kind_and_names(kind: str, names: tuple[str, ...]) -> str:
    """A noun and the first few names.

    >>> kind_and_names("pod", ("a",)), kind_and_names("pod", ("a", "b", "c", "d"))
    ('pod a', 'pods a, b, c and 1 more')
    """
    return f"{kind if len(names) == 1 else plural(kind)} {first_few(names)}"


@dataclass(slots=True)
class HeldDevices:
    """Exclusively held devices, and consumed capacity of shareable devices (nano units, by capacity name)."""

    whole: dict[DeviceID, ClaimHolder] = field(default_factory=dict)
    shares: dict[DeviceID, list[tuple[ClaimHolder, dict[str, int]]]] = field(default_factory=lambda: defaultdict(list))

    def is_allocated(self, device: DeviceID) -> bool:
        """Whether the device or a share of it is held, so that it consumes its counters."""
        return device in self.whole or device in self.shares

    def holders_of(self, device: DeviceID) -> list[ClaimHolder]:
        """The claims that hold the device or a share of it."""
        whole = [self.whole[device]] if device in self.whole else []
        return whole + [holder for holder, _ in self.shares.get(device, ())]


def claim_holder(claim: ResourceClaim, reader: Reader = EVERYTHING) -> ClaimHolder:
    """The claim's name with the pods and PodGroups for which it is reserved."""
    pods = tuple(ref.name for ref in claim.status.reserved_for if ref.resource in ("pods", ""))
    groups = tuple(ref.name for ref in claim.status.reserved_for if (ref.api_group, ref.resource) == (GROUP, RESOURCE))
    meta = claim.metadata
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return ClaimHolder(name, pods, groups, contested_claims.is_contested(claim), not reader.may_see(meta.namespace))


def held_devices(claims: Iterable[ResourceClaim], reader: Reader = EVERYTHING) -> HeldDevices:
    """The devices that allocated claims hold; admin access holds nothing (KEP-5018)."""
    held = HeldDevices()
    for claim in claims:
        if claim.status.allocation is None:
            continue
        holder = claim_holder(claim, reader)
        for result in claim.status.allocation.devices.results:
            if result.admin_access:
                continue
            device = DeviceID(result.driver, result.pool, result.device)
            if result.share_id is None:
                # Of two claims on a device, the one that was set aside does not own it.
                if not holder.set_aside or device not in held.whole:
                    held.whole[device] = holder
            else:
                consumed = {name: quantity.nano for name, quantity in result.consumed_capacity.items()}
                held.shares[device].append((holder, consumed))
    return held
