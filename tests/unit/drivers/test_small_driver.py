"""The driver in docs/examples, with pseudoterminals as ports."""

from __future__ import annotations

import importlib.util
import os
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from allotment.cdi.store import MemoryStore
from allotment.drivers.driver import DevicePool, Driver
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.publishing.slice_builder import build_slices
from allotment.model.features import Features
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.fake_driver import NODE, memory_host, opaque, put_claim

FILE = Path(__file__).parents[3] / "docs" / "examples" / "driver.py"
NAME = "serial.example.com"


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Two ports in a folder, with open file descriptors for reading their speed."""
    opened = {}
    ends = []
    for name in ("ttyUSB0", "ttyUSB1"):
        near, far = os.openpty()
        (tmp_path / name).symlink_to(os.ttyname(far))
        opened[name] = far
        ends += [near, far]
    yield opened
    for end in ends:
        os.close(end)


def driver_in(folder: Path) -> Driver:
    spec = importlib.util.spec_from_file_location("small_driver", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    driver: Any = module.SerialPorts()
    driver.folder = folder
    found: Driver = driver
    return found


def speed(port: int) -> int:
    return int(termios.tcgetattr(port)[5])


def test_the_example_is_short() -> None:
    assert len(FILE.read_text().splitlines()) < 60


def test_the_example_publishes_prepares_and_unprepares(tmp_path: Path, ports: dict[str, int]) -> None:
    async def main() -> None:
        client, cdi = MemoryClient(), MemoryStore()
        plugin = NodeDriver(driver_in(tmp_path), memory_host(cdi=cdi), client, IdleClock())
        (pool,) = await plugin.discover_pools()
        assert len(build_slices(pool, NAME, NODE, Features("1.36")).specs) == 1
        assert [device.name for group in pool.groups for device in group] == ["ttyusb0", "ttyusb1"]
        fast = opaque({"apiVersion": f"{NAME}/v1", "kind": "PortConfig", "speed": 115200}, driver=NAME)
        ref = put_claim(client, "modem", "ttyusb1", driver=NAME, config=[fast])
        assert (await plugin.prepare([ref]))[ref.uid].error == ""
        assert speed(ports["ttyUSB1"]) == termios.B115200
        spec = cdi.read(f"k8s.{NAME}-claim_{ref.uid}")
        assert spec is not None
        assert [node.path for node in spec.devices[0].container_edits.device_nodes] == [str(tmp_path / "ttyUSB1")]
        assert await plugin.unprepare([ref]) == {ref.uid: ""}
        assert speed(ports["ttyUSB1"]) == termios.B9600

    idle.run(main())


def test_a_node_without_ports_publishes_an_empty_slice(tmp_path: Path) -> None:
    (pool,) = idle.run(discover(driver_in(tmp_path)))
    (spec,) = build_slices(pool, NAME, NODE, Features("1.36")).specs
    assert not spec.devices


async def discover(driver: Driver) -> Sequence[DevicePool]:
    return await driver.discover()


def test_the_example_rejects_wrong_parameters_and_unprepares_removed_ports(
    tmp_path: Path, ports: dict[str, int]
) -> None:
    async def main() -> None:
        client = MemoryClient()
        plugin = NodeDriver(driver_in(tmp_path), memory_host(), client, IdleClock())
        odd = opaque({"apiVersion": f"{NAME}/v1", "kind": "PortConfig", "speed": 7}, driver=NAME)
        ref = put_claim(client, "odd", "ttyusb0", driver=NAME, config=[odd])
        assert "speed: expected 9600" in (await plugin.prepare([ref]))[ref.uid].error
        good = put_claim(client, "good", "ttyusb0", driver=NAME)
        assert (await plugin.prepare([good]))[good.uid].error == ""
        (tmp_path / "ttyUSB0").unlink()
        assert await plugin.unprepare([good]) == {good.uid: ""}
        missing = put_claim(client, "missing", "ttyusb0", driver=NAME)
        assert "stty" in (await plugin.prepare([missing]))[missing.uid].error

    idle.run(main())
