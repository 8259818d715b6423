"""``net.example.com``: network cards whose bandwidth many claims share, each with as much as it asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from allotment.drivers.driver import Granted, Offer, Refused
from allotment.drivers.example.imaginary import Imaginary, facts
from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity

NAME: Final = "net.example.com"
CONFIG: Final = ("net.resource.example.com/v1alpha1", "NetConfig")

_BANDWIDTH: Final = DeviceCapacity(
    value=Quantity.parse("100G"),
    request_policy=CapacityRequestPolicy(
        default=Quantity.parse("1G"),
        valid_range=CapacityRequestPolicyRange(
            min=Quantity.parse("100M"), max=Quantity.parse("100G"), step=Quantity.parse("1M")
        ),
    ),
)
#: Every claim takes one virtual function, whatever it asks for.
_FUNCTIONS: Final = DeviceCapacity(
    value=Quantity.parse("100"),
    request_policy=CapacityRequestPolicy(default=Quantity.parse("1"), valid_values=(Quantity.parse("1"),)),
)
#: Bits: the traffic shaper counts bytes in 32 bits.
_MOST_BURST: Final = 8 * (2**32 - 1)


class Burst(msgspec.Struct, frozen=True, rename="camel"):
    """Bits that may pass at once; 0 leaves it to the system."""

    ingress_burst: int = 0
    egress_burst: int = 0


class NetConfig(msgspec.Struct, frozen=True):
    """The parameters."""

    burst: Burst | None = msgspec.field(default=None, name="bwBurst")


class ExampleNics(Imaginary):
    """The driver of a node."""

    def __init__(self, node: str, nics: int = 8) -> None:
        super().__init__(NAME, "NET", node, Offer([[_nic(node, index)] for index in range(nics)]))

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """One kind."""
        return {CONFIG: NetConfig}

    def validate(self, config: Any) -> None:
        """Bursts have a limit."""
        burst = config.burst or Burst()
        for name, bits in (("ingressBurst", burst.ingress_burst), ("egressBurst", burst.egress_burst)):
            if not 0 <= bits < _MOST_BURST:
                raise Refused(f"bwBurst.{name}: wanted 0 or more, and less than 4 GiB, found {bits}", permanent=True)

    def variables(self, granted: Granted) -> Sequence[str]:
        """Rates and bursts."""
        return tuple(self._variables(granted))

    def _variables(self, granted: Granted) -> Iterator[str]:
        name = f"NET_DEVICE_{granted.device.removeprefix('nic-')}"
        burst = (granted.config.burst if granted.config is not None else None) or Burst()
        for way, bits in (("ingress", burst.ingress_burst), ("egress", burst.egress_burst)):
            if bits:
                yield f"{name}_{way.upper()}_BURST={bits}"
            if f"{way}Bandwidth" in granted.consumed:
                yield f"{name}_{way.upper()}_RATE={granted.consumed[f'{way}Bandwidth'].as_integer()}"


def _nic(node: str, index: int) -> Device:
    return Device(
        name=f"nic-{index}",
        attributes=facts("net", node, index),
        capacity={"vfs": _FUNCTIONS, "ingressBandwidth": _BANDWIDTH, "egressBandwidth": _BANDWIDTH},
        allow_multiple_allocations=True,
    )
