"""What a cloud must be able to do for the autoscaler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from allotment.tools.plan.report import PlannedMachine

#: ordered: asked for. starting: it exists, its node or slices are not there yet. running. failed: it will not come.
MachineState: TypeAlias = Literal["ordered", "starting", "running", "failed"]

#: Before an order's name, the providerID of a node that no cloud gives one.
SCHEME: Final = "allotment://"


class NoCapacity(Exception):
    """The cloud has none of this type in this zone and capacity type now; others may do."""

    def __init__(self, instance: str, zone: str, capacity_type: str, reason: str) -> None:
        super().__init__(f"no capacity for {instance} ({capacity_type}, {zone or 'any zone'}): {reason}")
        self.instance, self.zone, self.capacity_type, self.reason = instance, zone, capacity_type, reason


class OrderRejected(Exception):
    """The cloud will not do it, and asking again would not help (quota, permission, unknown type)."""


class ProviderUnavailable(OrderRejected):
    """There is no such cloud for this cluster, and nothing can be asked of it."""


class MachineStatus(NamedTuple):
    """A machine of ours as the provider has it. ``name``: the order's. ``node``: of the cluster, once it has one.

    ``short``: it failed because the cloud had none, so that nothing was paid for it.
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
    """A cloud. ``name`` says which, in events and logs."""

    name: str

    async def create(self, name: str, machine: PlannedMachine) -> None:
        """Order a machine under a name of ours, which is unique; asking twice for one name is asking once.

        Returns when the cloud has taken the order, not when the node is there. Raises NoCapacity or Refused.
        """
        ...

    async def delete(self, name: str) -> None:
        """Give a machine back, whatever its state; nothing happens if there is none of that name."""
        ...

    async def standing(self) -> Sequence[MachineStatus]:
        """All machines of ours, also after a restart of the autoscaler: the provider or the cluster remembers.

        Raises Absent.
        """
        ...
