"""DRA drivers: a framework that runs a vendor's driver class, and the vendors' drivers.

What a driver needs can be imported from here: ``from allotment import drivers``, then ``drivers.device(…)``,
``drivers.DevicePool`` and ``drivers.run(…)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allotment.cdi.spec import ContainerEdits as ContainerEdits
    from allotment.cdi.spec import DeviceNode as DeviceNode
    from allotment.cdi.spec import Hook as Hook
    from allotment.cdi.spec import IntelRdt as IntelRdt
    from allotment.cdi.spec import Mount as Mount
    from allotment.cdi.spec import NetDevice as NetDevice
    from allotment.drivers.device_values import InvalidDevice as InvalidDevice
    from allotment.drivers.device_values import device as device
    from allotment.drivers.driver import AllocatedClaim as AllocatedClaim
    from allotment.drivers.driver import AllocatedDevice as AllocatedDevice
    from allotment.drivers.driver import AttributeValue as AttributeValue
    from allotment.drivers.driver import ClaimError as ClaimError
    from allotment.drivers.driver import DeviceEvent as DeviceEvent
    from allotment.drivers.driver import DevicePool as DevicePool
    from allotment.drivers.driver import DevicesChanged as DevicesChanged
    from allotment.drivers.driver import Driver as Driver
    from allotment.drivers.driver import HealthUpdate as HealthUpdate
    from allotment.drivers.driver import PreparedClaim as PreparedClaim
    from allotment.drivers.driver import ReadyDevice as ReadyDevice
    from allotment.drivers.driver import Tree as Tree
    from allotment.drivers.main import run as run
    from allotment.model.quantity import Quantity as Quantity
    from allotment.model.resource import Counter as Counter
    from allotment.model.resource import CounterSet as CounterSet
    from allotment.model.resource import Device as Device
    from allotment.model.resource import DeviceAttribute as DeviceAttribute
    from allotment.model.resource import DeviceCapacity as DeviceCapacity
    from allotment.model.resource import DeviceCounterConsumption as DeviceCounterConsumption
    from allotment.model.resource import DeviceTaint as DeviceTaint

__all__ = [
    "AllocatedClaim",
    "AllocatedDevice",
    "AttributeValue",
    "ClaimError",
    "ContainerEdits",
    "Counter",
    "CounterSet",
    "Device",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceCounterConsumption",
    "DeviceEvent",
    "DeviceNode",
    "DevicePool",
    "DeviceTaint",
    "DevicesChanged",
    "Driver",
    "HealthUpdate",
    "Hook",
    "IntelRdt",
    "InvalidDevice",
    "Mount",
    "NetDevice",
    "PreparedClaim",
    "Quantity",
    "ReadyDevice",
    "Tree",
    "device",
    "run",
]

#: Imported at first access: every vendor's driver is in this package, and needs few of these modules.
_MODULES = {
    "allotment.cdi.spec": ("ContainerEdits", "DeviceNode", "Hook", "IntelRdt", "Mount", "NetDevice"),
    "allotment.drivers.device_values": ("InvalidDevice", "device"),
    "allotment.drivers.driver": (
        "AllocatedClaim", "AllocatedDevice", "AttributeValue", "ClaimError", "DeviceEvent", "DevicePool",
        "DevicesChanged", "Driver", "HealthUpdate", "PreparedClaim", "ReadyDevice", "Tree",
    ),
    "allotment.drivers.main": ("run",),
    "allotment.model.quantity": ("Quantity",),
    "allotment.model.resource": (
        "Counter", "CounterSet", "Device", "DeviceAttribute", "DeviceCapacity", "DeviceCounterConsumption",
        "DeviceTaint",
    ),
}  # fmt: skip


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        module = next((module for module, names in _MODULES.items() if name in names), None)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        if name == "run":
            import_module("allotment.extras").require("running a driver", "drivers")
        return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
