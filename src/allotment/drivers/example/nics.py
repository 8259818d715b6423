"""``net.example.com``: what a claim may ask of network cards, and what their containers are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from allotment.drivers.driver import AllocatedDevice, ClaimError, DevicePool
from allotment.drivers.example.base_driver import ExampleDriver
from allotment.fleet.example import NET_DRIVER, nic_groups
from allotment.vocabulary.parameters.example import NET_KINDS, Burst, net_problems


class ExampleNics(ExampleDriver):
    """The driver of a node."""

    def __init__(self, node: str, nics: int = 8) -> None:
        super().__init__(NET_DRIVER, "NET", node, DevicePool(nic_groups(node, nics)))

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """One kind."""
        return NET_KINDS

    def validate(self, config: Any) -> None:
        """Bursts have a limit."""
        for problem in net_problems(config):
            raise ClaimError(str(problem), permanent=True)

    def variables(self, granted: AllocatedDevice) -> Sequence[str]:
        """Rates and bursts."""
        return tuple(self._variables(granted))

    def _variables(self, granted: AllocatedDevice) -> Iterator[str]:
        name = f"NET_DEVICE_{granted.device.removeprefix('nic-')}"
        burst = (granted.config.burst if granted.config is not None else None) or Burst()
        for way, bits in (("ingress", burst.ingress_burst), ("egress", burst.egress_burst)):
            if bits:
                yield f"{name}_{way.upper()}_BURST={bits}"
            if f"{way}Bandwidth" in granted.consumed_capacity:
                yield f"{name}_{way.upper()}_RATE={granted.consumed_capacity[f'{way}Bandwidth'].as_integer()}"
