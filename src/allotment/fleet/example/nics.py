"""``net.example.com``: network cards whose bandwidth several claims share by their requested amounts."""

from __future__ import annotations

from typing import Final

from allotment.fleet.example.attributes import facts
from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity

NET_DRIVER: Final = "net.example.com"

_BANDWIDTH: Final = DeviceCapacity(
    value=Quantity.parse("100G"),
    request_policy=CapacityRequestPolicy(
        default=Quantity.parse("1G"),
        valid_range=CapacityRequestPolicyRange(
            min=Quantity.parse("100M"), max=Quantity.parse("100G"), step=Quantity.parse("1M")
        ),
    ),
)
#: Every claim uses one virtual function, regardless of its requested amount.
_FUNCTIONS: Final = DeviceCapacity(
    value=Quantity.parse("100"),
    request_policy=CapacityRequestPolicy(default=Quantity.parse("1"), valid_values=(Quantity.parse("1"),)),
)


def nic_groups(node: str, nics: int) -> tuple[tuple[Device, ...], ...]:
    """A node's network cards."""
    return (tuple(_nic(node, index) for index in range(nics)),)


def _nic(node: str, index: int) -> Device:
    return Device(
        name=f"nic-{index}",
        attributes=facts("net", node, index),
        capacity={"vfs": _FUNCTIONS, "ingressBandwidth": _BANDWIDTH, "egressBandwidth": _BANDWIDTH},
        allow_multiple_allocations=True,
    )
