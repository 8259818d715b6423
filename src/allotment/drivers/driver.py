"""The interface that a vendor's driver implements: one class with seven methods; the framework does the rest.

The framework publishes the devices that :meth:`Driver.discover` returns, reads and validates claims, decodes their
parameters, keeps the checkpoint, writes CDI files and answers the kubelet. Calls for the same claim never overlap.

A driver needs no state between calls. The plan that :meth:`Driver.plan` returns is saved to disk before
:meth:`Driver.prepare` changes hardware, and is the only input to :meth:`Driver.unprepare`. It must identify things by
properties that survive a crash and a restart (PCI address, profile and placement), not by handles.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from allotment.cdi.spec import ContainerEdits
from allotment.kubelet_plugin.messages import Health
from allotment.model.node_selectors import NodeSelector
from allotment.model.quantity import Quantity
from allotment.model.resource import CounterSet, Device, DeviceAttribute, DeviceTaint
from allotment.model.trees import Tree as Tree

#: The value of an attribute; plain ones become strings, integers, booleans and lists.
AttributeValue: TypeAlias = DeviceAttribute | str | int | bool | Sequence[str] | Sequence[int] | Sequence[bool]


class DevicePool(NamedTuple):
    """A pool of devices to publish.

    ``groups``: devices that are published in the same slice if the limits permit it (all of one GPU), in the order in
    which a scheduler tries them. ``name``: empty for the node's name. ``node_selector``: for a pool that nodes other
    than the driver's can use.
    """

    groups: Sequence[Sequence[Device]]
    counter_sets: Sequence[CounterSet] = ()
    name: str = ""
    node_selector: NodeSelector | None = None


class AllocatedDevice(NamedTuple):
    """A device of an allocated claim, with the parameters that apply to it, or None.

    ``config`` has the type that :attr:`Driver.configs` contains for its kind. ``consumed_capacity``: for shared
    devices.
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
        """The key in :attr:`PreparedClaim.devices`."""
        return self.pool, self.device, self.share_id


class AllocatedClaim(NamedTuple):
    """The part of an allocated claim that concerns the driver. ``devices`` are in the order of the allocation.

    ``other_plans``: the plans of all other claims that are prepared or in progress on the node, for devices that
    several claims share.
    """

    uid: str
    namespace: str
    name: str
    devices: tuple[AllocatedDevice, ...]
    other_plans: tuple[Tree, ...] = ()


class ReadyDevice(NamedTuple):
    """A device that containers can use: container edits, and data for the claim's status.

    ``attributes``: values that are known only after preparation, for the device metadata that programs can read.
    """

    edits: ContainerEdits
    status_data: Tree | None = None
    attributes: Mapping[str, AttributeValue] = {}


class PreparedClaim(NamedTuple):
    """A prepared claim: its devices by :attr:`AllocatedDevice.key`, and the edits for containers with any of them."""

    devices: Mapping[tuple[str, str, str], ReadyDevice]
    edits: ContainerEdits = ContainerEdits()


class DevicesChanged(NamedTuple):
    """Event: devices were added or removed; the framework calls :meth:`Driver.discover` again."""


class HealthUpdate(NamedTuple):
    """Event: the health of a device changed. ``taints``: all taints that result from it; empty if there are none."""

    device: str
    health: Health
    message: str = ""
    taints: tuple[DeviceTaint, ...] = ()
    pool: str = ""


DeviceEvent = DevicesChanged | HealthUpdate


class ClaimError(Exception):
    """Raised if the driver cannot prepare or release a claim; the text tells the user which device and what to do.

    ``permanent``: a retry cannot succeed, because the claim is wrong. None means permanent for errors in parameters.
    """

    def __init__(self, message: str, *, permanent: bool | None = None) -> None:
        super().__init__(message)
        self.permanent = permanent


class Driver(Protocol):
    """A vendor's driver for the devices of one node."""

    @property
    def name(self) -> str:
        """The name of the driver, for example ``gpu.example.com``."""
        ...

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """The parameter types: (apiVersion, kind) to msgspec Struct. They are decoded strictly."""
        ...

    async def discover(self) -> Sequence[DevicePool]:
        """Return all current devices, always in the same order. Without hardware: one pool without devices.

        Their values can be plain ones, as in :func:`allotment.drivers.device`.
        """
        ...

    def config_applies(self, device: str, config: Any) -> bool:
        """Whether parameters of this type apply to the device: a claim can have devices of several kinds."""
        ...

    def validate(self, config: Any) -> None:
        """Check parameters beyond their types. Raises ClaimError."""
        ...

    def plan(self, claim: AllocatedClaim) -> Tree:
        """Return the plan as JSON, with all that is needed to undo it. Changes no hardware. Raises ClaimError."""
        ...

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Execute a plan. After an error or crash, :meth:`unprepare` follows with the same plan. Raises ClaimError."""
        ...

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """Undo a plan that was executed completely, partly or not at all. Works without the hardware, and repeatedly.

        ``others``: the plans of the remaining claims; ignored by drivers whose devices are not shared by claims.
        """
        ...

    def watch(self) -> AsyncIterator[DeviceEvent]:
        """Yield events until canceled. Devices without events are healthy, or unknown if the iterator ends."""
        ...


def missing_members(driver: object) -> list[str]:
    """Return the members of :class:`Driver` that an object does not have."""
    return [name for name in vars(Driver) if not name.startswith("_") and not hasattr(driver, name)]


@runtime_checkable
class SimulatedDriver(Protocol):
    """A driver of simulated devices. Its slices have a label, since the attributes are the vendor's."""

    @property
    def simulated_hardware(self) -> str:
        """The simulated hardware, in the syntax of ``--fleet``."""
        ...


@runtime_checkable
class StatefulDriver(Protocol):
    """Optional interface of drivers whose published devices depend on the prepared claims."""

    def restore(self, plans: Sequence[Tree]) -> None:
        """Called first, with the plans of claims that an earlier process prepared, or started and could not undo."""
        ...


@runtime_checkable
class DaemonDriver(Protocol):
    """Optional interface of drivers whose prepared claims need running processes, such as daemons."""

    async def ensure_running(self, plan: Tree) -> None:
        """Restart the processes of a prepared claim that have ended. Raises ClaimError."""
        ...


@runtime_checkable
class SweepingDriver(Protocol):
    """Optional interface of drivers that can find their changes to the hardware without a plan."""

    async def sweep(self, plans: Sequence[Tree]) -> None:
        """Undo all changes of this driver that are not in one of these plans. Raises ClaimError.

        Called after checkpoint entries were lost, once no container can use the devices of these claims.
        """
        ...
