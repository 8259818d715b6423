"""A driver for imaginary hardware, as type checkers see it; ``type: ignore`` marks what they must reject."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, assert_type

import allotment
from allotment import drivers


class Fpgas:
    name = "fpga.example.com"
    configs: Mapping[tuple[str, str], type] = {}

    async def discover(self) -> list[drivers.DevicePool]:
        fpga = drivers.device(
            "fpga-0",
            attributes={"family": "Stratix", "lanes": 16, "ecc": True, "ports": ["a", "b"]},
            capacity={"memory": "16Gi", "logic": 2},
        )
        return [drivers.DevicePool([[fpga]])]

    def config_applies(self, device: str, config: Any) -> bool:
        return True

    def validate(self, config: Any) -> None:
        raise drivers.ClaimError("parameters: expected none")

    def plan(self, claim: drivers.AllocatedClaim) -> drivers.Tree:
        return {"devices": [each.device for each in claim.devices]}

    async def prepare(self, claim: drivers.AllocatedClaim, plan: drivers.Tree) -> drivers.PreparedClaim:
        edits = drivers.ContainerEdits(device_nodes=(drivers.DeviceNode("/dev/fpga0"),))
        ready = drivers.ReadyDevice(edits, attributes={"bitstream": "idle", "temperature": 40})
        return drivers.PreparedClaim({each.key: ready for each in claim.devices})

    async def unprepare(self, plan: drivers.Tree, others: Sequence[drivers.Tree] = ()) -> None: ...

    async def watch(self) -> AsyncIterator[drivers.DeviceEvent]:
        yield drivers.DevicesChanged()


def run() -> None:
    drivers.run(Fpgas())
    drivers.run("fpga.example.com")  # type: ignore[arg-type]


def devices() -> None:
    assert_type(allotment.drivers.device("fpga-0"), drivers.Device)
    drivers.device("fpga-0", attributes={"clock": 1.5})  # type: ignore[dict-item]
    drivers.device("fpga-0", capacity={"memory": 1.5})  # type: ignore[dict-item]
    drivers.device("fpga-0", capacity={"memory": drivers.Quantity.parse("16Gi")})


def verified() -> None:
    report = allotment.verify_driver("dra.sock", allotment.Cluster.live(), command="python driver.py")
    assert_type(report, allotment.VerifyReport)
    assert_type(report.results[0].check.name, str)
    driver: allotment.Driver = Fpgas()
    assert_type(driver.name, str)
