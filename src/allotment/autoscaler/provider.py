"""The interface of a machine provider (a cloud)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from allotment.planning.report import PlannedMachine

#: ordered: requested. starting: it exists without its node or slices. running. failed: it will not start.
MachineState: TypeAlias = Literal["ordered", "starting", "running", "failed"]

#: Prefix of an order's name in the providerID of a node that no cloud sets.
SCHEME: Final = "allotment://"


class NoCapacity(Exception):
    """Raised when this type is unavailable in this zone and capacity type; others may be available."""

    def __init__(self, instance: str, zone: str, capacity_type: str, reason: str) -> None:
        super().__init__(f"no capacity for {instance} ({capacity_type}, {zone or 'any zone'}): {reason}")
        self.instance, self.zone, self.capacity_type, self.reason = instance, zone, capacity_type, reason


class OrderRejected(Exception):
    """Raised when the provider rejects an order permanently (quota, permission, unknown type)."""


class ProviderUnavailable(OrderRejected):
    """Raised when the cluster has no such provider."""


class MachineStatus(NamedTuple):
    """The provider's status of a machine. ``name``: of its order. ``node``: once it has one.

    ``is_shortage``: it failed for lack of capacity, so that it cost nothing.
    """

    name: str
    state: MachineState
    node: str = ""
    instance: str = ""
    zone: str = ""
    capacity_type: str = ""
    reason: str = ""
    is_shortage: bool = False


class Provider(Protocol):
    """A machine provider (a cloud). ``name``: for events and logs."""

    name: str

    async def create(self, name: str, machine: PlannedMachine) -> None:
        """Order a machine under a unique name; repeating the call with the same name has no effect.

        Returns when the order is accepted, not when the node exists. Raises NoCapacity or OrderRejected.
        """
        ...

    async def delete(self, name: str) -> None:
        """Delete a machine in any state; do nothing if none has that name."""
        ...

    async def list_machines(self) -> Sequence[MachineStatus]:
        """Return all machines of the autoscaler, including those from before a restart.

        Raises ProviderUnavailable.
        """
        ...
