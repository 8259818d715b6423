"""What a vendor writes: a driver is one class with seven methods; the framework does everything else.

The framework publishes what :meth:`Driver.discover` finds, reads and checks claims, decodes their parameters, keeps
the checkpoint, writes CDI files and answers the kubelet. Calls for one claim never overlap.

A driver never has to remember anything between calls. What :meth:`Driver.plan` returns is on disk before
:meth:`Driver.prepare` touches hardware, and is all that :meth:`Driver.unprepare` gets: it must name things by what
survives a crash and a restart (PCI address, profile and place), not by handles.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from allotment.cdi.spec import ContainerEdits
from allotment.kubelet_plugin.messages import Health
from allotment.model.node_selectors import NodeSelector
from allotment.model.quantity import Quantity
from allotment.model.resource import CounterSet, Device, DeviceAttribute, DeviceTaint
from allotment.model.trees import Tree as Tree


class DevicePool(NamedTuple):
    """One pool as it should be published.

    ``groups``: devices that belong into one slice where the limits allow it (all of one GPU), in the order in which a
    scheduler should try them. ``pool``: the node's name if empty. ``nodes``: for a pool that others than the driver's
    own node reach.
    """

    groups: Sequence[Sequence[Device]]
    counter_sets: Sequence[CounterSet] = ()
    name: str = ""
    node_selector: NodeSelector | None = None


class AllocatedDevice(NamedTuple):
    """A device that a claim was given, and the parameters that win for it (None: nobody gave any).

    ``config`` is a value of the type that :attr:`Driver.configs` has for its kind. ``consumed``: of a shared device.
    """

    request: str
    pool: str
    device: str
    config: Any = None
    admin_access: bool = False
    share_id: str = ""
    consumed_capacity: Mapping[str, Quantity] = {}

    @property
    def key(self) -> tuple[str, str, str]:
        """Its place in :attr:`Prepared.devices`."""
        return self.pool, self.device, self.share_id


class AllocatedClaim(NamedTuple):
    """A claim's part in this driver. ``granted`` is in the order of the allocation.

    ``others``: plans of all other claims that are prepared here or begun, for what several claims share.
    """

    uid: str
    namespace: str
    name: str
    devices: tuple[AllocatedDevice, ...]
    other_plans: tuple[Tree, ...] = ()


class ReadyDevice(NamedTuple):
    """A device that can be used now: what a container of it needs, and what the claim's status should say of it.

    ``attributes``: what is known of it only now, for programs that read their devices' metadata.
    """

    edits: ContainerEdits
    status_data: Tree | None = None
    attributes: Mapping[str, DeviceAttribute] = {}


class PreparedClaim(NamedTuple):
    """A prepared claim: its devices by :attr:`Granted.key`, and what containers of any of them need."""

    devices: Mapping[tuple[str, str, str], ReadyDevice]
    edits: ContainerEdits = ContainerEdits()


class DevicesChanged(NamedTuple):
    """Devices came or went: :meth:`Driver.discover` should be asked again."""


class HealthUpdate(NamedTuple):
    """News of a device's health. ``taints``: all that the driver wants on the device now, none if empty."""

    device: str
    health: Health
    message: str = ""
    taints: tuple[DeviceTaint, ...] = ()
    pool: str = ""


DeviceEvent = DevicesChanged | HealthUpdate


class ClaimError(Exception):
    """A claim that this driver cannot prepare; the text tells its user which device and what to do.

    ``permanent``: trying again cannot help, because the claim itself is wrong; where parameters are judged that is what
    is meant if nothing is said.
    """

    def __init__(self, message: str, *, permanent: bool | None = None) -> None:
        super().__init__(message)
        self.permanent = permanent


class Driver(Protocol):
    """A vendor's driver on one node."""

    @property
    def name(self) -> str:
        """The driver's name: ``gpu.example.com``."""
        ...

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """The parameters that claims may carry: (apiVersion, kind) to a msgspec Struct. Decoded strictly."""
        ...

    async def discover(self) -> Sequence[DevicePool]:
        """What there is now, in the same order every time. Without hardware: one offer without devices."""
        ...

    def config_applies(self, device: str, config: Any) -> bool:
        """Whether parameters of this type are for that kind of device: a claim can mix kinds, each with its own."""
        ...

    def validate(self, config: Any) -> None:
        """Check parameters beyond their types. Raises Refused."""
        ...

    def plan(self, claim: AllocatedClaim) -> Tree:
        """What preparing will do, as JSON: everything that undoing needs. Touches nothing. Raises Refused."""
        ...

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Do it. After an error or a crash, :meth:`unprepare` follows with the same plan. Raises Refused."""
        ...

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """Undo what was done of a plan: nothing, a part or all. Works without the hardware, and twice.

        ``others``: plans of the claims that stay. A driver without devices that several claims share ignores them.
        """
        ...

    def watch(self) -> AsyncIterator[DeviceEvent]:
        """News of the hardware, for ever. Devices of which nothing was told are healthy, unless this ends."""
        ...


@runtime_checkable
class SimulatedDriver(Protocol):
    """A driver of devices that are not there. Its slices say so by a label, for attributes are the vendor's."""

    @property
    def hardware(self) -> str:
        """What hardware, as ``--fleet`` has it."""
        ...


@runtime_checkable
class StatefulDriver(Protocol):
    """A driver whose devices look different while claims use others. Most need not know this."""

    def restore(self, plans: Sequence[Tree]) -> None:
        """Plans of the claims that an earlier process prepared, or began and could not undo. Before anything else."""
        ...


@runtime_checkable
class DaemonDriver(Protocol):
    """A driver of whose work something can end without it, such as a daemon. Most need not know this."""

    async def ensure_running(self, plan: Tree) -> None:
        """Set going again what a prepared claim needs and what has ended; the rest is left alone. Raises Refused."""
        ...


@runtime_checkable
class SweepingDriver(Protocol):
    """A driver that finds what it made on the hardware, even without a plan of it. Most need not know this."""

    async def sweep(self, plans: Sequence[Tree]) -> None:
        """These plans stay; the rest of what only this driver makes is undone. Raises Refused.

        Asked for after the record of what was prepared was lost, once no container is left that could use any of it.
        """
        ...
