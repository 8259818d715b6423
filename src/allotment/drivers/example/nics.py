"""``net.example.com``: what a claim may ask of network cards, and what their containers are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from allotment.drivers.driver import Granted, Offer, Refused
from allotment.drivers.example.imaginary import Imaginary
from allotment.fleet.example import NET_DRIVER, nic_groups

CONFIG: Final = ("net.resource.example.com/v1alpha1", "NetConfig")

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
        super().__init__(NET_DRIVER, "NET", node, Offer(nic_groups(node, nics)))

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
