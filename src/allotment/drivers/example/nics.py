"""``net.example.com``: the example driver of network cards, with bandwidth and bursts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from allotment.drivers.driver import AllocatedDevice, ClaimError, DevicePool
from allotment.drivers.example.base_driver import ExampleDriver
from allotment.fleet.example import NET_DRIVER, nic_groups
from allotment.vocabulary.parameters.example import NET_KINDS, Burst, net_problems


class ExampleNics(ExampleDriver):
    def __init__(self, node: str, nics: int = 8) -> None:
        super().__init__(NET_DRIVER, "NET", node, DevicePool(nic_groups(node, nics)))

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        return NET_KINDS

    def validate(self, config: Any) -> None:
        """Check the limits of bursts. Raises ClaimError."""
        for problem in net_problems(config):
            raise ClaimError(str(problem), permanent=True)

    def variables(self, device: AllocatedDevice) -> Sequence[str]:
        """Return the rates and bursts."""
        return tuple(self._variables(device))

    def _variables(self, device: AllocatedDevice) -> Iterator[str]:
        name = f"NET_DEVICE_{device.device.removeprefix('nic-')}"
        burst = (device.config.burst if device.config is not None else None) or Burst()
        for direction, bits in (("ingress", burst.ingress_burst), ("egress", burst.egress_burst)):
            if bits:
                yield f"{name}_{direction.upper()}_BURST={bits}"
            if f"{direction}Bandwidth" in device.consumed_capacity:
                rate = device.consumed_capacity[f"{direction}Bandwidth"]
                yield f"{name}_{direction.upper()}_RATE={rate.as_integer()}"
